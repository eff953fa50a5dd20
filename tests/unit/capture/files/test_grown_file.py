"""A file that grew is read from its last complete step, and any other change from its beginning."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from harken.capture.files.grown_file import RunningHashes
from harken.capture.files.importer import Importer
from harken.capture.files.report import ImportResult
from harken.capture.files.sources import iter_files
from harken.core.commits import ArtifactRef
from harken.core.secrets.redaction import Credentials
from harken.index.catalogue import MAX_READINGS, Catalogue
from harken.store.imported_files import read_imported_files
from harken.store.sqlite.store import SqliteStore
from tests.redaction_kit import AWS, find_in_store
from tests.unit.formats.transcript_kit import (
    Transcript,
    text_block,
    tool_result_block,
    tool_use_block,
)

TURNS = 40
MARKED = "[redacted aws-key-id]"


class Desk:
    """A growing transcript, and imports of it in new processes or in one."""

    def __init__(self, folder: Path) -> None:
        self.path, self._index = folder / "a.jsonl", folder / "index.db"
        self.store = SqliteStore(folder / "store.db")
        self.session = Transcript()
        self.hashes = RunningHashes(lambda: self.now)
        self.now = 0.0
        self.redact: Credentials | None = None
        self.add(TURNS)

    def add(self, turns: int = 1) -> None:
        """Add turns to the file, at its end."""
        before = len(self.session.data)
        for _ in range(turns):
            self.session.user(f"And {len(self.session.records)}? " + "Please. " * 20)
            self.session.answer(text_block("Yes."))
        with self.path.open("ab") as file:
            file.write(self.session.data[before:])

    def load(self, hashes: RunningHashes | None = None) -> ImportResult:
        """Import the file. Without hashes: in a new process."""
        with closing(Catalogue(self._index)) as catalogue:
            importer = Importer(self.store, catalogue, hashes=hashes, redact=self.redact)
            [result] = importer.run([*iter_files(self.path)])
        assert result.report.raw is not None
        data = self.path.read_bytes()
        expected = data if self.redact is None else data.replace(AWS.encode(), MARKED.encode())
        assert self.store.raw(ArtifactRef(result.report.raw)) == expected
        return result

    def load_elsewhere(self) -> ImportResult:
        """Import the file into another store."""
        with closing(Catalogue(None)) as catalogue:
            folder = self.path.parent / "other"
            folder.mkdir(exist_ok=True)
            with closing(SqliteStore(folder / "store.db")) as store:
                [result] = Importer(store, catalogue).run([*iter_files(self.path)])
        return result


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    desk = Desk(tmp_path)
    yield desk
    desk.store.close()


@pytest.mark.parametrize("is_followed", [False, True])
def test_only_the_end_of_a_grown_file_is_parsed(desk: Desk, is_followed: bool) -> None:
    hashes = desk.hashes if is_followed else None
    size = desk.path.stat().st_size
    assert desk.load(hashes).parsed_bytes == size
    for turns in range(1, 5):
        desk.add(turns)
        result = desk.load(hashes)
        assert result.parsed_bytes < size // 4
        assert (result.new, result.report.commits) == (turns, len(desk.session.records) // 2)
    assert result.report == desk.load_elsewhere().report


@pytest.mark.req("D-06")
@pytest.mark.parametrize("is_followed", [False, True])
def test_a_grown_file_is_stored_without_the_credentials_of_its_end(
    desk: Desk, is_followed: bool
) -> None:
    hashes, desk.redact = desk.hashes if is_followed else None, Credentials()
    size = desk.path.stat().st_size
    desk.load(hashes)
    desk.add()
    assert desk.load(hashes).parsed_bytes < size // 4, "it has no credentials yet"
    desk.session.user(f"Use {AWS}.")
    desk.session.answer(text_block("Yes."))
    desk.path.write_bytes(desk.session.data)
    assert desk.load(hashes).report.redacted == {"aws-key-id": 1}
    desk.add()
    result = desk.load(hashes)
    assert (result.new, result.report.redacted) == (1, {"aws-key-id": 1})
    assert find_in_store(desk.store) == set()


def test_chunks_of_a_grown_file_are_those_of_the_complete_file(desk: Desk) -> None:
    desk.load()
    for _ in range(6):
        desk.add(400)
        result = desk.load()
    with closing(SqliteStore(desk.path.parent / "other.db")) as store:
        with closing(Catalogue(None)) as catalogue:
            list(Importer(store, catalogue).run([*iter_files(desk.path)]))
        raw = ArtifactRef(result.report.raw or "")
        assert desk.store.chunk_names(raw) == store.chunk_names(raw)
        assert len(store.chunk_names(raw)) > 1


def test_record_of_a_grown_file_has_the_subagents_of_its_beginning(desk: Desk) -> None:
    desk.session.answer(tool_use_block("c1", "Task", prompt="You are Ann."))
    result = {"agentId": "ann"}
    desk.session.user([tool_result_block("c1", "ok")], toolUseResult=result)
    desk.session.answer(text_block("So."))
    desk.path.write_bytes(desk.session.data)
    desk.add(600)
    desk.load()
    desk.add()
    assert desk.load().parsed_bytes < 10_000
    [file] = read_imported_files(desk.store).values()
    assert [spawner.agent for spawner in file.record.spawners] == ["ann"]


def _replace(path: Path, data: bytes) -> None:
    """Replace a file by another one, as an atomic write does."""
    other = path.with_name("new")
    other.write_bytes(data)
    other.replace(path)


def _truncate(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: data.index(b"\n", len(data) // 2) + 1])


def _change_middle(path: Path) -> None:
    """Change a byte of a prompt in the first half of the file, in place."""
    with path.open("r+b") as file:
        data = file.read()
        file.seek(data.index(b"Please", len(data) // 4))
        file.write(b"please")


def _rotate(path: Path) -> None:
    """Move the file away, and begin a new one with its last lines."""
    lines = path.read_bytes().splitlines(keepends=True)
    path.rename(path.with_name("a.jsonl.1"))
    path.write_bytes(b"".join(lines[-10:]))


CHANGES = {
    "truncated": _truncate,
    "changed in the middle": _change_middle,
    "rotated": _rotate,
    "replaced": lambda path: _replace(path, path.read_bytes().replace(b"Please", b"PLEASE", 1)),
}


@pytest.mark.parametrize("is_grown", [False, True])
@pytest.mark.parametrize("is_followed", [False, True])
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_changed_file_is_read_from_its_beginning(
    desk: Desk, change: object, is_followed: bool, is_grown: bool
) -> None:
    assert callable(change)
    hashes = desk.hashes if is_followed else None
    desk.load(hashes)
    desk.add()
    desk.load(hashes)
    desk.now += 3600
    change(desk.path)
    if is_grown:
        desk.add(2 * TURNS)
    time_ns = desk.path.stat().st_mtime_ns + 10**9
    os.utime(desk.path, ns=(time_ns, time_ns))
    result = desk.load(hashes)
    assert result.parsed_bytes == desk.path.stat().st_size
    elsewhere = desk.load_elsewhere().report
    assert result.report.lines == elsewhere.lines
    assert result.report.commits == elsewhere.commits
    if change is not _truncate:  # Else the new records refer to removed ones.
        desk.add()
        assert desk.load(hashes).parsed_bytes < desk.path.stat().st_size


def test_follower_hashes_all_bytes_again_after_some_time(desk: Desk) -> None:
    desk.add(800)
    desk.load(desk.hashes)
    desk.add()
    assert desk.load(desk.hashes).parsed_bytes < 10_000
    _change_middle(desk.path)
    desk.now += 60
    desk.add()
    assert desk.load(desk.hashes).parsed_bytes == desk.path.stat().st_size


def test_grown_file_is_read_from_its_beginning_if_the_store_lost_its_bytes(desk: Desk) -> None:
    desk.load()
    desk.add()
    desk.store.set_heads(dict.fromkeys(desk.store.heads()))
    assert desk.load().parsed_bytes == desk.path.stat().st_size


def test_grown_file_is_read_from_its_beginning_into_another_store(
    desk: Desk, tmp_path: Path
) -> None:
    desk.load()
    desk.add()
    desk.store.close()
    desk.store = SqliteStore(tmp_path / "second.db")
    result = desk.load()
    assert result.parsed_bytes == desk.path.stat().st_size
    assert result.new == result.report.commits


def test_readings_of_the_files_imported_last_are_saved(tmp_path: Path) -> None:
    with closing(Catalogue(tmp_path / "index.db")) as catalogue:
        for number in range(MAX_READINGS + 10):
            catalogue.note_reading(f"/{number}", b"state")
        catalogue.commit()
        names = [f"/{number}" for number in range(MAX_READINGS + 10)]
        assert {*catalogue.find_readings(names)} == {*names[10:]}
        catalogue.note_reading(names[-1], None)
        assert names[-1] not in catalogue.find_readings(names)
        catalogue.commit()
        assert names[-1] not in catalogue.find_readings(names)


def test_purged_text_is_in_no_saved_reading(desk: Desk, tmp_path: Path) -> None:
    desk.load()
    copy = tmp_path / "copy.db"
    with closing(Catalogue(tmp_path / "index.db")) as catalogue:
        assert catalogue.find_readings([str(desk.path)])
        catalogue.write_replaced(copy, lambda data: data)
    with closing(Catalogue(copy)) as catalogue:
        assert catalogue.find_readings([str(desk.path)]) == {}
        assert catalogue.find_entries([str(desk.path)])
