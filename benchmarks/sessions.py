"""`SQLiteSession` of the OpenAI Agents SDK and `HarkenSession`, side by side on the same session.

Both take each step in turn, in one process: the text of the user and then the answer, each durable
on return, as a run of an agent adds them. Then each is opened again, and loads and forks.
SQLiteSession has no forks: its fork is a copy of the items.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.measure import Row
from benchmarks.savers import ENDS, Cost, describe_ends, measure_kilobytes, truncate_wals
from benchmarks.stores import Words

STEPS = 1000
FORKS = 10


class Side:
    """A session, its folder, and the costs of its steps."""

    def __init__(self, name: str, folder: Path, open_session: Callable[[Path, str], Any]) -> None:
        self.name, self.folder, self._open = name, folder, open_session
        folder.mkdir()
        self.session = open_session(folder, "s")
        self.steps: list[Cost] = []

    async def step(self, items: list[Any]) -> None:
        """Add the items of a step, one after the other."""

        async def work() -> None:
            for item in items:
                await self.session.add_items([item])

        self.steps.append(await measure_cost(work()))

    def reopen(self) -> None:
        """Close the session, and open it again."""
        self.session.close()
        truncate_wals(self.folder)
        self.session = self._open(self.folder, "s")

    @property
    def kilobytes(self) -> float:
        """The size of its files."""
        return measure_kilobytes(self.folder)

    async def fork(self, number: int) -> Cost:
        """Continue the session as another one."""

        async def work() -> None:
            if hasattr(self.session, "fork"):
                await self.session.fork(f"fork-{number}")
                return
            items = await self.session.get_items()
            copy = self._open(self.folder, f"fork-{number}")
            await copy.add_items(items)
            copy.close()

        return await measure_cost(work())


def rows() -> Iterator[Row]:
    """Measure both sessions."""
    with tempfile.TemporaryDirectory() as folder:
        yield from asyncio.run(_compare(Path(folder)))


async def _compare(folder: Path) -> list[Row]:
    sides = [
        Side("Harken", folder / "harken", _open_harken),
        Side("SQLiteSession", folder / "sqlite", _open_sqlite),
    ]
    words = Words()
    for number in range(STEPS):
        items = _build_items(words, number)
        for side in sides if number % 2 else sides[::-1]:
            await side.step(items)
    figures: dict[str, list[str]] = {}

    def note(what: str, side: Side, form: str) -> None:
        figures.setdefault(what, []).append(f"{side.name} {form}")

    for side in sides:
        side.reopen()
        note("KB on disk", side, f"{side.kilobytes:,.0f}")
        for label, form in describe_ends(side.steps):
            note(label, side, form)
        loads = [await measure_cost(side.session.get_items()) for _ in range(5)]
        load = f"{loads[0].cpu_ms:.1f}, then {median(c.cpu_ms for c in loads[1:]):.1f}"
        note("CPU ms to load all items", side, load)
        side.reopen()
        last = [await measure_cost(side.session.get_items(20)) for _ in range(5)]
        load = f"{last[0].cpu_ms:.1f}, then {median(c.cpu_ms for c in last[1:]):.1f}"
        note("CPU ms to load the last 20 items", side, load)
        before = side.kilobytes
        forks = [await side.fork(number) for number in range(FORKS)]
        note("CPU ms to fork", side, f"{median(c.cpu_ms for c in forks):.2f}")
        side.reopen()
        note("KB of a fork", side, f"{(side.kilobytes - before) / FORKS:.1f}")
        side.session.close()
    return [
        Row(f"sessions: {what}", "; ".join(values), note=_NOTES.get(what, ""))
        for what, values in figures.items()
    ]


_NOTES = {
    "KB on disk": f"{STEPS:,} steps: a text of 500 bytes of the user, and one of the agent",
    f"ms a step, the first {ENDS}": "aim: at most 1.5 times SQLiteSession; median; two writes",
    "CPU ms to load all items": "the first time after opening, then again",
}


def _open_harken(folder: Path, id_: str) -> Any:
    from harken.adapters.openai_agents import HarkenSession

    return HarkenSession(id_, folder)


def _open_sqlite(folder: Path, id_: str) -> Any:
    from agents import SQLiteSession

    return SQLiteSession(id_, folder / "agents.db")


def _build_items(words: Words, number: int) -> list[Any]:
    (_, question), (_, answer) = words.step()
    return [
        {"role": "user", "content": question},
        {
            "id": f"msg_{number:048x}",
            "content": [{"annotations": [], "text": answer, "type": "output_text", "logprobs": []}],
            "role": "assistant",
            "status": "completed",
            "type": "message",
        },
    ]


async def measure_cost(work: Awaitable[object]) -> Cost:
    """Wait for some work, and return what it took."""
    wall_s, cpu_s = time.perf_counter(), time.process_time()
    await work
    return Cost((time.perf_counter() - wall_s) * 1e3, (time.process_time() - cpu_s) * 1e3)
