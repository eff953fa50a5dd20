"""The table of changes of a store file, which triggers fill in the transaction of each change.

So changes by every process are there, also by one that does not know the table. The table exists
after the first question for changes. It holds names only, because a purge leaves no trace.

Source: docs/formats/store.md, "Changes".
"""

from __future__ import annotations

import sqlite3
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from harken.store.changes import ChangePage, build_page
from harken.store.sqlite.database import SqliteConnection, split_script
from harken.store.sqlite.side_tables import remove_seal

_CREATE_SQL = """
CREATE TABLE change (
    id INTEGER PRIMARY KEY AUTOINCREMENT, kind INTEGER NOT NULL, name BLOB NOT NULL, head BLOB
) STRICT;
INSERT INTO change (kind, name) SELECT 1, name FROM history ORDER BY id;
INSERT INTO change (kind, name, head) SELECT 4, name, head FROM branch ORDER BY name;
CREATE TRIGGER change_commit AFTER INSERT ON history
    BEGIN INSERT INTO change (kind, name) VALUES (1, NEW.name); END;
CREATE TRIGGER change_notes AFTER UPDATE OF notes, principal ON history
    WHEN NEW.notes IS NOT OLD.notes OR NEW.principal IS NOT OLD.principal
    BEGIN INSERT INTO change (kind, name) VALUES (2, NEW.name); END;
CREATE TRIGGER change_removed AFTER DELETE ON history
    BEGIN INSERT INTO change (kind, name) VALUES (3, OLD.name); END;
CREATE TRIGGER change_branch AFTER INSERT ON branch
    BEGIN INSERT INTO change (kind, name, head) VALUES (4, NEW.name, NEW.head); END;
CREATE TRIGGER change_branch_deleted AFTER DELETE ON branch
    BEGIN INSERT INTO change (kind, name, head) VALUES (5, OLD.name, OLD.head); END;
CREATE TRIGGER change_purged AFTER INSERT ON tombstone
    BEGIN INSERT INTO change (kind, name) VALUES (6, CAST(NEW.name AS BLOB)); END;
"""
_SELECT_SQL = "SELECT id, kind, name, head FROM change WHERE id > ? ORDER BY id LIMIT ?"


if TYPE_CHECKING:

    class _Transactions:
        """The methods of the store that read and change its tables."""

        def snapshot(self) -> AbstractContextManager[SqliteConnection]:
            raise NotImplementedError

        def _changing(self) -> AbstractContextManager[SqliteConnection]:
            raise NotImplementedError

else:
    _Transactions = object


class ChangeTable(_Transactions):
    """The changes of the store that inherits from it."""

    _keeps_changes = False

    def changes(self, after: int = 0, limit: int = 1000) -> ChangePage:
        """As `ChangeStore.changes`."""
        if not self._keeps_changes:
            self._keep_changes()
        with self.snapshot() as connection:
            # A move of a branch is a deletion and an insertion, of which the last row is no part.
            rows = connection.execute(_SELECT_SQL, [after, limit + 2]).fetchall()
        return build_page(rows, after, limit, remove_seal)

    def _keep_changes(self) -> None:
        """Create the table and the triggers if they do not exist."""
        with self.snapshot() as connection:
            is_new = not _has_table(connection)
        if is_new:
            with self._changing() as connection:
                if not _has_table(connection):  # Another process may have been faster.
                    for statement in split_statements(_CREATE_SQL):
                        connection.execute(statement)
        self._keeps_changes = True


def split_statements(script: str) -> list[str]:
    """Split a script with triggers. Their bodies are on the line of their END."""
    script_text = script.replace("; END;\n", "\0END;\n")
    return [statement.replace("\0", "; ") for statement in split_script(script_text)]


def _has_table(connection: sqlite3.Connection) -> bool:
    query = "SELECT 1 FROM sqlite_schema WHERE name = 'change'"
    return connection.execute(query).fetchone() is not None
