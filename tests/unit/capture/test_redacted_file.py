"""The texts of a database are redacted in all its tables, and its triggers do not run."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from harken.capture.redacted_file import FileNotRedactable, iter_file, redact_database
from harken.core.secrets.redaction import Credentials
from tests.redaction_kit import ANTHROPIC, AWS, GITHUB

pytestmark = pytest.mark.req("D-06")


def write_database(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as database:
        for statement in statements:
            database.execute(statement)
        database.commit()


def test_credentials_are_removed_from_each_table(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    write_database(
        path,
        "CREATE TABLE extra(id INTEGER PRIMARY KEY, virtual_path TEXT)",
        f"INSERT INTO extra VALUES(1, 'x {ANTHROPIC}'), (2, 'VIRTUAL')",
        "CREATE TABLE bytes(a BLOB)",
        f"INSERT INTO bytes VALUES(CAST('ab {GITHUB}' AS BLOB)), (x'ff00')",
        "CREATE TABLE made(a TEXT COLLATE NOCASE, b TEXT AS (a || '!') STORED, c AS (upper(a)))",
        f"INSERT INTO made(a) VALUES('key {AWS}'), ('key {AWS.lower()}')",
        "CREATE TABLE named(a TEXT PRIMARY KEY) WITHOUT ROWID",
        f"INSERT INTO named VALUES('{GITHUB}')",
        'CREATE TABLE "a ""quoted"" name"("a ""column""")',
        f'INSERT INTO "a ""quoted"" name" VALUES(\'{AWS}\')',
        "CREATE VIRTUAL TABLE search USING fts5(body)",
        f"INSERT INTO search VALUES('the key {GITHUB}')",
        "CREATE TABLE copies(a)",
        "CREATE TRIGGER keep AFTER UPDATE ON extra BEGIN INSERT INTO copies VALUES(old.virtual_path); END",
        "CREATE VIEW seen AS SELECT * FROM extra",
        "CREATE TABLE gone(a)",
        f"INSERT INTO gone VALUES('{AWS}')",
        "DELETE FROM gone",
    )
    redact_database(path, Credentials())
    data = path.read_bytes()
    assert not any(text.encode() in data for text in (ANTHROPIC, GITHUB, AWS))
    with closing(sqlite3.connect(path)) as database:
        texts = database.execute("SELECT virtual_path FROM extra ORDER BY id").fetchall()
        assert texts == [("x [redacted anthropic-key]",), ("VIRTUAL",)]
        made = database.execute("SELECT a, b FROM made").fetchall()
        assert made[0] == ("key [redacted aws-key-id]", "key [redacted aws-key-id]!")
        assert made[1][0] == f"key {AWS.lower()}"
        assert database.execute("SELECT a FROM bytes").fetchall() == [
            (b"ab [redacted github-token]",),
            (b"\xff\x00",),
        ]
        assert database.execute("SELECT count(*) FROM copies").fetchone() == (0,)
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_database_without_credentials_is_not_changed(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    write_database(path, "CREATE TABLE t(a)", "INSERT INTO t VALUES('Hello.')")
    before = path.read_bytes()
    redact_database(path, Credentials())
    assert path.read_bytes() == before


def test_a_database_in_utf_16_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    write_database(path, "PRAGMA encoding = 'UTF-16le'", "CREATE TABLE t(a)")
    with pytest.raises(FileNotRedactable):
        redact_database(path, Credentials())


def test_a_database_is_not_read_as_a_text(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    write_database(path, "CREATE TABLE t(a)")
    with pytest.raises(FileNotRedactable, match="an SQLite database"):
        list(iter_file(path, Credentials()))
    assert b"".join(iter_file(path, None)) == path.read_bytes()
