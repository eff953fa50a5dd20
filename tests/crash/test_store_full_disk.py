"""A store on a disk that is really full: a small tmpfs. Needs Linux and root; skipped elsewhere."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harken.core.commits import CommitId
from harken.errors import StoreWriteError
from harken.store.checks import fsck
from harken.store.sqlite import SqliteStore
from harken.testing.store import batch_of, commit_in


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MB."""
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("a tmpfs needs Linux and root")
    at = tmp_path / "small"
    at.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "harken-test", str(at)]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    if made.returncode != 0:
        pytest.skip(f"this machine mounts no tmpfs: {made.stderr.strip()}")
    try:
        yield at
    finally:
        subprocess.run(["umount", str(at)], check=True)


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
