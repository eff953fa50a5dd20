"""The store: what a thread costs on the disk and in time, and what it takes to read it again.

A thread grows by two messages of 500 bytes a step, a commit each: words of a page of the
documentation, drawn with a seed. A durable commit is measured beside a bare `fdatasync` in the same
minute.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random

import zstandard

from benchmarks.measure import RUNS, Row, median, spread
from harken import Session, SessionOptions
from harken.agents.checkpointer import Checkpointer
from harken.context.checkpoint import CommitDraft, CommitOrigin, checkpoint
from harken.context.compaction import compact
from harken.context.history import commit_history, resolve
from harken.context.materialize import Cache, materialize
from harken.core.clock import format_rfc3339
from harken.core.commits import Commit, CommitId, CommitNotes
from harken.core.messages import Message
from harken.store.base import ObjectKind, WriteBatch
from harken.store.fsck import fsck
from harken.store.sqlite.store import SqliteStore
from harken.testing.store import batch_of, commit_in

PAGE = Path(__file__).parents[1] / "docs" / "explanation" / "agents-and-hooks.md"
BYTES = 500
NOON_US = 1_767_225_600_000_000
LATER = "2100-01-01T00:00:00Z"
MS, US = 1e3, 1e6


def texts(seed: int) -> Iterator[str]:
    """Yield texts of 500 bytes, the same for a seed."""
    dice, known = Random(seed), PAGE.read_text(encoding="utf-8").split()
    while True:
        yield " ".join(dice.choices(known, k=BYTES))[:BYTES]


def draft(text: Iterator[str], step: int, parent: CommitId | None) -> CommitDraft:
    """Return a step: a question and an answer."""
    return CommitDraft(
        messages=[Message("user", next(text)), Message("assistant", next(text))],
        parent=parent,
        trigger="turn_boundary",
        created_at=format_rfc3339(NOON_US + step * 1_000_000),
        origin=CommitOrigin(principal="ann/reviewer", template="reviewer", session_id="cafe" * 4),
    )


def thread(store: SqliteStore, steps: int, seed: int = 1) -> CommitId:
    """Write a thread; return its last commit."""
    text, last = texts(seed), None
    for step in range(steps):
        last = checkpoint(store, draft(text, step, last))
    assert last is not None
    return last


def timed(work: Callable[[], object]) -> float:
    """Return seconds on the wall."""
    start = time.perf_counter()
    kept = work()
    seconds = time.perf_counter() - start
    del kept
    return seconds


def probe(fd: int, turn: int) -> float:
    """Write a page over another and sync; return seconds."""
    data = os.urandom(4096)

    def write_and_sync() -> None:
        os.pwrite(fd, data, turn % 16 * 4096)
        os.fdatasync(fd)

    return timed(write_and_sync)


def durable(folder: Path, steps: int) -> tuple[list[float], list[float], list[float]]:
    """Return seconds of each commit, CPU seconds of each, and of bare syncs in between."""
    store, text = SqliteStore(folder / f"durable{steps}.db"), texts(1)
    fd = os.open(folder / "probe", os.O_RDWR | os.O_CREAT)
    os.pwrite(fd, bytes(16 * 4096), 0)
    wall: list[float] = []
    cpu: list[float] = []
    bare: list[float] = []
    last: CommitId | None = None
    for step in range(steps):
        new = draft(text, step, last)
        start_cpu, start = time.process_time(), time.perf_counter()
        last = checkpoint(store, new)
        wall.append(time.perf_counter() - start)
        cpu.append(time.process_time() - start_cpu)
        if step % 4 == 0:
            bare.append(probe(fd, step))
    os.close(fd)
    store.close()
    return wall, cpu, bare


def writing(folder: Path) -> Iterator[Row]:
    """Measure single commits, and their size."""
    text = texts(1)
    sample = "".join(next(text) for _ in range(2000)).encode()
    ratio = len(sample) / len(zstandard.compress(sample, 3))
    note = f"its text alone: {len(sample) / 1e6:.1f} MB, zstd -3 makes it 1/{ratio:.1f}"
    for steps in (1000, 10_000):
        wall, cpu, bare = durable(folder, steps)
        size = (folder / f"durable{steps}.db").stat().st_size
        value = f"{size / steps * 1000 / 1e6:.3f} MB"
        yield Row(f"store, for 1,000 of {steps:,} steps", value, "< 1.0", note)
        what = f"durable commit, {steps:,} steps"
        yield Row(f"{what}: ms", spread(wall, MS), "", "most: with packs put together")
        yield Row(f"{what}: ms of CPU", spread(cpu, MS), "< 0.5")
        sync = f"bare fdatasync: {median(bare) * MS:.3f} ms"
        yield Row(f"{what} / bare fdatasync", f"{median(wall) / median(bare):.2f}", "<= 4", sync)
        growth = median(wall[-50:]) / median(wall[:50])
        yield Row(f"{what}: last 50 / first 50", f"{growth:.2f}", "< 1.2")


def log_size(folder: Path) -> Row:
    """Return the size of a session log of the thread, with a commit a step."""
    store, text = SqliteStore(folder / "logged.db"), texts(1)
    path = folder / "log.jsonl"
    with Session(path, options=SessionOptions(durability="none")) as session:
        agent, checkpointer = session.allocate_agent_id(), Checkpointer(store=store)
        session.log_agent_created(agent)
        for _ in range(1000):
            session.log_transcript_entry(agent, {"role": "user", "content": next(text)})
            session.log_transcript_entry(agent, {"role": "assistant", "content": next(text)})
            checkpointer.commit_pending(session, agent, "turn_boundary")
    store.close()
    return Row("session log, 1,000 steps", f"{path.stat().st_size / 1e6:.2f} MB", "< 2.2")


def together(folder: Path, run: int, sessions: int = 32, steps: int = 100) -> float:
    """Return commits a second of sessions that write at once."""
    store = SqliteStore(folder / f"together{run}.db")
    chains: list[list[WriteBatch]] = []
    for number in range(sessions):
        text, chain = texts(number), list[WriteBatch]()
        for step in range(steps):
            parent = commit_in(chain[-1]) if chain else None
            two = Message("user", next(text)), Message("assistant", next(text))
            chain.append(batch_of(*two, parent=parent, second=step, principal=f"agent {number}"))
        chains.append(chain)
    threads = [threading.Thread(target=lambda c=chain: [*map(store.write, c)]) for chain in chains]
    start = time.perf_counter()
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    rate = sessions * steps / (time.perf_counter() - start)
    assert len(store.newest_commits(sessions * steps + 1)) == sessions * steps
    store.close()
    return rate


def agents(folder: Path) -> Row:
    """Count how often the prompt of 50 agents is stored."""
    store, prompt = SqliteStore(folder / "agents.db"), "You review code. " * 500
    for number in range(50):
        texts_ = [Message("system", prompt), Message("user", f"task {number}")]
        store.write(batch_of(*texts_, principal=f"agent {number}"))
    found = sum(
        stored.kind is ObjectKind.PART and prompt.encode() in stored.body
        for stored in store.iter_objects()
    )
    store.close()
    return Row("50 agents with one system prompt: stored", f"{found} time", "1")


def reading(folder: Path) -> Iterator[Row]:
    """Measure what reads 20,000 messages of 10,000 commits."""
    path = folder / "durable10000.db"
    store = SqliteStore(path)
    tip = store.newest_commits(1)[0]
    copies = [folder / f"copy{run}.db" for run in range(RUNS)]
    for copy in copies:
        copy.write_bytes(path.read_bytes())
    first, again, whole, walked = list[float](), list[float](), list[float](), list[float]()
    for copy in copies:
        for times, work in (
            (first, lambda s: materialize(s, tip)),
            (again, lambda s: materialize(s, tip)),
            (whole, lambda s: materialize(s, tip).messages),
            (walked, lambda s: commit_history(s, tip, 100)),
        ):
            opened = SqliteStore(copy)  # as a fresh process has it
            opened.newest_commits(1)
            times.append(timed(partial(work, opened)))
            opened.close()
    what = "20,000 messages of 10,000 commits"
    yield Row(f"materialize {what}, as ref, the first time: ms", spread(first, MS, 1), "< 200")
    yield Row("the same, later, in a fresh process: ms", spread(again, MS, 2), "< 200")
    yield Row("the same, as messages: ms", spread(whole, MS, 1), "< 200")
    yield Row("history of 100: ms", spread(walked, MS, 2), "< 10")
    time_ = format_rfc3339(NOON_US + 10**10)
    near = compact(store, CommitDraft(parent=tip, created_at=time_), "All before, in short.")
    text, last = texts(7), near
    for step in range(5):
        last = checkpoint(store, draft(text, 20_000 + step, last))
    cache: Cache = {}
    short = [timed(lambda: materialize(store, last, cache={}).messages) for _ in range(RUNS)]
    yield Row("materialize, a compaction near the tip: ms", spread(short, MS, 2), "< 5")
    materialize(store, tip, cache=cache)
    cached = [timed(lambda: materialize(store, tip, cache=cache)) for _ in range(RUNS)]
    yield Row("materialize, from a cache: ms", spread(cached, MS, 3), "< 2")
    before = store.stats()
    moments = [format_rfc3339(NOON_US + 10**11 + number) for number in range(50)]
    drafts = [CommitDraft(parent=tip, created_at=moment) for moment in moments]
    forks = [timed(partial(checkpoint, store, new)) for new in drafts]
    copied = store.stats().raw_bytes - before.raw_bytes
    yield Row("fork: ms", spread(forks, MS, 2), "< 1", f"{copied} bytes, none of a message")
    store.close()
    yield checked(path)


def checked(path: Path) -> Row:
    """Measure fsck."""
    store = SqliteStore(path)
    raw = store.stats().raw_bytes
    times = [timed(lambda: fsck(store)) for _ in range(RUNS)]
    store.close()
    rates = [raw / 1e6 / seconds for seconds in times]
    return Row("fsck: MB/s of raw bytes", spread(rates, 1, 0), ">= 90", f"{raw / 1e6:.0f} MB")


CODE = """
import sys, time
from harken.context.materialize import materialize
from harken.core.commits import CommitId
from harken.store.sqlite.store import SqliteStore
start = time.perf_counter()
assert len(materialize(SqliteStore(sys.argv[1]), CommitId(sys.argv[2])).messages) == 2000
print(time.perf_counter() - start)
"""


def loading(folder: Path) -> Row:
    """Measure reading 2,000 messages in a process of its own."""
    path = folder / "durable1000.db"
    store = SqliteStore(path)
    [tip] = store.newest_commits(1)
    store.close()
    command = [sys.executable, "-c", CODE, str(path), tip]
    times = [
        float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        for _ in range(RUNS + 1)
    ]
    note = f"the first time: {times[0] * MS:.1f}"
    return Row(
        "2,000 messages in a fresh process, after imports: ms",
        spread(times[1:], MS, 1),
        "< 20",
        note,
    )


def million(folder: Path, count: int = 1_000_000) -> Row:
    """Measure `resolve` among a million commits of a thousand principals."""
    store, root = SqliteStore(folder / "million.db"), batch_of("x")
    store.write(WriteBatch(objects=root.objects, deltas=root.deltas))
    [artifact] = root.deltas
    for start in range(0, count, 20_000):
        commits = [
            Commit(
                artifact=artifact,
                principal=f"p{at % 1000}",
                created_at=format_rfc3339(NOON_US + at),
            )
            for at in range(start, start + 20_000)
        ]
        store.write(WriteBatch(commits=[(commit, CommitNotes()) for commit in commits]))
    store.close()
    times: list[float] = []
    for number in range(100):
        store = SqliteStore(folder / "million.db")
        store.newest_commits(1)
        at = format_rfc3339(NOON_US + number * 9_999)
        times.append(timed(partial(resolve, store, f"p{number % 1000}", at)))
        store.close()
    return Row("resolve among 1,000,000 commits: ms", spread(times, MS, 3), "< 1")


def rows() -> list[Row]:
    """Measure everything."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        found = [*writing(folder), log_size(folder)]
        rates = [together(folder, run) for run in range(RUNS)]
        found.append(Row("32 sessions at once: commits/s", spread(rates, 1, 0), ">= 8,000"))
        found += [*reading(folder), loading(folder), agents(folder), million(folder)]
    return found
