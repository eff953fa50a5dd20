"""Loop overhead: turns with one tool call each, a model that answers at once, the full log."""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measure import RUNS, Row, median, spread
from harken import AgentRuntime, LocalWorld, SessionOptions, load_session, tool
from harken.core.stream import Chunk, Finish, TextDelta, ToolCallDelta
from harken.llm.base import ModelRequest
from harken.session.session import Durability

WINDOW = 50


@dataclass(slots=True)
class InstantModel:
    """Calls the tool `turns` times, then answers; notes the CPU time of each request."""

    turns: int
    marks: list[float]
    name: str = "instant"

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        """Answer without thinking."""
        self.marks.append(time.process_time())
        done = len(self.marks)
        if done > self.turns:
            yield TextDelta("done")
            yield Finish(stop_reason="end_turn")
            return
        yield ToolCallDelta(0, '{"n": 1}', f"call_{len(request.messages)}", "count")
        yield Finish(stop_reason="tool_use")


@tool
async def count(n: int) -> str:
    """Count."""
    return f"counted {n}"


@dataclass(frozen=True, slots=True)
class Turns:
    """One run: CPU and wall seconds a turn, the share of the syncs in it, and the flatness."""

    cpu_s: float
    wall_s: float
    sync_s: float
    flat: float
    """CPU of the last turns over that of the first."""


class TimedDisk:
    """The real disk, with the time that its syncs take."""

    def __init__(self) -> None:
        """Begin at zero."""
        self.sync_s = 0.0

    def write(self, fd: int, data: bytes) -> int:
        """Write."""
        return os.write(fd, data)

    def sync(self, fd: int) -> None:
        """Sync, and count the time."""
        start = time.perf_counter()
        os.fdatasync(fd)
        self.sync_s += time.perf_counter() - start

    def sync_folder(self, folder: Path) -> None:
        """Not part of a turn."""


def run(turns: int, durability: Durability) -> Turns:
    """Run one session of so many turns."""
    model, disk = InstantModel(turns, []), TimedDisk()
    with tempfile.TemporaryDirectory() as folder:
        options = SessionOptions(durability=durability, disk=disk)
        runtime = AgentRuntime(model=model, world=LocalWorld([count]))
        root, session = load_session(
            Path(folder) / "log.jsonl", runtime=runtime, system_prompt="Count.", options=options
        )
        with session:
            cpu, wall, disk.sync_s = time.process_time(), time.perf_counter(), 0.0
            asyncio.run(root.response("Go."))
            cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    steps = [b - a for a, b in zip(model.marks, model.marks[1:], strict=False)]
    flat = median(steps[-WINDOW:]) / median(steps[:WINDOW])
    return Turns(cpu / turns, wall / turns, disk.sync_s / turns, flat)


def rows() -> list[Row]:
    """Measure all four cases."""
    found: list[Row] = []
    for durability in ("none", "turn"):
        for turns in (200, 2000):
            runs = [run(turns, durability) for _ in range(RUNS)]
            what = f"loop, {turns} turns, `{durability}`"
            found.append(
                Row(f"{what}: CPU ms a turn", spread([r.cpu_s for r in runs], 1e3), "< 0.5")
            )
            beyond = [r.wall_s - r.sync_s for r in runs]
            aim = "< 1" if durability == "turn" else ""
            found.append(Row(f"{what}: wall ms a turn beyond the syncs", spread(beyond, 1e3), aim))
            found.append(
                Row(f"{what}: last 50 / first 50", spread([r.flat for r in runs], 1, 2), "< 1.2")
            )
    return found
