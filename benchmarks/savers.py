"""LangGraph's own `SqliteSaver` and `HarkenSaver`, side by side on the same growing thread.

Both take each step in turn, in one process: what a node wrote (`put_writes`), and the checkpoint
after it (`put`), durable on return. Then each is opened again, and loads, forks and lists. The
messages are plain dicts, or the objects of LangChain.
"""

from __future__ import annotations

import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple, TypeAlias

from benchmarks.measure import Row
from benchmarks.stores import Said, Words

STEPS = 1000
FORKS = 10
LISTED = 100
ENDS = 50
"""The number of steps at each end that are compared."""
_THREAD: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
Messages: TypeAlias = list[Any]


class Cost(NamedTuple):
    """What some work took: on the wall, and of the processor."""

    wall_ms: float
    cpu_ms: float


class Side:
    """A saver, its folder, and what its steps took."""

    def __init__(self, name: str, folder: Path, open_saver: Callable[[Path], Any]) -> None:
        self.name, self.folder, self._open = name, folder, open_saver
        folder.mkdir()
        self.saver = open_saver(folder)
        self.config: Any = _THREAD
        self.configs: list[Any] = []
        self.steps: list[Cost] = []

    def step(self, number: int, messages: Messages, new: Messages) -> None:
        """Write what a node returned, and the checkpoint after it."""
        checkpoint = _checkpoint(number, messages)

        def work() -> None:
            if self.configs:
                task = f"00000000-0000-5000-8000-{number:012}"
                self.saver.put_writes(self.config, [("messages", new)], task)
            metadata = {"source": "loop", "step": number, "parents": {}}
            versions = checkpoint["channel_versions"]
            self.config = self.saver.put(self.config, checkpoint, metadata, versions)

        self.steps.append(_cost(work))
        self.configs.append(self.config)

    def reopen(self) -> None:
        """Close the saver, and open it again."""
        close = getattr(self.saver, "close", None) or self.saver.conn.close
        close()
        truncate_wals(self.folder)
        self.saver = self._open(self.folder)

    @property
    def kilobytes(self) -> float:
        """The size of its files."""
        return measure_kilobytes(self.folder)

    def list_states(self) -> None:
        """List the last states."""
        assert len([*self.saver.list(_THREAD, limit=LISTED)]) == LISTED

    def fork(self, number: int, new: Messages) -> Cost:
        """Read an earlier checkpoint, and write another one after it."""
        config = self.configs[number]

        def work() -> None:
            before = self.saver.get_tuple(config).checkpoint["channel_values"]["messages"]
            checkpoint = _checkpoint(STEPS + number, [*before, *new])
            metadata = {"source": "fork", "step": number, "parents": {}}
            self.saver.put(config, checkpoint, metadata, checkpoint["channel_versions"])

        return _cost(work)


def truncate_wals(folder: Path) -> None:
    """Move the write-ahead logs of the databases of a folder into their files."""
    for file in folder.glob("*.db"):
        with closing(sqlite3.connect(file)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def measure_kilobytes(folder: Path) -> float:
    """Return the size of the files of a folder."""
    return sum(file.stat().st_size for file in folder.iterdir()) / 1024


def describe_ends(steps: Sequence[Cost]) -> Iterator[tuple[str, str]]:
    """Yield a label and the median cost of the first and of the last steps."""
    for when, part in (("first", steps[:ENDS]), ("last", steps[-ENDS:])):
        wall, cpu = median(s.wall_ms for s in part), median(s.cpu_ms for s in part)
        yield f"ms a step, the {when} {ENDS}", f"{wall:.2f} (CPU {cpu:.2f})"


def rows() -> Iterator[Row]:
    """Measure both savers with both kinds of messages."""
    for kind, build in (("dicts", _dicts), ("LangChain's objects", _objects)):
        with tempfile.TemporaryDirectory() as folder:
            yield from _compare(kind, Path(folder), build)


def _compare(kind: str, folder: Path, build: Callable[[list[Said], int], Messages]) -> list[Row]:
    sides = [
        Side("Harken", folder / "harken", _open_harken),
        Side("SqliteSaver", folder / "sqlite", _open_sqlite),
    ]
    words = Words()
    messages: Messages = []
    for number in range(STEPS):
        new = build(words.step(), number)
        messages = [*messages, *new]
        for side in sides if number % 2 else sides[::-1]:
            side.step(number, messages, new)
    figures: dict[str, list[str]] = {}

    def note(what: str, side: Side, form: str) -> None:
        figures.setdefault(what, []).append(f"{side.name} {form}")

    for side in sides:
        side.reopen()
        note("KB on disk", side, f"{side.kilobytes:,.0f}")
        for label, form in describe_ends(side.steps):
            note(label, side, form)
        mean = sum(s.wall_ms for s in side.steps) / STEPS
        note("ms a step, mean and slowest", side, f"{mean:.2f}, {max(side.steps).wall_ms:.0f}")
        loads = [_cost(partial(side.saver.get_tuple, _THREAD)) for _ in range(5)]
        load = f"{loads[0].cpu_ms:.1f}, then {median(c.cpu_ms for c in loads[1:]):.1f}"
        note("CPU ms to load the latest state", side, load)
        history = _cost(side.list_states)
        note(f"CPU ms to list {LISTED} states", side, f"{history.cpu_ms:.1f}")
        before = side.kilobytes
        forks = [side.fork(STEPS // 2 + n, build(words.step(), STEPS + n)) for n in range(FORKS)]
        note("CPU ms to fork in the middle", side, f"{median(c.cpu_ms for c in forks):.2f}")
        side.reopen()
        note("KB of a fork", side, f"{(side.kilobytes - before) / FORKS:.1f}")
    return [
        Row(f"savers, {kind}: {what}", "; ".join(values), note=_NOTES.get(what, ""))
        for what, values in figures.items()
    ]


_NOTES = {
    "KB on disk": f"{STEPS:,} steps of two messages of 500 bytes, with the writes of each step",
    "ms a step, the first 50": "aim: at most 1.5 times SqliteSaver; median; put_writes and put",
    "CPU ms to load the latest state": "the first time after opening, then again",
}


def _open_harken(folder: Path) -> Any:
    from harken.adapters.langgraph import HarkenSaver

    return HarkenSaver(folder)


def _open_sqlite(folder: Path) -> Any:
    from langgraph.checkpoint.sqlite import SqliteSaver

    return SqliteSaver(sqlite3.connect(folder / "langgraph.db", check_same_thread=False))


def _checkpoint(number: int, messages: Messages) -> Any:
    from langgraph.checkpoint.base import empty_checkpoint

    return {
        **empty_checkpoint(),
        "channel_values": {"messages": messages},
        "channel_versions": {"messages": number + 1},
        "versions_seen": {"agent": {"branch:to:agent": number}},
    }


def _dicts(said: list[Said], number: int) -> Messages:
    return [{"role": role, "content": text} for role, text in said]


def _objects(said: list[Said], number: int) -> Messages:
    from langchain_core.messages import AIMessage, HumanMessage

    kinds = (HumanMessage, AIMessage)
    return [
        kind(text, id=f"{number}-{at}")
        for at, (kind, (_, text)) in enumerate(zip(kinds, said, strict=True))
    ]


def _cost(work: Callable[[], object]) -> Cost:
    wall_s, cpu_s = time.perf_counter(), time.process_time()
    work()
    return Cost((time.perf_counter() - wall_s) * 1e3, (time.process_time() - cpu_s) * 1e3)
