"""A batch may need objects of packs that are not cached; each is verified."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from harken.core.commits import ArtifactRef, encode_sequence
from harken.errors import ObjectNotFound
from harken.store.base import ObjectKind, WriteBatch
from harken.store.sqlite.store import SqliteStore
from harken.testing.store import batch_of

COUNT = 900
"""More names than are looked up in the index at once."""


def write_deltas(path: Path) -> list[ArtifactRef]:
    """Write deltas into several packs. Return their names."""
    with closing(SqliteStore(path)) as store:
        for start in range(0, COUNT, COUNT // 3):
            batches = [batch_of(f"text {n}") for n in range(start, start + COUNT // 3)]
            store.write(
                WriteBatch(
                    objects={name: body for b in batches for name, body in b.objects.items()},
                    deltas={ref: entries for b in batches for ref, entries in b.deltas.items()},
                )
            )
        names = [obj.name for obj in store.iter_objects() if obj.kind is ObjectKind.DELTA]
    assert len(names) == COUNT
    return [ArtifactRef(name) for name in names]


def as_sequence(names: list[ArtifactRef]) -> WriteBatch:
    return WriteBatch(sequences={encode_sequence(names)[0]: names})


def test_sequence_of_all_deltas_is_written(tmp_path: Path) -> None:
    names = write_deltas(tmp_path / "s.db")
    with closing(SqliteStore(tmp_path / "s.db")) as store:
        store.write(as_sequence(names))
        assert [*store.sequences([encode_sequence(names)[0]]).values()] == [names]


@pytest.mark.parametrize("is_similar", [False, True])
def test_missing_need_is_refused(tmp_path: Path, *, is_similar: bool) -> None:
    """A similar name is at the same place in the index."""
    names = write_deltas(tmp_path / "s.db")
    digit = "1" if names[0].endswith("0") else "0"
    missing = ArtifactRef(f"{names[0][:-1]}{digit}" if is_similar else f"art-{'0' * 64}")
    with closing(SqliteStore(tmp_path / "s.db")) as store:
        with pytest.raises(ObjectNotFound, match=missing):
            store.write(as_sequence([*names, missing]))
        store.write(as_sequence(names))


def test_need_in_a_damaged_pack_is_refused(tmp_path: Path) -> None:
    names = write_deltas(tmp_path / "s.db")
    with closing(sqlite3.connect(tmp_path / "s.db")) as connection:
        connection.execute("UPDATE pack SET data = zeroblob(length(data)) WHERE id = 1")
        connection.commit()
    with closing(SqliteStore(tmp_path / "s.db")) as store, pytest.raises(ObjectNotFound):
        store.write(as_sequence(names))
