"""Stores on servers beside the file: PostgreSQL alone, and with packs in an S3 server.

All are on this machine, so the figures have no network in them: each round trip adds its time. Each
commit is durable (`fsync` is on). Two messages of 500 bytes are a commit.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchmarks.measure import RUNS, Row, spread
from benchmarks.store import MS, draft, texts, timed
from harken.context.checkpoint import checkpoint
from harken.context.materialize import materialize
from harken.core.commits import CommitId
from harken.store.base import Store
from harken.store.postgresql.store import PostgresStore
from harken.store.sqlite.store import SqliteStore
from tests.postgres_kit import run_postgres, run_s3

STEPS = 200
WRITERS = 8
LATER = "2100-01-01T00:00:00Z"


@contextmanager
def _open_stores() -> Iterator[dict[str, Callable[[], Store]]]:
    """Open a file, a database, and a database with a bucket, each again and again."""
    with (
        tempfile.TemporaryDirectory() as folder,
        run_postgres(["fsync=on"]) as postgres,
        run_s3() as s3,
        pytest.MonkeyPatch.context() as patch,
    ):
        for name, value in s3.environment.items():
            patch.setenv(name, value)
        alone = postgres.address()
        with_bucket = postgres.address(packs=f"s3://{s3.create_bucket()}/p")
        yield {
            "SQLite": lambda: SqliteStore(Path(folder) / "store.db"),
            "PostgreSQL": lambda: PostgresStore(alone),
            "PostgreSQL and S3": lambda: PostgresStore(with_bucket),
        }


def rows() -> list[Row]:
    """Measure a commit, commits of several writers, and reads, on each store."""
    results: dict[tuple[str, str], list[float]] = {}
    with _open_stores() as openers:
        for run in range(max(RUNS, 5)):
            for name, opener in openers.items():
                for what, value in _measure(opener, run).items():
                    results.setdefault((what, name), []).append(value)
    return [
        Row(f"{what}: {name}", spread(values, 1, 2), "", _note(name))
        for (what, name), values in sorted(results.items())
    ]


def _note(name: str) -> str:
    return "moto, a server in Python, stands for S3" if "S3" in name else ""


def _measure(opener: Callable[[], Store], run: int) -> dict[str, float]:
    store = opener()
    text = texts(run)
    last: CommitId | None = None

    def commit(step: int) -> None:
        nonlocal last
        last = checkpoint(store, draft(text, run * 10_000 + step, last))

    def write_all() -> None:
        for step in range(STEPS):
            commit(step)

    seconds = timed(write_all)
    assert last is not None
    tip = last

    def write(number: int) -> None:
        own, parent = texts(1000 * run + number + 1), None
        for step in range(STEPS // WRITERS):
            parent = checkpoint(store, draft(own, run * 10_000 + step, parent))

    with ThreadPoolExecutor(WRITERS) as pool:
        together = timed(lambda: list(pool.map(write, range(WRITERS))))
    warm = timed(lambda: materialize(store, tip))
    store.close()
    cold_store = opener()
    cold = timed(lambda: materialize(cold_store, tip))
    history = timed(lambda: cold_store.chain(tip))
    cold_store.collect([], now=LATER, grace_s=0)
    cold_store.close()
    merged_store = opener()
    merged = timed(lambda: materialize(merged_store, tip))
    merged_store.close()
    return {
        "ms a commit": seconds / STEPS * MS,
        f"ms a commit, {WRITERS} threads": together / (STEPS // WRITERS * WRITERS) * MS,
        f"ms to read {STEPS} steps, the first time": warm * MS,
        f"ms to read {STEPS} steps, again": cold * MS,
        f"ms to read {STEPS} steps, after a collection": merged * MS,
        f"ms for a history of {STEPS}": history * MS,
    }
