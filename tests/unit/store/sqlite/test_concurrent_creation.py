"""A store that several threads open for the first time is created once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from harken.store.sqlite.store import SqliteStore
from harken.testing.store import batch_of


def test_concurrent_creation_by_threads_loses_nothing(tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}.db" for number in range(20)]
    threads = 6
    barrier = threading.Barrier(threads)

    def write_to_all(thread: int) -> None:
        for path in paths:
            barrier.wait(20)
            store = SqliteStore(path)
            store.write(batch_of(f"{thread}"))
            store.close()

    with ThreadPoolExecutor(threads) as pool:
        for future in [pool.submit(write_to_all, thread) for thread in range(threads)]:
            future.result()
    for path in paths:
        store = SqliteStore(path)
        assert len(store.names_with_prefix("ctx-", 100)) == threads
        store.close()
