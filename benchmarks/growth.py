"""Growth: costs that follow what is new, at n, 2n, 4n and 8n of what was there before."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

from benchmarks.measure import RUNS, Row, cpu_s, median
from benchmarks.recorded import captured, conversation
from harken.context.history import diff
from harken.context.materialize import materialize
from harken.core.clock import format_rfc3339
from harken.core.commits import (
    ArtifactRef,
    Commit,
    CommitId,
    CommitNotes,
    DeltaEntry,
    Hash,
    encode_delta,
    encode_entry,
)
from harken.core.messages import Message
from harken.recording.recorder import Recorder
from harken.recording.session_pool import RecorderOptions
from harken.store.base import WriteBatch
from harken.store.sqlite.store import SqliteStore

NOON_US = 1_767_225_600_000_000
FACTORS = (1, 2, 4, 8)
COMMITS = 12_500
"""The length of the shortest chain."""
BATCH = 500
TURNS = 250
"""The length of the shortest recorded conversation."""
LAST_TURNS = 20


def row(
    what: str, values: Sequence[float], unit: str, *, digits: int = 2, aim: str = "", note: str = ""
) -> Row:
    """Return a row of values at n, 2n, 4n and 8n."""
    text = ", ".join(f"{value:.{digits}f}" for value in values)
    return Row(f"{what}, at n, 2n, 4n, 8n: {unit}", text, aim or "flat", note)


def chain(store: SqliteStore, parent: CommitId | None, count: int, tag: str) -> CommitId:
    """Write a chain of commits of one message each, several in a transaction."""
    for start in range(0, count, BATCH):
        objects: dict[Hash, bytes] = {}
        deltas: dict[ArtifactRef, list[DeltaEntry]] = {}
        commits: list[tuple[Commit, CommitNotes]] = []
        for number in range(start, min(count, start + BATCH)):
            entry, needed = encode_entry(Message("user", f"{tag} {number}"))
            name, _ = encode_delta([entry])
            objects |= needed
            deltas[name] = [entry]
            time = format_rfc3339(NOON_US + number * 1_000)
            commit = Commit(parent=parent, artifact=name, message_count=1, created_at=time)
            commits.append((commit, CommitNotes(summary=tag)))
            parent = commit.id
        store.write(WriteBatch(objects=objects, deltas=deltas, commits=commits))
    assert parent is not None
    return parent


def _stored_bytes(store: SqliteStore) -> int:
    return sum(len(obj.body) for obj in store.iter_objects())


def _repeat(work: Callable[[int], object]) -> float:
    return 1e3 * median([cpu_s(partial(work, run)) for run in range(RUNS)])


def _chain_costs(folder: Path, factor: int) -> tuple[float, float, float, float]:
    """Return ms of the first and the next `materialize` and a diff, and the bytes of the next."""
    with closing(SqliteStore(folder / f"chain{factor}.db")) as store:
        tip = chain(store, None, COMMITS * factor, "trunk")
        first_ms = 1e3 * cpu_s(lambda: materialize(store, tip, "root"))
        tips = []
        for run in range(2 * RUNS):
            tip = chain(store, tip, 1, f"later {run}")
            tips.append(tip)
        before = _stored_bytes(store)
        next_ms = _repeat(lambda run: materialize(store, tips[run], "root"))
        size = (_stored_bytes(store) - before) / RUNS
        ours, theirs = chain(store, tip, 3, "ours"), chain(store, tip, 5, "theirs")
        return first_ms, next_ms, size, _repeat(lambda _: diff(store, ours, theirs))


def _chains(folder: Path) -> Iterator[Row]:
    first_ms, next_ms, size, diff_ms = zip(
        *(_chain_costs(folder, factor) for factor in FACTORS), strict=True
    )
    note = f"n: {COMMITS:,} commits"
    yield row("materialize, the first time", first_ms, "ms CPU", digits=0, aim="linear", note=note)
    yield row("materialize, the next commit", next_ms, "ms CPU", note=note)
    yield row("materialize, the next commit", size, "bytes stored", digits=0, note=note)
    yield row("diff of two forks near the end", diff_ms, "ms CPU", note=note)


def _record(folder: Path, turns: int) -> tuple[float, float]:
    """Return ms of the beginning and the end of a call in a conversation of this length."""
    begins: list[float] = []
    ends: list[float] = []
    options = RecorderOptions(durability="none")
    with (
        closing(SqliteStore(folder / f"recorded{turns}.db")) as store,
        Recorder(folder / str(turns), store, options=options) as recorder,
    ):
        exchanges = list(conversation(turns))
        for number, exchange in enumerate([exchanges[0], *exchanges[-LAST_TURNS:]]):
            request, response = captured(exchange, number, f"turns{turns}")
            begins.append(cpu_s(partial(recorder.begin, request)))
            ends.append(cpu_s(partial(recorder.end, response)))
    return 1e3 * median(begins[-LAST_TURNS // 2 :]), 1e3 * median(ends[-LAST_TURNS // 2 :])


def _recordings(folder: Path) -> Iterator[Row]:
    begin_ms, end_ms = zip(*(_record(folder, TURNS * factor) for factor in FACTORS), strict=True)
    note = f"n: {2 * TURNS} messages"
    aim = "< 0.6 at 4,000 messages"
    yield row("recording the beginning of a call", begin_ms, "ms CPU", aim=aim, note=note)
    yield row("recording its end, with a durable commit", end_ms, "ms CPU", note=note)


def rows() -> list[Row]:
    """Measure everything."""
    with tempfile.TemporaryDirectory() as name:
        return [*_chains(Path(name)), *_recordings(Path(name))]
