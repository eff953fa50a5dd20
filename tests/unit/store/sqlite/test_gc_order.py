"""A collection removes each object after those that need it, so it may end after any transaction."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from harken.core.commits import encode_sequence, hash_raw
from harken.store.base import WriteBatch
from harken.store.fsck import fsck
from harken.store.sqlite.store import SqliteStore
from harken.testing.store import batch_of

LATER = "2100-01-01T00:00:00Z"


def write_garbage(store: SqliteStore, count: int) -> None:
    """Write objects in packs that are too large to be merged, each need in an earlier pack."""
    dice = Random(2)
    batches = [batch_of(f"{number} {dice.randbytes(6000).hex()}") for number in range(count)]
    for batch in batches:
        store.write(WriteBatch(objects=batch.objects))
    for batch in batches:
        padding = dice.randbytes(7000)
        store.write(WriteBatch(deltas=batch.deltas, raw={hash_raw(padding): padding}))
    for batch in batches:
        deltas = [*batch.deltas]
        store.write(WriteBatch(sequences={encode_sequence(deltas)[0]: deltas}))


@pytest.mark.req("D-01")
def test_store_is_intact_after_each_transaction_of_a_collection(tmp_path: Path) -> None:
    with closing(SqliteStore(tmp_path / "s.db")) as store:
        store.write(batch_of("stays"))
        write_garbage(store, 40)
        problems: list[object] = []
        counts: list[int] = []

        def check(done: int, total: int) -> None:
            if done > total // 2:
                with closing(SqliteStore(tmp_path / "s.db")) as reader:
                    problems.extend(fsck(reader))
                    counts.append(sum(1 for _ in reader.iter_objects()))

        store.collect([], now=LATER, grace_s=0, on_progress=check)
        assert problems == []
        assert len({*counts}) > 2, "the collection had only one transaction"
        assert len(store.newest_commits(5)) == 1
        assert sum(1 for _ in store.iter_objects()) == 4
