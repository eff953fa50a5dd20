"""Rows of the history with values of the wrong types, which a file that was edited may have."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from harken.context.checkpoint import CommitDraft, checkpoint
from harken.core.messages import Message
from harken.errors import StoreError
from harken.store.sqlite.store import SqliteStore

DRAFT = CommitDraft(messages=[Message("user", "Tea?")], created_at="2026-01-01T00:00:00Z")
COLUMNS = "id, name, pack, parent, principal, time_us, notes"


@pytest.mark.parametrize("column", ["pack", "notes"])
def test_a_value_of_the_wrong_type_is_damage(tmp_path: Path, column: str) -> None:
    path = tmp_path / "s.db"
    with closing(SqliteStore(path)) as store:
        ctx = checkpoint(store, DRAFT)
    with closing(sqlite3.connect(path)) as connection, connection:
        # SQLite checks the types of a strict table only.
        connection.executescript(
            f"""
            CREATE TABLE copy ({COLUMNS.replace("id,", "id INTEGER PRIMARY KEY,", 1)});
            INSERT INTO copy SELECT {COLUMNS} FROM history;
            DROP TABLE history;
            ALTER TABLE copy RENAME TO history;
            UPDATE history SET {column} = 'text';
            """
        )
    with (
        closing(SqliteStore(path)) as store,
        pytest.raises(StoreError, match="row 1 of history has values of the wrong types"),
    ):
        store.commits([ctx])
