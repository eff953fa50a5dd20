"""Verdicts of hooks in code: the bytes of the log and the CPU time of a turn, with 0 to 20 hooks.

A turn is an input, a message with three calls, three results of 2 kB, and an answer, so each hook
gives eight verdicts in it.

`python -m benchmarks.verdicts OTHER/src` compares this version with another one: their sessions run
in turn, each in a process of its own.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import process_time

from benchmarks.measure import RUNS, Row, median, spread
from harken import (
    AgentRuntime,
    Hook,
    HookQuestion,
    LocalWorld,
    Ok,
    SessionOptions,
    load_session,
    register_agent_class,
    tool,
)
from harken.core.stream import Chunk, Finish, TextDelta, ToolCallDelta
from harken.core.verdict import Verdict
from harken.llm.base import ModelRequest

HOOKS = (0, 1, 3, 20)
TURNS = 50
CALLS = 3
RESULT = "2026-01-31 12:00:00 GET /index.html 200\n" * 50
ROUNDS = 3 * RUNS


@register_agent_class("bench-agreeing")
class Agreeing(Hook):
    """Judges at every point, and has no objection."""

    def judge(self, question: HookQuestion) -> Verdict:
        """Return the verdict."""
        return Ok()


@tool(reads_only=True)
def read(path: str) -> str:
    """Read a file."""
    return RESULT


@dataclass(slots=True)
class Reading:
    """A model that makes three calls for each input, then answers."""

    name: str = "reading"

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        """Answer at once."""
        if request.messages[-1].role == "tool":
            yield TextDelta("There is nothing unusual in the three files.")
            yield Finish(stop_reason="end_turn")
            return
        count = len(request.messages)
        for index in range(CALLS):
            arguments = json.dumps({"path": f"log/{count}/{index}.txt"})
            yield ToolCallDelta(index, arguments, f"call_{count}_{index}", "read")
        yield Finish(stop_reason="tool_use")


@dataclass(frozen=True, slots=True)
class TurnCost:
    """The cost of a turn."""

    kb: float
    """Kilobytes of the log."""
    cpu_ms: float


def run_session(hook_count: int) -> TurnCost:
    """Run a session with so many hooks. Return the cost of one of its turns."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log.jsonl"
        root, session = load_session(
            log,
            runtime=AgentRuntime(model=Reading(), world=LocalWorld([read])),
            system_prompt="Read the logs.",
            options=SessionOptions(durability="none"),
        )
        for index in range(hook_count):
            Agreeing(session, runtime=root.runtime).install(root, f"agreeing {index}")
        size = log.stat().st_size

        async def take_turns() -> None:
            for _ in range(TURNS):
                await root.response("Is there anything unusual in the next three files?")

        gc.collect()
        with session:
            start = process_time()
            asyncio.run(take_turns())
            seconds = process_time() - start
        return TurnCost((log.stat().st_size - size) / TURNS / 1e3, seconds / TURNS * 1e3)


def rows() -> list[Row]:
    """Measure sessions without and with hooks, in turn."""
    costs: dict[int, list[TurnCost]] = {count: [] for count in HOOKS}
    for _ in range(RUNS):
        for count in HOOKS:
            costs[count].append(run_session(count))
    return [
        row
        for count in HOOKS
        for row in (
            Row(f"{_label(count)}: kB of log a turn", f"{costs[count][0].kb:.1f}"),
            Row(
                f"{_label(count)}: CPU ms a turn",
                spread([cost.cpu_ms for cost in costs[count]], 1, 2),
            ),
        )
    ]


def compare(other_src: Path) -> list[Row]:
    """Measure this version and another one in turn."""
    sources = {"other": other_src, "this": Path(__file__).parents[1] / "src"}
    costs: dict[tuple[str, int], list[TurnCost]] = {}
    for _ in range(ROUNDS):
        for count in HOOKS:
            for name, src in sources.items():
                costs.setdefault((name, count), []).append(_run_in_process(src, count))
    rows = []
    for count in HOOKS:
        other, this = costs["other", count], costs["this", count]
        sizes = f"{other[0].kb:.1f} -> {this[0].kb:.1f}"
        rows.append(
            Row(f"{_label(count)}: kB of log a turn", sizes, "", f"{this[0].kb / other[0].kb:.0%}")
        )
        times = [[cost.cpu_ms for cost in side] for side in (other, this)]
        ratios = [after / before for before, after in zip(*times, strict=True)]
        rows.append(
            Row(
                f"{_label(count)}: CPU ms a turn",
                " -> ".join(spread(side, 1, 2) for side in times),
                "",
                f"{median(ratios):.0%}",
            )
        )
    return rows


def _label(hook_count: int) -> str:
    return "1 hook in code" if hook_count == 1 else f"{hook_count} hooks in code"


def _run_in_process(src: Path, hook_count: int) -> TurnCost:
    command = [sys.executable, "-m", "benchmarks.verdicts", "--hooks", str(hook_count)]
    process = subprocess.run(
        command,
        cwd=Path(__file__).parents[1],
        env={**os.environ, "PYTHONPATH": str(src)},
        check=True,
        capture_output=True,
        text=True,
    )
    return TurnCost(**json.loads(process.stdout))


def main(arguments: Sequence[str]) -> None:
    """Compare with the version in a folder; `--hooks N`: run one session, and print its cost."""
    if arguments[0] == "--hooks":
        cost = run_session(int(arguments[1]))
        print(json.dumps({"kb": cost.kb, "cpu_ms": cost.cpu_ms}))
        return
    for row in compare(Path(arguments[0])):
        print(f"| {row.what} | {row.value} | {row.note} |")


if __name__ == "__main__":
    main(sys.argv[1:])
