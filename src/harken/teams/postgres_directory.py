"""`PostgresDirectory`: the directory of a team in PostgreSQL, for several services of one store.

Records are JSON, as in the directory in a file. A change is one transaction that holds a lock, so
that names stay unique and a quota is not exceeded, whatever service a request comes to.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec

from harken.core import structs
from harken.errors import ConfigError, NameNotFound
from harken.store.postgresql.address import parse_address
from harken.store.postgresql.database import PostgresDatabase, Transaction
from harken.teams.directory import Quota, QuotaUsage, RetentionRule, TeamUser, TokenRecord

_TABLES = (
    """CREATE TABLE IF NOT EXISTS team_user (
    name text PRIMARY KEY, record bytea NOT NULL, removed_at text)""",
    """CREATE TABLE IF NOT EXISTS team_token (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, id text NOT NULL UNIQUE,
    digest text NOT NULL UNIQUE, owner text NOT NULL REFERENCES team_user (name),
    record bytea NOT NULL)""",
    "CREATE TABLE IF NOT EXISTS team_rule (name bytea PRIMARY KEY, record bytea NOT NULL)",
    """CREATE TABLE IF NOT EXISTS team_usage (
    owner text NOT NULL, period bigint NOT NULL, size_bytes bigint NOT NULL,
    commits bigint NOT NULL, PRIMARY KEY (owner, period))""",
)
_LOCK = "SELECT pg_advisory_xact_lock(hashtext('harken team'), hashtext(current_schema()))"
_WAIT_S = 30.0
T = TypeVar("T")


class PostgresDirectory:
    """The directory in the schema of a store: `postgresql://user@host/database?schema=harken`.

    Raises ConfigError for an invalid URL, StoreError.
    """

    def __init__(self, url: str, *, patience_s: float = _WAIT_S) -> None:
        self._database = PostgresDatabase(parse_address(url), patience_s)
        self._change(lambda tx: [tx.execute(statement) for statement in _TABLES])

    def users(self) -> list[TeamUser]:
        query = 'SELECT record FROM team_user WHERE removed_at IS NULL ORDER BY name COLLATE "C"'
        return self._select(TeamUser, query)

    def find_user(self, name: str) -> TeamUser | None:
        query = "SELECT record FROM team_user WHERE name = %s AND removed_at IS NULL"
        return next(iter(self._select(TeamUser, query, name)), None)

    def add_user(self, user: TeamUser) -> None:
        def add(tx: Transaction) -> None:
            query = "SELECT 1 FROM team_user WHERE name = %s"
            if tx.execute(query, [user.name]).fetchone():
                raise ConfigError(f"user {user.name} exists, or existed: choose another name")
            insert = "INSERT INTO team_user (name, record) VALUES (%s, %s)"
            tx.execute(insert, [user.name, msgspec.json.encode(user)])

        self._change(add)

    def change_user(self, user: TeamUser) -> None:
        def change(tx: Transaction) -> None:
            _require_user(tx, user.name)
            query = "UPDATE team_user SET record = %s WHERE name = %s"
            tx.execute(query, [msgspec.json.encode(user), user.name])

        self._change(change)

    def remove_user(self, name: str, when: str) -> None:
        def remove(tx: Transaction) -> None:
            _require_user(tx, name)
            tx.execute("UPDATE team_user SET removed_at = %s WHERE name = %s", [when, name])
            for token in _fetch_tokens(tx, "owner", name):
                _revoke(tx, token, when)

        self._change(remove)

    def tokens(self, user: str | None = None) -> list[TokenRecord]:
        query = "SELECT record FROM team_token WHERE %s::text IS NULL OR owner = %s ORDER BY number"
        return self._select(TokenRecord, query, user, user)

    def find_token(self, digest: str) -> TokenRecord | None:
        query = (
            "SELECT t.record FROM team_token t JOIN team_user u ON u.name = t.owner "
            "WHERE t.digest = %s AND u.removed_at IS NULL"
        )
        return next(iter(self._select(TokenRecord, query, digest)), None)

    def add_token(self, token: TokenRecord) -> None:
        def add(tx: Transaction) -> None:
            _require_user(tx, token.user)
            for existing in _fetch_tokens(tx, "owner", token.user):
                if existing.name == token.name and existing.revoked_at is None:
                    raise ConfigError(
                        f"{token.user} has a token {token.name!r}: revoke it, or choose another "
                        "name"
                    )
            insert = "INSERT INTO team_token (id, digest, owner, record) VALUES (%s, %s, %s, %s)"
            tx.execute(insert, [token.id, token.digest, token.user, msgspec.json.encode(token)])

        self._change(add)

    def revoke_token(self, token_id: str, when: str) -> TokenRecord:
        def revoke(tx: Transaction) -> TokenRecord:
            for token in _fetch_tokens(tx, "id", token_id):
                return _revoke(tx, token, when)
            raise NameNotFound("token", token_id, ())

        return self._change(revoke)

    def rules(self) -> list[RetentionRule]:
        return self._select(RetentionRule, "SELECT record FROM team_rule ORDER BY name")

    def add_rule(self, rule: RetentionRule) -> None:
        def add(tx: Transaction) -> None:
            key = _encode(rule.name)
            if tx.execute("SELECT 1 FROM team_rule WHERE name = %s", [key]).fetchone():
                raise ConfigError(f"rule {rule.name!r} exists: remove it, or choose another name")
            insert = "INSERT INTO team_rule (name, record) VALUES (%s, %s)"
            tx.execute(insert, [key, msgspec.json.encode(rule)])

        self._change(add)

    def remove_rule(self, name: str) -> None:
        def remove(tx: Transaction) -> None:
            query = "DELETE FROM team_rule WHERE name = %s RETURNING 1"
            if tx.execute(query, [_encode(name)]).fetchone() is None:
                names = tx.execute("SELECT name FROM team_rule ORDER BY name").fetchall()
                raise NameNotFound("rule", name, [bytes(row[0]).decode() for row in names])

        self._change(remove)

    def add_usage(self, user: str, period: int, usage: QuotaUsage, quota: Quota) -> bool:
        def add(tx: Transaction) -> bool:
            query = "SELECT size_bytes, commits FROM team_usage WHERE owner = %s AND period = %s"
            row = tx.execute(query, [user, period]).fetchone() or (0, 0)
            new = QuotaUsage(row[0] + usage.size_bytes, row[1] + usage.commits)
            if quota.size_bytes is not None and new.size_bytes > quota.size_bytes:
                return False
            if quota.commits is not None and new.commits > quota.commits:
                return False
            tx.execute("DELETE FROM team_usage WHERE owner = %s AND period <= %s", [user, period])
            insert = "INSERT INTO team_usage VALUES (%s, %s, %s, %s)"
            tx.execute(insert, [user, period, new.size_bytes, new.commits])
            return True

        return self._change(add)

    def usage(self, user: str, period: int) -> QuotaUsage:
        query = "SELECT size_bytes, commits FROM team_usage WHERE owner = %s AND period = %s"
        rows = self._database.fetch(query, [user, period])
        return QuotaUsage(*rows[0]) if rows else QuotaUsage()

    def close(self) -> None:
        self._database.close()

    def _change(self, work: Callable[[Transaction], T]) -> T:
        """Run a function in a transaction, alone among the changes of the directory, once."""

        def run(tx: Transaction) -> T:
            tx.execute(_LOCK)
            return work(tx)

        return self._database.write(run, once=True)

    def _select(self, kind: type[T], query: str, *values: object) -> list[T]:
        rows = self._database.fetch(query, values)
        return [msgspec.json.decode(data, type=kind) for (data,) in rows]


def _require_user(tx: Transaction, name: str) -> None:
    query = "SELECT name FROM team_user WHERE removed_at IS NULL ORDER BY name"
    names = [row[0] for row in tx.execute(query).fetchall()]
    if name not in names:
        raise NameNotFound("user", name, names)


def _fetch_tokens(tx: Transaction, column: str, value: str) -> list[TokenRecord]:
    query = f"SELECT record FROM team_token WHERE {column} = %s ORDER BY number"  # noqa: S608 - ours
    rows = tx.execute(query, [value]).fetchall()
    return [msgspec.json.decode(row[0], type=TokenRecord) for row in rows]


def _revoke(tx: Transaction, token: TokenRecord, when: str) -> TokenRecord:
    if token.revoked_at is not None:
        return token
    revoked = structs.replace(token, revoked_at=when)
    query = "UPDATE team_token SET record = %s WHERE id = %s"
    tx.execute(query, [msgspec.json.encode(revoked), token.id])
    return revoked


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
