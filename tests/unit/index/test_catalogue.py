"""The catalogue can be lost at any time and never blocks an import."""

from __future__ import annotations

import sqlite3
import stat
from pathlib import Path

import pytest

from harken.core.commits import CommitId
from harken.errors import ConfigError
from harken.index.catalogue import Catalogue, CatalogueEntry, FileFingerprint

MARK = FileFingerprint(7, 10**18, b"tail")
CTX = CommitId("ctx-" + "0" * 64)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "index.db"


def test_records_are_visible_only_after_a_commit(path: Path) -> None:
    catalogue = Catalogue(path)
    catalogue.note("/a", MARK, b"record")
    assert catalogue.find_entries(["/a", "/b"]) == {"/a": CatalogueEntry(MARK, b"record")}
    catalogue.close()
    catalogue = Catalogue(path)
    assert catalogue.find_entries(["/a"]) == {}
    catalogue.note("/a", MARK, b"record")
    catalogue.commit()
    catalogue.close()
    assert Catalogue(path).find_entries(["/a"]) == {"/a": CatalogueEntry(MARK, b"record")}


def test_all_read_files_are_listed(path: Path) -> None:
    catalogue = Catalogue(path)
    entries_by_path = {
        f"/{number}": CatalogueEntry(FileFingerprint(number, number, b""), b"record")
        for number in range(3)
    }
    for name, entry in entries_by_path.items():
        catalogue.note(name, entry.fingerprint, entry.record)
    catalogue.commit()
    assert dict(catalogue.iter_entries()) == entries_by_path


def test_subagents_in_other_files_are_listed(path: Path) -> None:
    catalogue = Catalogue(path)
    for session, agent in (("s", "bob"), ("s", "ann"), ("other", "eve")):
        catalogue.note_spawner("codex", session, agent, CTX)
    catalogue.commit()
    assert catalogue.spawned("codex", "s") == ["ann", "bob"]
    assert catalogue.spawned("claude", "s") == []


def test_lineages_and_spawners_round_trip(path: Path) -> None:
    catalogue = Catalogue(path)
    catalogue.note_lineage({b"key": CTX})
    catalogue.note_spawner("claude", "session", "ann", CTX)
    assert catalogue.lineage([b"key", b"other"]) == {b"key": CTX}
    assert catalogue.spawner("claude", "session", "ann") == CTX
    assert catalogue.spawner("claude", "session", "bob") is None


def test_thousands_of_keys_are_queried_at_once() -> None:
    catalogue = Catalogue(None)
    keys = [str(number).encode() for number in range(3000)]
    catalogue.note_lineage(dict.fromkeys(keys, CTX))
    assert len(catalogue.lineage(keys)) == 3000


def test_catalogue_is_readable_by_its_owner_only(path: Path) -> None:
    Catalogue(path).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_damaged_catalogue_is_recreated(path: Path) -> None:
    path.write_bytes(b"no database at all" * 100)
    assert Catalogue(path).find_entries(["/a"]) == {}


def test_catalogue_of_another_version_is_recreated(path: Path) -> None:
    catalogue = Catalogue(path)
    catalogue.note("/a", MARK, b"record")
    catalogue.commit()
    catalogue.close()
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA user_version=99")
    database.close()
    assert Catalogue(path).find_entries(["/a"]) == {}


def test_database_of_another_program_is_unchanged(path: Path) -> None:
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA application_id=1234")
        database.execute("CREATE TABLE theirs (x)")
    database.close()
    before = path.read_bytes()
    with pytest.raises(ConfigError, match="another program"):
        Catalogue(path)
    assert path.read_bytes() == before


def test_unusable_path_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be used"):
        Catalogue(tmp_path)
