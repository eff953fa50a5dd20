"""A store on a disk that is really full: a small tmpfs. Needs Linux and root; skipped elsewhere."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from harken.core.commits import CommitId
from harken.errors import StoreWriteError
from harken.store.checks import fsck
from harken.store.sqlite import SqliteStore
from harken.testing.store import batch_of, commit_in
from tests.crash.harm import small_file_system


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MB."""
    with small_file_system(tmp_path / "small", "1m") as at:
        yield at


@pytest.mark.req("D-01", "S2-11")
def test_a_full_disk_refuses_whole_batches_and_takes_them_when_there_is_room(
    small_disk: Path,
) -> None:
    path, ballast = small_disk / "s.db", small_disk / "ballast"
    ballast.write_bytes(b"x" * 300_000)
    store, names, noise = SqliteStore(path), list[CommitId](), random.Random(1)
    batch = batch_of("before")
    with pytest.raises(StoreWriteError, match="make room"):
        while True:
            text = noise.randbytes(3000).hex()
            parent = names[-1] if names else None
            batch = batch_of(text, parent=parent, second=len(names))
            store.write(batch)
            names.append(commit_in(batch))
    assert len(names) > 5
    for reader in (store, SqliteStore(path)):
        assert [stored.id for stored in reader.chain(names[-1])] == names[::-1]
        assert reader.objects(batch.objects) == {}
        assert fsck(reader) == []
        if reader is not store:
            reader.close()
    ballast.unlink()
    store.write(batch)
    assert store.objects(batch.objects) == batch.objects
    assert fsck(store) == []
    store.close()
