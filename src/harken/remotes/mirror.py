"""The mirror: the last known state of a remote, in one SQLite file for each remote.

The state of both sides decides what is sent; the mirror makes it cheap to find, and is the common
base of a merge. If it is lost, all names are compared again, and labels that one side removed come
back from the other.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from harken.core import canonical
from harken.core.commits import ArtifactRef, CommitId, CommitNotes, HeadName
from harken.errors import ConfigError, LogLocked
from harken.session.log.compressed import LogStat
from harken.session.log.file import LogFile
from harken.store.notes import group_of
from harken.store.remote.wire import ListedLog

VERSION = 1
_SCHEMA = """
CREATE TABLE IF NOT EXISTS value (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS branch (name TEXT PRIMARY KEY, head TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS head (name TEXT PRIMARY KEY, artifact TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS log (name TEXT PRIMARY KEY, state BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS note (
    commit_id TEXT PRIMARY KEY, bucket INTEGER NOT NULL, notes BLOB NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS note_bucket ON note (bucket);
"""
_NAMES_PER_QUERY = 500


LogRelation: TypeAlias = Literal[
    "equal", "behind", "ahead", "redacted", "removed", "diverged", "skipped"
]
"""The local log in relation to that of the remote. `redacted`: the remote has a redacted copy of
it. `removed`: it was here, and was removed or renamed. `skipped`: it could not be compared.
"""


class LogState(msgspec.Struct, frozen=True):
    """The sizes and times of a log on both sides when they were compared."""

    remote_bytes: int
    remote_ns: int
    local_bytes: int
    local_ns: int
    relation: LogRelation | None


def _state_of(log: ListedLog, local: LogStat, relation: LogRelation | None) -> LogState:
    return LogState(
        remote_bytes=log.size_bytes,
        remote_ns=log.modified_ns,
        local_bytes=local.size_bytes,
        local_ns=local.modified_ns,
        relation=relation,
    )


class Mirror:
    """The last known state of one remote. One process at a time has it open."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database

    def read_cursor(self, side: str) -> str:
        """Return the newest commit of a side (`local`, `remote`) at the last complete transfer."""
        return self._read_value(f"cursor.{side}")

    def write_cursor(self, side: str, name: str) -> None:
        """Set the newest commit of a side: it and all older ones are on both sides."""
        self._write_value(f"cursor.{side}", name)

    def branches(self) -> dict[str, CommitId]:
        """Return the branches of the remote."""
        rows = self._database.execute("SELECT name, head FROM branch ORDER BY name")
        return {name: CommitId(head) for name, head in rows}

    def write_branches(self, branches: Mapping[str, CommitId]) -> None:
        """Replace the branches of the remote."""
        with self._database:
            self._database.execute("DELETE FROM branch")
            self._database.executemany("INSERT INTO branch VALUES (?, ?)", branches.items())

    def write_branch(self, name: str, head: CommitId) -> None:
        """Set the head of one branch of the remote."""
        with self._database:
            self._database.execute("INSERT OR REPLACE INTO branch VALUES (?, ?)", (name, head))

    def heads(self) -> dict[HeadName, ArtifactRef]:
        """Return the heads of artifacts of the remote that are here, too."""
        rows = self._database.execute("SELECT name, artifact FROM head")
        return {HeadName(name): ArtifactRef(artifact) for name, artifact in rows}

    def write_heads(self, heads: Mapping[HeadName, ArtifactRef]) -> None:
        """Set some heads of artifacts."""
        with self._database:
            self._database.executemany("INSERT OR REPLACE INTO head VALUES (?, ?)", heads.items())

    def find_relation(self, log: ListedLog, local: LogStat) -> LogRelation | None:
        """Return the relation of a log if both sides are as they were when they were compared."""
        state = self._read_log(log.name)
        if state == _state_of(log, local, None if state is None else state.relation):
            return None if state is None else state.relation
        return None

    def had_log(self, log: ListedLog) -> bool:
        """Whether this home had all of a log that is on the remote as it was then."""
        state = self._read_log(log.name)
        return (
            state is not None
            and state.relation in ("equal", "ahead", "redacted")
            and (state.remote_bytes, state.remote_ns) == (log.size_bytes, log.modified_ns)
        )

    def write_log(self, log: ListedLog, local: LogStat, relation: LogRelation) -> None:
        """Record the relation of a log that is as it is now on both sides."""
        state = msgspec.json.encode(_state_of(log, local, relation))
        with self._database:
            self._database.execute("INSERT OR REPLACE INTO log VALUES (?, ?)", (log.name, state))

    def _read_log(self, name: str) -> LogState | None:
        row = self._database.execute("SELECT state FROM log WHERE name = ?", (name,)).fetchone()
        with suppress(ValueError, TypeError):
            return None if row is None else msgspec.json.decode(row[0], type=LogState)
        return None

    def read_notes(self, names: Iterable[CommitId]) -> dict[CommitId, CommitNotes]:
        """Return the notes that both sides had at the last transfer, where they are known."""
        name_list = list(names)
        notes: dict[CommitId, CommitNotes] = {}
        for start in range(0, len(name_list), _NAMES_PER_QUERY):
            batch = name_list[start : start + _NAMES_PER_QUERY]
            marks = ",".join("?" * len(batch))
            query = f"SELECT commit_id, notes FROM note WHERE commit_id IN ({marks})"  # noqa: S608
            notes |= _decode_notes(self._database.execute(query, batch))
        return notes

    def iter_encoded_notes(self) -> Iterator[tuple[CommitId, bytes]]:
        """Yield the notes of all commits, in their canonical bytes."""
        yield from self._database.execute("SELECT commit_id, notes FROM note")

    def read_group(self, bucket: int) -> dict[CommitId, CommitNotes]:
        """Return the notes of the commits of a group: see `harken.store.notes`."""
        query = "SELECT commit_id, notes FROM note WHERE bucket = ?"
        return _decode_notes(self._database.execute(query, (bucket,)))

    def write_notes(self, notes: Iterable[tuple[CommitId, CommitNotes]]) -> None:
        """Set the notes that both sides have."""
        with self._database:
            self._database.executemany(
                "INSERT OR REPLACE INTO note VALUES (?, ?, ?)",
                (
                    (name, group_of(name), canonical.to_canonical_bytes(value))
                    for name, value in notes
                ),
            )

    def _read_value(self, key: str) -> str:
        row = self._database.execute("SELECT value FROM value WHERE key = ?", (key,)).fetchone()
        return "" if row is None else str(row[0])

    def _write_value(self, key: str, value: str) -> None:
        with self._database:
            self._database.execute("INSERT OR REPLACE INTO value VALUES (?, ?)", (key, value))


@contextmanager
def open_mirror(folder: Path) -> Iterator[Mirror]:
    """Open the mirror in the folder of a remote, which is created.

    A damaged file is replaced: it can be made again. Raises ConfigError if another process uses
    it, or it cannot be created.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = LogFile(folder / "lock", create=True)
    except LogLocked as error:
        raise ConfigError(
            f"process {error.pid or '?'} is already pushing to or pulling from {folder.name}"
        ) from None
    except OSError as error:
        raise ConfigError(f"{folder}: cannot be created ({error.strerror or error})") from None
    try:
        database = _open_database(folder / "mirror.db")
        try:
            yield Mirror(database)
        finally:
            database.close()
    finally:
        lock.close()


def read_branches(folder: Path) -> dict[str, CommitId]:
    """Return the branches in the mirror of a remote, or none if it cannot be read."""
    path = folder / "mirror.db"
    if not path.is_file():
        return {}
    try:
        database = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
        try:
            return Mirror(database).branches()
        finally:
            database.close()
    except sqlite3.Error:
        return {}


def _open_database(path: Path) -> sqlite3.Connection:
    for _ in range(2):
        database = sqlite3.connect(path)
        try:
            version = database.execute("PRAGMA user_version").fetchone()[0]
            if version not in (0, VERSION):
                raise sqlite3.DatabaseError("a mirror of another version")
            database.executescript(_SCHEMA)
            database.execute(f"PRAGMA user_version = {VERSION}")
            # After a power failure an older state is as good as a newer one.
            database.execute("PRAGMA synchronous = OFF")
            database.execute("SELECT count(*) FROM note").fetchone()
            path.chmod(0o600)
        except sqlite3.DatabaseError:
            database.close()
            for name in (path.name, f"{path.name}-journal"):
                path.with_name(name).unlink(missing_ok=True)
        else:
            return database
    raise ConfigError(f"{path}: cannot be created; check the disk and the permissions")


def _decode_notes(rows: Iterable[tuple[str, bytes]]) -> dict[CommitId, CommitNotes]:
    notes: dict[CommitId, CommitNotes] = {}
    for name, data in rows:
        with suppress(ValueError):
            notes[CommitId(name)] = msgspec.convert(canonical.from_json(data), CommitNotes)
    return notes
