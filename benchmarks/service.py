"""The service: a durable commit over HTTP beside one in the same process; many clients at once."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from random import Random

from benchmarks.measure import RUNS, Row, median, spread
from harken.core.commits import CommitId
from harken.store.base import Store, WriteBatch
from harken.store.remote.store import RemoteStore
from harken.store.sqlite.store import SqliteStore
from harken.testing.store import batch_of, commit_in

COMMITS = 100
CLIENTS = 32
WORDS = (
    "the of and to in is it you that he was for on are with as his they at be this from or had by "
    "not but some what there we can out other were all your when"
)


@contextmanager
def serving(home: Path, *options: str) -> Iterator[str]:
    """A service in a process of its own; its address."""
    command = [sys.executable, "-m", "harken", "serve", "--json", "--home", str(home), *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())["address"]
        finally:
            process.terminate()


def steps(seed: int, count: int) -> list[WriteBatch]:
    """Return commits, each on the one before, of two messages of 500 bytes."""
    dice = Random(seed)
    parent: CommitId | None = None
    batches: list[WriteBatch] = []
    for at in range(count):
        texts = [" ".join(dice.choices(WORDS.split(), k=120))[:500] for _ in range(2)]
        batches.append(batch_of(*texts, parent=parent, second=at, principal=f"{seed}"))
        parent = commit_in(batches[-1])
    return batches


def commit_s(store: Store, seed: int) -> float:
    """Return the seconds of a commit, one after the other."""
    batches = steps(seed, COMMITS)
    start = time.perf_counter()
    for batch in batches:
        store.write(batch)
    return (time.perf_counter() - start) / COMMITS


def question_s(store: Store) -> float:
    """Return the seconds of a question that costs the store next to nothing."""
    start = time.perf_counter()
    for _ in range(COMMITS):
        store.children(CommitId("ctx-" + "0" * 64))
    return (time.perf_counter() - start) / COMMITS


def together(store: Store, seed: int) -> float:
    """Return commits a second of many threads of this process, each with its own chain."""
    chains = [steps(seed * 1000 + n, COMMITS // 4) for n in range(CLIENTS)]

    def write(batches: list[WriteBatch]) -> None:
        for batch in batches:
            store.write(batch)

    start = time.perf_counter()
    with ThreadPoolExecutor(CLIENTS) as threads:
        list(threads.map(write, chains))
    return sum(map(len, chains)) / (time.perf_counter() - start)


def rows() -> list[Row]:
    """Measure the ways to one store in turn."""
    with tempfile.TemporaryDirectory() as name:
        home, path = Path(name) / "home", Path(name) / "run" / "s"
        with serving(home, "--port", "0") as url, serving(home, "--socket", str(path)):
            token = (home / "service.token").read_text().strip()
            ways: dict[str, Store] = {
                "in this process": SqliteStore(home / "store.db"),
                "at a port": RemoteStore(url, token=token),
                "at a Unix socket": RemoteStore(socket=path),
            }
            for store in ways.values():
                commit_s(store, 0)
            alone = [[commit_s(w, run * 10 + n) for n, w in enumerate(ways.values(), 1)]
                     for run in range(1, RUNS + 1)]  # fmt: skip
            asked = [[question_s(w) for w in ways.values()] for _ in range(RUNS)]
            many = [[together(w, run * 10 + n) for n, w in enumerate(ways.values(), 1)]
                    for run in range(RUNS)]  # fmt: skip
            for store in ways.values():
                store.close()
    found: list[Row] = []
    for n, way in enumerate(ways):
        found += [
            Row(f"durable commit, {way}: ms", spread([run[n] for run in alone], 1000, 2)),
            Row(f"question, {way}: ms", spread([run[n] for run in asked], 1000, 2)),
            Row(
                f"{CLIENTS} writers at once, {way}: commits/s",
                f"{median([run[n] for run in many]):,.0f}",
                note="" if n == 0 else "all writers in one process",
            ),
        ]
    over = [run[1] - run[0] for run in alone]
    found.append(Row("commit at a port - in this process: ms", spread(over, 1000, 2)))
    return found
