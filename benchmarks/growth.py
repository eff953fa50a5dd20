"""Growth: costs that follow what is new, at n, 2n, 4n and 8n of what was there before."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import process_time

from benchmarks.load import write
from benchmarks.measure import RUNS, Row, cpu_s, median
from benchmarks.recorded import captured, conversation
from harken.context.checkpoint import CommitDraft, CommitOrigin, checkpoint
from harken.context.compaction import compact, snapshot
from harken.context.fork import fork
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
from harken.session.branch import branch
from harken.session.session import Session, SessionOptions
from harken.store.base import WriteBatch
from harken.store.sqlite.store import SqliteStore

NOON_US = 1_767_225_600_000_000
FACTORS = (1, 2, 4, 8)
COMMITS = 12_500
"""The length of the shortest chain."""
BATCH = 500
LATER = format_rfc3339(NOON_US + 100_000_000_000)
EVENTS = 12_500
"""The length of the shortest log."""
TURNS = 250
"""The length of the shortest recorded conversation."""
LAST_TURNS = 40


def row(
    what: str, values: Sequence[float], unit: str, *, digits: int = 2, aim: str = "", note: str = ""
) -> Row:
    """Return a row of values at n, 2n, 4n and 8n, and the last one in units of the first."""
    text = ", ".join(f"{value:.{digits}f}" for value in values)
    text += f" (x {values[-1] / values[0]:.1f})"
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


@dataclass(frozen=True, slots=True)
class ChainCosts:
    """Costs of a chain of commits: CPU in ms, and stored bytes."""

    commit_ms: float
    first_ms: float
    first_bytes: float
    next_ms: float
    next_bytes: float
    diff_ms: float
    early_diff_ms: float
    fork_ms: float
    fork_bytes: float
    resolve_ms: float


def _first_costs(path: Path, tip: CommitId, commits: int) -> tuple[float, float]:
    """Return ms of the first materialization of a chain, and the bytes stored for a commit."""
    times: list[float] = []
    size = 0.0
    for run in range(RUNS):
        copy = path.with_name(f"copy{run}-{path.name}")
        copy.write_bytes(path.read_bytes())
        with closing(SqliteStore(copy)) as store:  # Without what the writer has in its caches.
            before = 0 if run else _stored_bytes(store)
        with closing(SqliteStore(copy)) as store:
            times.append(cpu_s(partial(materialize, store, tip, "root")))
            size = size if run else (_stored_bytes(store) - before) / commits
        copy.unlink()
    return 1e3 * median(times), size


def _early_forks(store: SqliteStore, start: CommitId) -> tuple[CommitId, CommitId]:
    """Return the tips of two forks near the beginning: one was compacted, one has a snapshot."""
    tip = chain(store, start, 3, "early")
    compaction = compact(store, CommitDraft(parent=tip, created_at=LATER), "All before, in short.")
    other = snapshot(store, chain(store, start, 5, "others"))
    return chain(store, compaction, 2, "after"), chain(store, other, 2, "behind")


def _chain_costs(folder: Path, factor: int) -> ChainCosts:
    path = folder / f"chain{factor}.db"
    with closing(SqliteStore(path)) as store:
        start = chain(store, None, BATCH, "first")
        tip = chain(store, start, COMMITS * factor - BATCH, "trunk")
    first_ms, first_bytes = _first_costs(path, tip, COMMITS * factor)
    with closing(SqliteStore(path)) as store:
        materialize(store, tip, "root")
        drafts = [
            CommitDraft(parent=tip, messages=[Message("user", f"new {n}")], created_at=LATER)
            for n in range(RUNS)
        ]
        commit_ms = _repeat(lambda run: checkpoint(store, drafts[run]))
        tips = []
        for run in range(2 * RUNS):
            tip = chain(store, tip, 1, f"later {run}")
            tips.append(tip)
        before = _stored_bytes(store)
        next_ms = _repeat(lambda run: materialize(store, tips[run], "root"))
        size = (_stored_bytes(store) - before) / RUNS
        ours, theirs = chain(store, tip, 3, "ours"), chain(store, tip, 5, "theirs")
        diff_ms = _repeat(lambda _: diff(store, ours, theirs))
        early = _early_forks(store, start)
        early_diff_ms = _repeat(lambda _: diff(store, *early))
        before = _stored_bytes(store)
        principals = [CommitOrigin(principal=f"ann {run}") for run in range(RUNS)]
        fork_ms = _repeat(lambda run: fork(store, tip, principals[run], LATER))
        return ChainCosts(
            commit_ms=commit_ms,
            first_ms=first_ms,
            first_bytes=first_bytes,
            next_ms=next_ms,
            next_bytes=size,
            diff_ms=diff_ms,
            early_diff_ms=early_diff_ms,
            fork_ms=fork_ms,
            fork_bytes=(_stored_bytes(store) - before) / RUNS,
            resolve_ms=_repeat(lambda _: store.latest_commit("ann 1", LATER)),
        )


def _chains(folder: Path) -> Iterator[Row]:
    costs = [_chain_costs(folder, factor) for factor in FACTORS]
    note = f"n: {COMMITS:,} commits"

    def values(name: str) -> list[float]:
        return [getattr(cost, name) for cost in costs]

    yield row("checkpoint of a message", values("commit_ms"), "ms CPU", note=note)
    first = values("first_ms")
    yield row("materialize, the first time", first, "ms CPU", digits=0, aim="<= x 8.8", note=note)
    stored = values("first_bytes")
    what = "materialize, the first time, for each commit"
    yield row(what, stored, "bytes stored", digits=0, note=note)
    yield row("materialize, the next commit", values("next_ms"), "ms CPU", note=note)
    stored = values("next_bytes")
    yield row("materialize, the next commit", stored, "bytes stored", digits=0, note=note)
    yield row("diff of two forks near the end", values("diff_ms"), "ms CPU", note=note)
    early = values("early_diff_ms")
    what = "diff of two forks near the beginning, with a compaction and a snapshot"
    yield row(what, early, "ms CPU", note=note)
    yield row("fork at the end", values("fork_ms"), "ms CPU", note=note)
    yield row("fork at the end", values("fork_bytes"), "bytes stored", digits=0, note=note)
    resolved = values("resolve_ms")
    yield row("resolve a principal at a time", resolved, "ms CPU", digits=3, note=note)


@dataclass(frozen=True, slots=True)
class LogCosts:
    """Costs of a session log: CPU in ms, and bytes."""

    append_ms: float
    turn_bytes: float
    load_ms: float
    fork_ms: float


def _log_costs(folder: Path, events: int) -> LogCosts:
    path, options = folder / f"{events}.jsonl", SessionOptions(durability="none")
    write(path, events)
    loads: list[float] = []
    appends: list[float] = []
    size = path.stat().st_size
    for _ in range(RUNS):
        start = process_time()
        session = Session.load(path, options=options)
        loads.append(process_time() - start)
        with session:
            entry = {"role": "user", "content": "And now?"}
            [agent] = session.state.agents
            work = partial(session.log_transcript_entry, agent, entry)
            appends += [cpu_s(work) for _ in range(LAST_TURNS)]
    turn_bytes = (path.stat().st_size - size) / (RUNS * (LAST_TURNS + 1))
    forks = [
        cpu_s(partial(branch, path, folder / f"{events}-{run}.jsonl", options=options))
        for run in range(RUNS)
    ]
    return LogCosts(1e3 * median(appends), turn_bytes, 1e3 * median(loads), 1e3 * median(forks))


def _logs(folder: Path) -> Iterator[Row]:
    costs = [_log_costs(folder, EVENTS * factor) for factor in FACTORS]
    note = f"n: {EVENTS:,} events"
    yield row("append a message", [cost.append_ms for cost in costs], "ms CPU", digits=3, note=note)
    sizes = [cost.turn_bytes for cost in costs]
    yield row("append a message", sizes, "bytes", digits=0, note=note)
    loads, forks = [cost.load_ms for cost in costs], [cost.fork_ms for cost in costs]
    yield row("load a session", loads, "ms CPU", digits=0, aim="linear", note=note)
    yield row("fork a session at its end", forks, "ms CPU", digits=0, aim="linear", note=note)


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
    aim = "< 0.6 at 4,000 messages, < x 1.2"
    yield row("recording the beginning of a call", begin_ms, "ms CPU", aim=aim, note=note)
    yield row("recording its end, with a durable commit", end_ms, "ms CPU", note=note)


def rows() -> list[Row]:
    """Measure everything."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        return [*_chains(folder), *_logs(folder), *_recordings(folder)]
