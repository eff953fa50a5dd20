"""A file of several chunks is read from the backing store, also if it cannot be cached."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from harken.core.commits import ArtifactRef
from harken.errors import ObjectCorrupted, StoreWriteError
from harken.store.base import WriteBatch
from harken.store.chunking import put_file
from harken.store.memory import MemoryStore
from harken.store.refusing_store import RefusingStore
from harken.store.sqlite.store import SqliteStore
from harken.store.tiered.store import TieredStore
from tests.redaction_kit import GITHUB


class FullStore(SqliteStore):
    """A store on a full disk."""

    def write(self, batch: WriteBatch) -> None:
        raise StoreWriteError(self.path, reason="No space left on device")


def build_file() -> bytes:
    random = Random(1)
    lines = [f"{random.random()}\n".encode() for _ in range(70_000)]
    return b"".join([*lines[:30_000], f"key {GITHUB}\n".encode(), *lines[30_000:]])


@pytest.mark.parametrize("store_type", [FullStore, RefusingStore])
def test_a_file_is_read_if_the_local_store_does_not_cache_it(
    tmp_path: Path, store_type: type[SqliteStore]
) -> None:
    backing, data = MemoryStore(), build_file()
    name = put_file(backing, [data])
    assert len(backing.chunk_names(name)) > 1
    with closing(store_type(tmp_path / "store.db")) as here:
        assert TieredStore(here, backing).raw(name) == data


def test_chunks_that_are_another_file_are_refused(tmp_path: Path) -> None:
    class WrongStore(MemoryStore):
        def chunk_names(self, name: ArtifactRef) -> list[ArtifactRef]:
            return super().chunk_names(name)[:-1]

    wrong, data = WrongStore(), build_file()
    name = put_file(wrong, [data])
    with (
        closing(FullStore(tmp_path / "store.db")) as here,
        pytest.raises(ObjectCorrupted, match="its content has the name"),
    ):
        TieredStore(here, wrong).raw(name)
