"""A file whose credentials cannot be removed is reported alone; the others are imported."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from harken.capture.files.follower import FileFollower
from harken.capture.files.importer import Importer
from harken.capture.files.report import ImportResult
from harken.capture.files.sources import iter_files
from harken.core.secrets.redaction import Credentials
from harken.errors import CredentialRefused
from harken.index.catalogue import Catalogue
from harken.store.base import WriteBatch
from harken.store.batch import BatchContents, validate_batch
from harken.store.refusing_store import RefusingStore
from harken.store.sqlite.store import SqliteStore
from tests.redaction_kit import ANTHROPIC, AWS, find_in_store, gzip
from tests.unit.formats.transcript_kit import Transcript, text_block

REFUSED = "a credential of a new kind"
SESSION = "0b1f0a52-6f0b-4a8e-9d3e-1f3a5c7d9e10"

pytestmark = pytest.mark.req("D-06")


class StrictStore(SqliteStore):
    """A store that refuses a text that the redaction does not know."""

    def write(self, batch: WriteBatch) -> None:
        self._check(validate_batch(batch))
        super().write(batch)

    def write_named(self, contents: BatchContents) -> None:
        self._check(contents)
        super().write_named(contents)

    def _check(self, contents: BatchContents) -> None:
        if any(REFUSED.encode() in obj.body for obj in contents.objects.values()):
            raise CredentialRefused(self.path, "an object", kind="new")


def write_transcript(path: Path, text: str) -> None:
    session = Transcript(path.stem)
    session.user(f"{path.stem}: {text}")
    session.answer(text_block("Yes."))
    path.write_bytes(session.data)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "files"
    folder.mkdir()
    write_transcript(folder / "a.jsonl", "Hello.")
    write_transcript(folder / "b.jsonl", REFUSED)
    write_transcript(folder / "c.jsonl", "Good day.")
    return folder


@pytest.fixture
def store(tmp_path: Path) -> Iterator[StrictStore]:
    with closing(StrictStore(tmp_path / "store.db")) as store:
        yield store


def load(store: SqliteStore, folder: Path, index: Path) -> dict[str, ImportResult]:
    with closing(Catalogue(index)) as catalogue:
        importer = Importer(store, catalogue, redact=Credentials())
        return {Path(r.report.source).name: r for r in importer.run([*iter_files(folder)])}


def test_a_refused_file_does_not_stop_the_others(
    store: StrictStore, folder: Path, tmp_path: Path
) -> None:
    write_transcript(folder / "large.jsonl", f"{REFUSED} " + "So. " * 2_200_000)
    results = load(store, folder, tmp_path / "index.db")
    for name in ("a.jsonl", "c.jsonl"):
        assert results[name].report.tips
    for name in ("b.jsonl", "large.jsonl"):
        assert results[name].report.has_failed
        assert "(new)" in results[name].report.reason
    assert len(store.newest_commits()) == 2
    again = load(store, folder, tmp_path / "index.db")
    assert [name for name, result in again.items() if result.is_unchanged] == ["a.jsonl", "c.jsonl"]
    assert again["b.jsonl"].report.has_failed


def test_a_refused_file_does_not_stop_a_follower(store: StrictStore, folder: Path) -> None:
    with closing(Catalogue(None)) as catalogue:
        follower = FileFollower(store, catalogue, redact=Credentials())
        follower.note_changed(folder.iterdir())
        changes = {
            Path(change.report.source).name: change for change in follower.read(to_the_end=True)
        }
        assert changes["b.jsonl"].report.has_failed
        assert changes["a.jsonl"].commits
        assert changes["c.jsonl"].commits
        assert not list(follower.read(to_the_end=True))


def test_files_that_hide_texts_are_not_stored_beside_a_transcript(tmp_path: Path) -> None:
    folder = tmp_path / "files"
    outputs = folder / SESSION / "tool-results"
    outputs.mkdir(parents=True)
    write_transcript(folder / f"{SESSION}.jsonl", "Hello.")
    with closing(sqlite3.connect(outputs / "x.db")) as database:
        database.execute("CREATE TABLE t(a)")
        database.execute("INSERT INTO t VALUES(?)", [f"key {ANTHROPIC}"])
        database.commit()
    (outputs / "a.log.gz").write_bytes(gzip(f"key {AWS}".encode()))
    (outputs / "b.txt").write_bytes(f"key {AWS}".encode("utf-16"))
    (outputs / "c.txt").write_bytes(f"key {AWS}".encode())
    with closing(RefusingStore(tmp_path / "store.db")) as store:
        results = load(store, folder, tmp_path / "index.db")
        assert find_in_store(store) == set()
        refused = {name for name, result in results.items() if result.report.has_failed}
        assert refused == {"x.db", "a.log.gz", "b.txt"}
        assert "an SQLite database" in results["x.db"].report.reason
        assert "\n" not in results["x.db"].report.reason
        assert results["c.txt"].report.redacted == {"aws-key-id": 1}
        assert results[f"{SESSION}.jsonl"].report.tips
