"""`EditIndex`: the edits of all sessions, by the files that they changed.

The index is derived from the commits of a store and updated from new ones. It holds no text: for
each edit the path, the time, the position of its call in the store, and 32 bits of the hash of each
added line. The text of an edit is read from the store when it is needed.

Source: docs/design/017-attribution.md.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path

import msgspec

from harken.core.commits import CommitId
from harken.index import database
from harken.index.message_text import to_utf8

APPLICATION_ID = 0x48726B65  # "Hrke"
SCHEMA_VERSION = 1
TABLES_SQL = """
CREATE TABLE commits (id INTEGER PRIMARY KEY, name BLOB NOT NULL UNIQUE) STRICT;
CREATE TABLE sessions (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE) STRICT;
CREATE TABLE paths (id INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE, name TEXT NOT NULL) STRICT;
CREATE INDEX paths_by_name ON paths (name);
CREATE TABLE edits (
    id INTEGER PRIMARY KEY,
    path_id INTEGER NOT NULL,
    time INTEGER NOT NULL,          -- of the message with the call, microseconds since 1970
    session_id INTEGER NOT NULL,
    commit_id INTEGER NOT NULL,
    position INTEGER NOT NULL,      -- of the message in the delta of its commit
    call INTEGER NOT NULL,          -- of the call among those of the message
    file INTEGER NOT NULL,          -- of the file among those of the call
    moved_from INTEGER,             -- the path before the call moved the file
    seen_commit_id INTEGER,         -- the last result that had shown the file to the agent
    seen_position INTEGER,
    call_key INTEGER NOT NULL,      -- of the session and the id of the call
    is_failed INTEGER,              -- NULL: no result, or nothing says it
    is_shell INTEGER NOT NULL,      -- a command that fails may have written before
    lines BLOB NOT NULL             -- for each added line, 32 bits of the hash of its key
) STRICT;
CREATE INDEX edits_by_path ON edits (path_id, time);
CREATE INDEX edits_by_old_path ON edits (moved_from) WHERE moved_from IS NOT NULL;
CREATE INDEX edits_without_result ON edits (call_key) WHERE is_failed IS NULL;
CREATE TABLE anchors (
    line INTEGER NOT NULL, edit_id INTEGER NOT NULL, PRIMARY KEY (line, edit_id)
) STRICT, WITHOUT ROWID;
CREATE TABLE calls (key INTEGER PRIMARY KEY) STRICT;
CREATE TABLE views (
    conversation INTEGER NOT NULL, path_id INTEGER NOT NULL, commit_id INTEGER,
    position INTEGER, call_key INTEGER NOT NULL, PRIMARY KEY (conversation, path_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX views_by_call ON views (call_key);
"""
"""`anchors`: some of the lines of each edit, to find it by them. `calls`: keys of indexed calls,
because forks and grown files repeat them. `views`: the last call of each conversation that showed
a file, and its result as soon as it is read."""
_SCHEMA = database.DatabaseSchema("the edits", APPLICATION_ID, SCHEMA_VERSION, TABLES_SQL)


class EditRow(msgspec.Struct, frozen=True, gc=False):
    """An edit of the index."""

    id: int
    path: str
    time_us: int
    session: str
    commit: CommitId
    position: int
    call: int
    file: int
    seen_commit: CommitId | None
    seen_position: int | None
    is_failed: bool | None
    lines: frozenset[int]
    """32 bits of the hash of the key of each added line."""


class EditIndex:
    """The index of edits of a home, in a file that only its owner can read."""

    def __init__(self, path: Path | None, *, repair: database.Repair | None = None) -> None:
        """Open or create the file. A path of None means memory. Raises ConfigError, StoreLocked."""
        self.path = path
        self.database = database.open_database(path, _SCHEMA, repair)
        try:
            self.database.execute("PRAGMA journal_mode=WAL")
            self.database.execute("PRAGMA cache_size=-65536")
        except BaseException:
            self.database.close()
            raise

    def close(self) -> None:
        """Close the database."""
        self.database.close()

    def find_paths(self, name: str) -> list[tuple[int, str]]:
        """Return the ids and the paths of edited files with a name, in any folder."""
        rows = self.database.execute("SELECT id, path FROM paths WHERE name = ?", (to_utf8(name),))
        return [(id_, path) for id_, path in rows]

    def find_paths_below(self, folder: str, limit: int) -> list[str]:
        """Return at most `limit` paths of edited files below a folder."""
        query = "SELECT path FROM paths WHERE path > ? AND path < ? ORDER BY path LIMIT ?"
        rows = self.database.execute(query, (to_utf8(f"{folder}/"), to_utf8(f"{folder}0"), limit))
        return [path for (path,) in rows]

    def edits_of(self, path_ids: Iterable[int], until_us: int) -> list[EditRow]:
        """Return the edits of files that did not fail, up to a time, oldest first."""
        rows = [
            row
            for path_id in path_ids
            for row in self.database.execute(_EDITS_SQL, (path_id, until_us))
        ]
        return sorted(map(_parse_row, rows), key=lambda edit: (edit.time_us, edit.id))

    def edits_of_path(self, path: str, until_us: int) -> list[EditRow]:
        """Return the edits of exactly one path, as `edits_of`."""
        row = self.database.execute(
            "SELECT id FROM paths WHERE path = ?", (to_utf8(path),)
        ).fetchone()
        return [] if row is None else self.edits_of([int(row[0])], until_us)

    def moves_to(self, path_ids: Iterable[int]) -> list[tuple[int, int]]:
        """Return the ids of the earlier paths of files that a call moved to these paths."""
        query = "SELECT moved_from, time FROM edits WHERE moved_from IS NOT NULL AND path_id IN"
        rows = database.iter_rows_in(self.database, query, path_ids)
        return [(path_id, time) for path_id, time in rows]

    def edits_with(self, lines: Iterable[int], until_us: int, limit: int) -> list[EditRow]:
        """Return at most `limit` edits with one of these lines, in any file, oldest first."""
        ids = {
            edit_id
            for line in lines
            for (edit_id,) in self.database.execute(
                "SELECT edit_id FROM anchors WHERE line = ? ORDER BY edit_id DESC LIMIT ?",
                (line, limit),
            )
        }
        query = f"{_COLUMNS_SQL} WHERE ifnull(is_failed, 0) = 0 AND e.id IN"
        rows = database.iter_rows_in(self.database, query, sorted(ids)[-limit:])
        edits = [edit for edit in map(_parse_row, rows) if edit.time_us <= until_us]
        return sorted(edits, key=lambda edit: (edit.time_us, edit.id))

    def is_empty(self) -> bool:
        """Whether no edit is indexed."""
        return self.database.execute("SELECT 1 FROM edits LIMIT 1").fetchone() is None


_COLUMNS_SQL = """
SELECT e.id, p.path, e.time, s.name, c.name, e.position, e.call, e.file, seen.name,
e.seen_position, e.is_failed, e.lines FROM edits e JOIN paths p ON p.id = e.path_id
JOIN sessions s ON s.id = e.session_id JOIN commits c ON c.id = e.commit_id
LEFT JOIN commits seen ON seen.id = e.seen_commit_id
"""
_EDITS_SQL = f"{_COLUMNS_SQL} WHERE e.path_id = ? AND e.time <= ? AND ifnull(is_failed, 0) = 0"


def _parse_row(row: tuple[object, ...]) -> EditRow:
    (
        id_,
        path,
        time_us,
        session,
        commit,
        position,
        call,
        file,
        seen_name,
        seen_position,
        failed,
        data,
    ) = row
    assert isinstance(commit, bytes)
    assert isinstance(data, bytes)
    values = (id_, path, time_us, session, CommitId(f"ctx-{commit.hex()}"), position, call, file)
    seen_commit = CommitId(f"ctx-{seen_name.hex()}") if isinstance(seen_name, bytes) else None
    is_failed = None if failed is None else bool(failed)
    lines = frozenset(struct.unpack(f"<{len(data) // 4}I", data))
    return EditRow(*values, seen_commit, seen_position, is_failed, lines)  # type: ignore[arg-type]
