"""`SqliteDirectory`: the directory of a team in one SQLite file, which only its owner can read."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import msgspec

from harken.core import structs
from harken.errors import ConfigError, NameNotFound, StoreError
from harken.teams.directory import Quota, QuotaUsage, RetentionRule, TeamUser, TokenRecord

_APPLICATION = 0x4861726D  # "Harm": not that of a store
_VERSION = 1
_SCHEMA_SQL = """
CREATE TABLE user (name TEXT PRIMARY KEY, record BLOB NOT NULL, removed_at TEXT) STRICT;
CREATE TABLE token (
    number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, digest TEXT NOT NULL UNIQUE,
    user TEXT NOT NULL REFERENCES user (name), record BLOB NOT NULL
) STRICT;
CREATE TABLE rule (name TEXT PRIMARY KEY, record BLOB NOT NULL) STRICT;
CREATE TABLE usage (
    user TEXT NOT NULL, period INTEGER NOT NULL, size_bytes INTEGER NOT NULL,
    commits INTEGER NOT NULL, PRIMARY KEY (user, period)
) STRICT, WITHOUT ROWID;
"""
_WAIT_S = 30.0
_PRAGMAS = (
    "journal_mode=WAL",
    "trusted_schema=OFF",
    "synchronous=FULL",
    "fullfsync=ON",
    "foreign_keys=ON",
)
T = TypeVar("T")


class SqliteDirectory:
    """The directory in the file at `path`, which is created if it does not exist.

    Raises ConfigError if other users of the machine can read the file, StoreError.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._lock = threading.Lock()
        self._connection = _open(self.path)
        try:
            with self._reading() as connection:
                _check_version(self.path, connection)
                for pragma in _PRAGMAS:
                    connection.execute(f"PRAGMA {pragma}")
            self._create()
        except BaseException:
            self.close()
            raise

    def users(self) -> list[TeamUser]:
        query = "SELECT record FROM user WHERE removed_at IS NULL ORDER BY name"
        return self._select(TeamUser, query)

    def find_user(self, name: str) -> TeamUser | None:
        query = "SELECT record FROM user WHERE name = ? AND removed_at IS NULL"
        return next(iter(self._select(TeamUser, query, name)), None)

    def add_user(self, user: TeamUser) -> None:
        with self._writing() as connection:
            if connection.execute("SELECT 1 FROM user WHERE name = ?", [user.name]).fetchone():
                raise ConfigError(f"user {user.name} exists, or existed: choose another name")
            query = "INSERT INTO user (name, record) VALUES (?, ?)"
            connection.execute(query, [user.name, msgspec.json.encode(user)])

    def change_user(self, user: TeamUser) -> None:
        with self._writing() as connection:
            self._require_user(connection, user.name)
            query = "UPDATE user SET record = ? WHERE name = ?"
            connection.execute(query, [msgspec.json.encode(user), user.name])

    def remove_user(self, name: str, when: str) -> None:
        with self._writing() as connection:
            self._require_user(connection, name)
            connection.execute("UPDATE user SET removed_at = ? WHERE name = ?", [when, name])
            query = "SELECT record FROM token WHERE user = ?"
            for (data,) in connection.execute(query, [name]).fetchall():
                _revoke(connection, msgspec.json.decode(data, type=TokenRecord), when)

    def tokens(self, user: str | None = None) -> list[TokenRecord]:
        query = "SELECT record FROM token WHERE ?1 IS NULL OR user = ?1 ORDER BY number"
        return self._select(TokenRecord, query, user)

    def find_token(self, digest: str) -> TokenRecord | None:
        query = (
            "SELECT t.record FROM token t JOIN user u ON u.name = t.user "
            "WHERE t.digest = ? AND u.removed_at IS NULL"
        )
        return next(iter(self._select(TokenRecord, query, digest)), None)

    def add_token(self, token: TokenRecord) -> None:
        with self._writing() as connection:
            self._require_user(connection, token.user)
            query = "SELECT record FROM token WHERE user = ?"
            for (data,) in connection.execute(query, [token.user]).fetchall():
                existing = msgspec.json.decode(data, type=TokenRecord)
                if existing.name == token.name and existing.revoked_at is None:
                    raise ConfigError(
                        f"{token.user} has a token {token.name!r}: revoke it, or choose another "
                        "name"
                    )
            insert = "INSERT INTO token (id, digest, user, record) VALUES (?, ?, ?, ?)"
            encoded = msgspec.json.encode(token)
            connection.execute(insert, [token.id, token.digest, token.user, encoded])

    def revoke_token(self, token_id: str, when: str) -> TokenRecord:
        with self._writing() as connection:
            query = "SELECT record FROM token WHERE id = ?"
            row = connection.execute(query, [token_id]).fetchone()
            if row is None:
                raise NameNotFound("token", token_id, ())
            return _revoke(connection, msgspec.json.decode(row[0], type=TokenRecord), when)

    def rules(self) -> list[RetentionRule]:
        return self._select(RetentionRule, "SELECT record FROM rule ORDER BY name")

    def add_rule(self, rule: RetentionRule) -> None:
        with self._writing() as connection:
            if connection.execute("SELECT 1 FROM rule WHERE name = ?", [rule.name]).fetchone():
                raise ConfigError(f"rule {rule.name!r} exists: remove it, or choose another name")
            query = "INSERT INTO rule (name, record) VALUES (?, ?)"
            connection.execute(query, [rule.name, msgspec.json.encode(rule)])

    def remove_rule(self, name: str) -> None:
        with self._writing() as connection:
            if not connection.execute("DELETE FROM rule WHERE name = ?", [name]).rowcount:
                names = connection.execute("SELECT name FROM rule ORDER BY name").fetchall()
                raise NameNotFound("rule", name, [row[0] for row in names])

    def add_usage(self, user: str, period: int, usage: QuotaUsage, quota: Quota) -> bool:
        with self._writing() as connection:
            old = _read_usage(connection, user, period)
            new = QuotaUsage(old.size_bytes + usage.size_bytes, old.commits + usage.commits)
            if quota.size_bytes is not None and new.size_bytes > quota.size_bytes:
                return False
            if quota.commits is not None and new.commits > quota.commits:
                return False
            connection.execute("DELETE FROM usage WHERE user = ? AND period < ?", [user, period])
            query = "INSERT OR REPLACE INTO usage VALUES (?, ?, ?, ?)"
            connection.execute(query, [user, period, new.size_bytes, new.commits])
            return True

    def usage(self, user: str, period: int) -> QuotaUsage:
        with self._reading() as connection:
            return _read_usage(connection, user, period)

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    def _select(self, kind: type[T], query: str, *values: object) -> list[T]:
        with self._reading() as connection:
            rows = connection.execute(query, values).fetchall()
        return [msgspec.json.decode(data, type=kind) for (data,) in rows]

    def _require_user(self, connection: sqlite3.Connection, name: str) -> None:
        query = "SELECT name FROM user WHERE removed_at IS NULL ORDER BY name"
        names = [row[0] for row in connection.execute(query).fetchall()]
        if name not in names:
            raise NameNotFound("user", name, names)

    def _create(self) -> None:
        with self._writing() as connection:
            if connection.execute("PRAGMA user_version").fetchone() != (0,):
                return
            for statement in _SCHEMA_SQL.split(";\n")[:-1]:
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id={_APPLICATION}")
            connection.execute(f"PRAGMA user_version={_VERSION}")

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            try:
                yield self._connection
            except (sqlite3.Error, msgspec.DecodeError) as error:
                raise StoreError(self.path, f"cannot be used: {error}") from error

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """Hold the only write transaction, which is durable on exit."""
        with self._reading() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                connection.execute("ROLLBACK")
                raise


def _open(path: Path) -> sqlite3.Connection:
    try:
        os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o600))
        status = path.stat()
    except OSError as error:
        raise StoreError(path, f"cannot be opened: {error.strerror or error}") from None
    if status.st_uid != os.geteuid() or status.st_mode & 0o077:
        raise ConfigError(f"{path}: other users can read the users and rights: chmod 600")
    return sqlite3.connect(path, timeout=_WAIT_S, isolation_level=None, check_same_thread=False)


def _check_version(path: Path, connection: sqlite3.Connection) -> None:
    """Raise StoreError for the file of another program or version, before it is changed."""
    header = tuple(
        connection.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("application_id", "user_version")
    )
    tables = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
    if header != (_APPLICATION, _VERSION) and (header != (0, 0) or tables):
        raise StoreError(path, "not the users of a team, or of another version of Harken")


def _revoke(connection: sqlite3.Connection, token: TokenRecord, when: str) -> TokenRecord:
    if token.revoked_at is not None:
        return token
    revoked = structs.replace(token, revoked_at=when)
    query = "UPDATE token SET record = ? WHERE id = ?"
    connection.execute(query, [msgspec.json.encode(revoked), token.id])
    return revoked


def _read_usage(connection: sqlite3.Connection, user: str, period: int) -> QuotaUsage:
    query = "SELECT size_bytes, commits FROM usage WHERE user = ? AND period = ?"
    row = connection.execute(query, [user, period]).fetchone()
    return QuotaUsage() if row is None else QuotaUsage(*row)
