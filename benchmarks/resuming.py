"""Resuming: a log of many agents, each with a hook that was asked, and the first turn after it.

Nobody who did nothing lately is held, so neither what a load takes beyond the reading of its lines
nor the first turn may depend on how many there are.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from time import process_time

from benchmarks.hooks import Asked
from benchmarks.idle import look
from benchmarks.measure import RUNS, Row, cpu_s, spread
from harken import AgentRuntime, LocalWorld, SessionOptions, load_session
from harken.agents.agent import Agent
from harken.core.canonical import to_json_line
from harken.core.stream import Chunk, Finish, TextDelta, ToolCallDelta
from harken.llm.base import ModelRequest
from harken.session.log.reader import LogReadReport, iter_records
from harken.session.session import Session

AGENTS = 1000
"""Subagents; each has a copy of the hook of the root."""


@dataclass(slots=True)
class Founders:
    """Plays the root, which makes all the others, and each of them, which looks once."""

    name: str = "founders"

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        """Answer without thinking."""
        count = len(request.messages)
        made = (count - 2) // 2
        if request.agent == "main" and made < AGENTS:
            task = {"name": f"worker {made}", "instructions": "Work.", "prompt": "Go."}
            yield ToolCallDelta(0, to_json_line(task).decode(), f"t{made}", "task")
            yield Finish(stop_reason="tool_use")
        elif request.agent != "main" and count == 2:
            yield ToolCallDelta(0, to_json_line({"at": count}).decode(), "look", "look")
            yield Finish(stop_reason="tool_use")
        else:
            yield TextDelta("Done.")
            yield Finish(stop_reason="end_turn")


def opened(log: Path) -> tuple[Agent, Session]:
    """Begin a session, or go on with it."""
    runtime = AgentRuntime(model=Founders(), world=LocalWorld([look]))
    options = SessionOptions(durability="none")
    return load_session(log, runtime=runtime, system_prompt="Lead.", name="main", options=options)


def rows() -> list[Row]:
    """Make a log, then resume it several times."""
    loads: list[float] = []
    reads: list[float] = []
    turns: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log.jsonl"
        root, session = opened(log)
        Asked(session, runtime=root.runtime).install(root, "asked")
        with session:
            asyncio.run(root.response("Go."))
        size_mb = log.stat().st_size / 1e6
        for _ in range(RUNS):
            reads.append(cpu_s(lambda: sum(1 for _ in iter_records(log, LogReadReport()))))
            start = process_time()
            root, session = opened(log)
            loads.append(process_time() - start)
            with session:
                start = process_time()
                asyncio.run(root.response("And now?"))
                turns.append(process_time() - start)
    what = f"{AGENTS:,} subagents with a hook each"
    beyond = [load / read for load, read in zip(loads, reads, strict=True)]
    return [
        Row(f"resume, {what}: CPU ms", spread(loads, 1e3, 0), "", f"{size_mb:.0f} MB"),
        Row(f"resume, {what} / reading the lines", spread(beyond, 1, 2), "< 3"),
        Row(f"the first turn after it, {what}: CPU ms", spread(turns, 1e3, 1), "< 20"),
    ]
