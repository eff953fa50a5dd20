"""`AccessIndex`: which objects belong to which commits, so that a request for a name can be judged.

A store finds objects by name and does not know who may read them. The index has for each object the
commits that contain it, and for each commit the scopes from which it can be reached: its own, and
those of its descendants. Who may read a commit may read its whole conversation, and nothing else.

The index follows the changes of the store before each request, so it also knows the writes of
other processes. The file can be removed at any time: the index is built again.
"""

from __future__ import annotations

import json
import re
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, TypeAlias

import msgspec

from harken.core import canonical
from harken.core.clock import parse_rfc3339
from harken.core.commits import CommitId
from harken.errors import StoreError
from harken.store.base import Name, Store, StoredCommit
from harken.store.changes import ChangeStore, StoreChange
from harken.teams.commit_objects import list_objects, slices
from harken.teams.scopes import CommitFacts

_SCHEMA_SQL = """
CREATE TABLE IF NOT EXISTS scope (id INTEGER PRIMARY KEY, facts BLOB NOT NULL UNIQUE) STRICT;
CREATE TABLE IF NOT EXISTS item (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, parent TEXT, scope INTEGER NOT NULL,
    principal BLOB NOT NULL, time_us INTEGER NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS item_parent ON item (parent) WHERE parent IS NOT NULL;
CREATE INDEX IF NOT EXISTS item_time ON item (principal, time_us);
CREATE TABLE IF NOT EXISTS reach (
    item INTEGER NOT NULL, scope INTEGER NOT NULL, PRIMARY KEY (item, scope)
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS object (
    name TEXT NOT NULL, item INTEGER NOT NULL, PRIMARY KEY (name, item)
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS object_item ON object (item);
CREATE TABLE IF NOT EXISTS upload (
    name TEXT NOT NULL, user TEXT NOT NULL, time_us INTEGER NOT NULL, PRIMARY KEY (name, user)
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS state (position INTEGER NOT NULL) STRICT;
INSERT INTO state SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM state);
"""
_PAGE = 500
_NAMES_PER_QUERY = 500
_REACHED = "EXISTS (SELECT 1 FROM reach r WHERE r.item = {} AND r.scope IN (SELECT value FROM s))"
_IN = " IN (SELECT value FROM json_each(?{}))"
_WITH = "WITH s AS (SELECT value FROM json_each(?1)) "
_FULL_NAME_PATTERN = re.compile(r"(?:ctx-|art-)?[0-9a-f]{64}")
_PREFIX_PATTERN = re.compile(r"(?:(?:ctx|art)-[0-9a-f]{0,64}|a?|ar|art|c|ct|ctx)")
_AFTER = "\x7f"
"""Follows every character of a name."""
UPLOAD_US = 86_400 * 1_000_000
"""The time in which a commit must follow the objects that were sent for it."""
Covers: TypeAlias = Callable[[CommitFacts], bool]


class FollowedStore(Store, ChangeStore, Protocol):
    """A store that an index can follow."""


class AccessIndex:
    """The index in the file at `path`, or in memory. Threads and processes may share it.

    `covers` of a query selects scopes: a name is reached if a commit in such a scope contains it,
    or an ancestor of the commit does.
    """

    def __init__(self, path: str | Path = ":memory:") -> None:
        self.path = path
        self._lock = threading.RLock()
        self._facts: dict[int, CommitFacts] = {}
        self._connection = sqlite3.connect(
            path, timeout=30, isolation_level=None, check_same_thread=False
        )
        if path != ":memory:":
            Path(path).chmod(0o600)
        for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "trusted_schema=OFF"):
            self._connection.execute(f"PRAGMA {pragma}")
        with self._changing() as connection:
            for statement in _SCHEMA_SQL.split(";\n")[:-1]:
                connection.execute(statement)

    def close(self) -> None:
        """Close the index. A second call does nothing."""
        with self._lock:
            self._connection.close()

    def follow(self, store: FollowedStore) -> None:
        """Apply the changes of the store since the last call. Raises StoreError."""
        while (page := store.changes(start := self._read_position(), _PAGE)).next != start:
            with self._changing() as connection:
                position = self._read_position()
                new = [change for change in page.changes if change.position > position]
                _Update(connection, store).apply(new)
                last = max(position, page.next)
                connection.execute("UPDATE state SET position = ?", [last])

    def select_reached(self, names: Iterable[Name], covers: Covers) -> set[Name]:
        """Return those of the full names of objects and commits that are reached."""
        return {
            name
            for table, key in (("object", "t.item"), ("item", "t.id"))
            for name, _ in self._select_named(
                f"SELECT DISTINCT name, 0 FROM {table} t WHERE {_REACHED.format(key)} AND name",  # noqa: S608
                [*names],
                covers,
            )
        }

    def owners(self, names: Iterable[Name]) -> dict[Name, set[CommitFacts]]:
        """Return the facts of the commits that contain each object. A commit contains itself."""
        names, facts = [*names], dict[Name, set[CommitFacts]]()
        for query in (
            "SELECT o.name, t.scope FROM object o JOIN item t ON t.id = o.item WHERE o.name",
            "SELECT t.name, t.scope FROM item t WHERE t.name",
        ):
            for name, scope in self._select_named(query, names):
                facts.setdefault(name, set()).add(self._read_facts()[scope])
        return facts

    def newest(self, limit: int, covers: Covers, before: CommitId | None = None) -> list[CommitId]:
        """Return the reached commits, the last written first, also those before a commit."""
        older = "(?2 IS NULL OR t.id < (SELECT id FROM item WHERE name = ?2))"
        query = f"SELECT t.name, 0 FROM item t WHERE {older} AND {_REACHED.format('t.id')} ORDER BY t.id DESC LIMIT ?3"  # noqa: E501, S608
        return [CommitId(name) for name, _ in self._select(query, covers, before, limit)]

    def latest(self, principal: str, until_us: int, covers: Covers) -> CommitId | None:
        """Return the last reached commit of a principal at or before a time, as a store does."""
        query = f"""
            SELECT t.name, 0 FROM item t WHERE t.principal = ?2 AND t.time_us <= ?3
            AND (?4 IS NULL OR t.parent = ?4) AND {_REACHED.format("t.id")}
            ORDER BY t.time_us DESC, t.id DESC LIMIT 1"""  # noqa: S608
        key, latest = _encode(principal), None
        while rows := self._select(query, covers, key, until_us, latest):
            latest = CommitId(rows[0][0])
        return latest

    def with_prefix(self, beginning: str, limit: int, covers: Covers) -> list[Name]:
        """Return reached artifacts and commits with a prefix, sorted."""
        if not _PREFIX_PATTERN.fullmatch(beginning):
            return []
        names: list[Name] = []
        for table, key, kind in (("object", "t.item", "art-"), ("item", "t.id", "ctx-")):
            if beginning.startswith(kind) or kind.startswith(beginning):
                query = f"SELECT DISTINCT t.name, 0 FROM {table} t WHERE t.name >= ?2 AND t.name < ?3 AND {_REACHED.format(key)} ORDER BY t.name LIMIT ?4"  # noqa: E501, S608
                start = max(beginning, kind)
                rows = self._select(query, covers, start, start + _AFTER, limit - len(names))
                names += [name for name, _ in rows]
        return names

    def note_uploads(self, names: Iterable[Name], user: str, now_us: int, *, keep_us: int) -> None:
        """Note that a user sent objects. They are the user's own until a commit contains them."""
        with self._changing() as connection:
            connection.execute("DELETE FROM upload WHERE time_us < ?", [now_us - keep_us])
            rows = [(name, user, now_us) for name in names]
            connection.executemany("INSERT OR REPLACE INTO upload VALUES (?, ?, ?)", rows)

    def select_uploaded(self, names: Iterable[Name], user: str, since_us: int) -> set[Name]:
        """Return those of the names that a user sent since a time."""
        query = "SELECT name, 0 FROM upload WHERE user = ?2 AND time_us >= ?3 AND name"
        return {name for name, _ in self._select_named(query, names, None, user, since_us)}

    def uploaded_with_prefix(
        self, beginning: str, limit: int, user: str, since_us: int
    ) -> list[Name]:
        """Return artifacts with a prefix that a user sent since a time, sorted."""
        start = max(beginning, "art-")
        if not _PREFIX_PATTERN.fullmatch(beginning) or not start.startswith(beginning):
            return []
        query = (
            "SELECT name, 0 FROM upload WHERE name >= ?2 AND name < ?3 AND user = ?4 "
            "AND time_us >= ?5 ORDER BY name LIMIT ?6"
        )
        rows = self._select(query, None, start, start + _AFTER, user, since_us, limit)
        return [name for name, _ in rows]

    def _select_named(
        self, query: str, names: Iterable[Name], covers: Covers | None = None, *values: object
    ) -> list[tuple[str, int]]:
        """Run a query that ends before `IN (names)`, for the valid names."""
        valid = (name for name in dict.fromkeys(names) if _FULL_NAME_PATTERN.fullmatch(name))
        rows: list[tuple[str, int]] = []
        for batch in slices(valid, _NAMES_PER_QUERY):
            end = _IN.format(len(values) + 2)
            rows += self._select(query + end, covers, *values, json.dumps(batch))
        return rows

    def _select(self, query: str, covers: Covers | None, *values: object) -> list[tuple[str, int]]:
        with self._reading() as connection:
            facts = self._read_facts() if covers is not None else {}
            scopes = [id_ for id_, scope in facts.items() if covers is not None and covers(scope)]
            parameters = [json.dumps(scopes), *values]
            return connection.execute(_WITH + query, parameters).fetchall()

    def _read_facts(self) -> dict[int, CommitFacts]:
        """Return the facts of all scopes by number. Scopes never change."""
        with self._reading() as connection:
            last = max(self._facts, default=0)
            query = "SELECT id, facts FROM scope WHERE id > ?"
            new = {
                id_: msgspec.convert(canonical.from_json(data), CommitFacts)
                for id_, data in connection.execute(query, [last])
            }
            if new:
                self._facts = self._facts | new
            return self._facts

    def _read_position(self) -> int:
        with self._reading() as connection:
            (position,) = connection.execute("SELECT position FROM state").fetchone()
        return int(position)

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            try:
                yield self._connection
            except sqlite3.Error as error:
                raise StoreError(self.path, f"cannot be used: {error}; remove the file") from error

    @contextmanager
    def _changing(self) -> Iterator[sqlite3.Connection]:
        with self._reading() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                connection.execute("ROLLBACK")
                self._facts = {}
                raise


class _Update:
    """Applies changes of a store in an open transaction."""

    def __init__(self, connection: sqlite3.Connection, store: Store) -> None:
        self._connection, self._store = connection, store

    def apply(self, changes: list[StoreChange]) -> None:
        """Apply changes in their order, each with the present state of the store."""
        names = [CommitId(c.name) for c in changes if c.kind in ("commit", "notes")]
        stored = self._store.commits(names)
        new = [stored[name] for name in dict.fromkeys(names) if name in stored]
        unknown = [commit for commit in new if self._find_item(commit.id) is None]
        objects = list_objects(self._store, unknown)
        for change in changes:
            commit = stored.get(CommitId(change.name))
            if change.kind == "removed":
                self._remove(change.name)
            elif change.kind == "purged":
                self._list_again(change.name)
            elif change.kind in ("commit", "notes") and commit is not None:
                if (item := self._find_item(commit.id)) is not None:
                    self._change_scope(item, commit)
                else:  # It may have been removed, and written again.
                    names_inside = objects.get(commit.id)
                    self._add(
                        commit, names_inside or list_objects(self._store, [commit])[commit.id]
                    )

    def _add(self, stored: StoredCommit, objects: Iterable[Name]) -> None:
        scope = self._enter_scope(stored)
        commit = stored.commit
        row = stored.id, commit.parent, scope, _encode(commit.principal)
        insert = "INSERT INTO item (name, parent, scope, principal, time_us) VALUES (?, ?, ?, ?, ?)"
        cursor = self._connection.execute(insert, [*row, parse_rfc3339(commit.created_at)])
        item: int | None = cursor.lastrowid
        assert item is not None
        self._add_objects(item, objects)
        while item is not None and self._add_reach(item, scope):
            item = self._find_parent(item)

    def _add_objects(self, item: int, objects: Iterable[Name]) -> None:
        rows = [(name, item) for name in objects]
        self._connection.executemany("INSERT OR IGNORE INTO object VALUES (?, ?)", rows)

    def _add_reach(self, item: int, scope: int) -> bool:
        insert = "INSERT OR IGNORE INTO reach VALUES (?, ?)"
        return self._connection.execute(insert, [item, scope]).rowcount > 0

    def _change_scope(self, item: int, stored: StoredCommit) -> None:
        update = "UPDATE item SET scope = ?, principal = ? WHERE id = ?"
        principal = _encode(stored.commit.principal)
        self._connection.execute(update, [self._enter_scope(stored), principal, item])
        self._refresh_reach(item)

    def _remove(self, name: Name) -> None:
        item = self._find_item(name)
        if item is None:
            return
        parent = self._find_parent(item)
        for table, key in (("object", "item"), ("reach", "item"), ("item", "id")):
            self._connection.execute(f"DELETE FROM {table} WHERE {key} = ?", [item])  # noqa: S608
        self._refresh_reach(parent)

    def _list_again(self, name: Name) -> None:
        """List the objects of the commits that contain purged content."""
        query = (
            "SELECT t.name FROM object o JOIN item t ON t.id = o.item WHERE o.name = ?1 "
            "UNION SELECT name FROM item WHERE name = ?1"
        )
        names = [CommitId(row[0]) for row in self._connection.execute(query, [name]).fetchall()]
        commits = self._store.commits(names)
        objects = list_objects(self._store, commits.values())
        for stored in commits.values():
            item = self._find_item(stored.id)
            assert item is not None
            self._connection.execute("DELETE FROM object WHERE item = ?", [item])
            self._add_objects(item, objects[stored.id])
            self._change_scope(item, stored)

    def _refresh_reach(self, item: int | None) -> None:
        """Compute the reach of a commit from its own scope and its children; then its ancestors."""
        query = (
            "SELECT scope FROM item WHERE id = ?1 UNION "
            "SELECT r.scope FROM item t JOIN reach r ON r.item = t.id "
            "WHERE t.parent = (SELECT name FROM item WHERE id = ?1)"
        )
        while item is not None:
            new = {row[0] for row in self._connection.execute(query, [item])}
            reach = "SELECT scope FROM reach WHERE item = ?"
            if new == {row[0] for row in self._connection.execute(reach, [item])}:
                return
            self._connection.execute("DELETE FROM reach WHERE item = ?", [item])
            for scope in new:
                self._add_reach(item, scope)
            item = self._find_parent(item)

    def _enter_scope(self, stored: StoredCommit) -> int:
        facts = canonical.to_canonical_bytes(facts_of(stored))
        self._connection.execute("INSERT OR IGNORE INTO scope (facts) VALUES (?)", [facts])
        query = "SELECT id FROM scope WHERE facts = ?"
        return int(self._connection.execute(query, [facts]).fetchone()[0])

    def _find_item(self, name: Name) -> int | None:
        row = self._connection.execute("SELECT id FROM item WHERE name = ?", [name]).fetchone()
        return None if row is None else int(row[0])

    def _find_parent(self, item: int) -> int | None:
        query = "SELECT p.id FROM item t JOIN item p ON p.name = t.parent WHERE t.id = ?"
        row = self._connection.execute(query, [item]).fetchone()
        return None if row is None else int(row[0])


def facts_of(stored: StoredCommit) -> CommitFacts:
    """Return the facts of a stored commit."""
    return CommitFacts(stored.commit.principal, tuple(sorted(set(stored.notes.labels))))


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
