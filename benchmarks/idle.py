"""Idle agents: what 1,000 live subagents take in memory, and what it costs to need one again.

Each has a past of its own: prompts, answers and results of tools. The log has it; in memory stay
those that did something lately, and of the others what is needed to find them. Triggers that have
nothing to tell cost next to nothing either.
"""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measure import RUNS, Row, median, spread
from benchmarks.memory import now_kb
from harken import AgentRuntime, LocalWorld, SessionOptions, load_session, tool
from harken.agents.agent import Agent, get_agent, subagent_ids
from harken.core.canonical import to_json_line
from harken.core.stream import Chunk, Finish, TextDelta, ToolCallDelta
from harken.llm.base import ModelRequest
from harken.world.files.root import Root
from harken.world.triggers.file_watch import FilesChanged

AGENTS = 1000
STEPS = 4
"""Model calls of each, all but the last with a tool."""
SEEN = "A line of a file that was read, and that the agent may need later on. " * 240
TRIGGERS = 100
ROUND = 200
"""Agents that are needed again, those first that were let go first."""


@tool(reads_only=True)
async def look(at: int) -> str:
    """Look."""
    return f"{at}: {SEEN}"


@dataclass(slots=True)
class Workers:
    """Plays the root, which makes all the others in one turn, and each of them."""

    name: str = "workers"

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        """Answer without thinking."""
        count = len(request.messages)
        if request.agent == "main":
            made = (count - 2) // 2
            if made == AGENTS:
                yield TextDelta("Done.")
                yield Finish(stop_reason="end_turn")
                return
            task = {"name": f"worker {made}", "instructions": "Work.", "prompt": "Go."}
            yield ToolCallDelta(0, to_json_line(task).decode(), f"t{made}", "task")
        elif count < 2 * STEPS:
            yield ToolCallDelta(0, to_json_line({"at": count}).decode(), f"l{count}", "look")
        else:
            yield TextDelta("I have seen enough.")
            yield Finish(stop_reason="end_turn")
            return
        yield Finish(stop_reason="tool_use")


@dataclass(frozen=True, slots=True)
class Held:
    """One run."""

    each_kb: float
    """What the process takes more than before, for each agent."""
    again_s: float
    """CPU seconds of an answer of an agent that may have to be read again, or not."""


def hold(in_memory: int | None) -> Held:
    """Make all agents, then need some again."""
    with tempfile.TemporaryDirectory() as folder:
        options = SessionOptions(durability="none", in_memory=in_memory)
        runtime = AgentRuntime(model=Workers(), world=LocalWorld([look]))
        root, session = load_session(
            Path(folder) / "log.jsonl",
            runtime=runtime,
            system_prompt="Lead.",
            name="main",
            options=options,
        )
        with session:
            gc.collect()
            before = now_kb()
            asyncio.run(root.response("Go."))
            gc.collect()
            each_kb = (now_kb() - before) / AGENTS
            ids = list(subagent_ids(root).values())[:ROUND]
            asyncio.run(again(root, ids[:1]))  # the first one finds where the lines are
            start = time.process_time()
            asyncio.run(again(root, ids[1:]))
            return Held(each_kb, (time.process_time() - start) / (ROUND - 1))


async def again(root: Agent, ids: Sequence[str]) -> None:
    """Let agents answer once more."""
    for id_ in ids:
        await get_agent(root, id_).response("And now?")


def child(in_memory: str) -> None:
    """Run once in a process of its own, and say what it took."""
    bound = SessionOptions().in_memory if in_memory == "default" else None
    held = hold(bound)
    sys.stdout.write(f"{held.each_kb} {held.again_s}")


def held_in_a_process(in_memory: str) -> Held:
    """Run once in a new process."""
    code = "import sys; from benchmarks.idle import child; child(*sys.argv[1:])"
    command = [sys.executable, "-c", code, in_memory]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return Held(*map(float, done.stdout.split()))


async def wait(folder: Path) -> list[float]:
    """Wait for files that do not change; return the CPU seconds that a second of it takes."""
    async with AsyncExitStack() as stack:
        for number in range(TRIGGERS):
            (folder / f"{number}").mkdir()
            source = FilesChanged(Root(folder), [f"{number}"])
            await stack.enter_async_context(source.open())
            waiting = asyncio.create_task(source.wait())
            stack.callback(waiting.cancel)
        await asyncio.sleep(1)  # each has looked once
        found = []
        for _ in range(RUNS):
            start, since = time.process_time(), time.perf_counter()
            await asyncio.sleep(1)
            found.append((time.process_time() - start) / (time.perf_counter() - since))
    return found


def rows() -> list[Row]:
    """Measure with all agents in memory, and with as many as by default."""
    kept, let_go = [], []
    for _ in range(RUNS):
        kept.append(held_in_a_process("all"))
        let_go.append(held_in_a_process("default"))
    with tempfile.TemporaryDirectory() as folder:
        idle = asyncio.run(wait(Path(folder).resolve()))
    past = (STEPS - 1) * len(SEEN) / 1024
    most = SessionOptions().in_memory
    what = f"{AGENTS:,} live subagents, a past of {past:.0f} kB each"
    all_kb = median([one.each_kb for one in kept])
    again_ms = median([one.again_s for one in kept]) * 1e3
    return [
        Row(
            f"{what}: kB of memory each",
            spread([one.each_kb for one in let_go], 1, 1),
            "< 50",
            f"{most} held; all held: {all_kb:.1f}",
        ),
        Row(
            "an answer of one that was let go: CPU ms",
            spread([one.again_s for one in let_go], 1e3, 2),
            "",
            f"of one that was held: {again_ms:.2f}",
        ),
        Row(f"{TRIGGERS} idle triggers on files: CPU ms a second", spread(idle, 1e3, 1), "< 50"),
    ]
