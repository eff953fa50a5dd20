"""Queries of names, commits, heads and policies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from psycopg.rows import TupleRow

from harken.core.commits import ArtifactRef, CommitId
from harken.store.base import Name, ObjectKind, RetentionPolicy
from harken.store.postgresql import schema
from harken.store.postgresql.database import PostgresDatabase, Transaction
from harken.store.postgresql.names import (
    decode_text,
    digest_range,
    encode_text,
    has_prefix_of,
    is_full_name,
    to_digest,
    to_digests,
)

C = TypeVar("C")
LATEST = """
WITH RECURSIVE latest (digest, depth) AS (
    (SELECT digest, 0 FROM history WHERE principal_key = %s AND time_us <= %s
     ORDER BY time_us DESC, seq DESC LIMIT 1)
    UNION ALL
    SELECT next.digest, latest.depth + 1 FROM latest, LATERAL (
        SELECT h.digest FROM history h
        WHERE h.parent = latest.digest AND h.principal_key = %s AND h.time_us <= %s
        ORDER BY h.time_us DESC, h.seq DESC LIMIT 1
    ) next
)
SELECT digest FROM latest ORDER BY depth DESC LIMIT 1
"""
"""The clock may have stepped back after the commit with the greatest time."""
COMMON_ANCESTOR = """
WITH RECURSIVE pair (one, other) AS (
    SELECT a.seq, b.seq FROM history a, history b WHERE a.digest = %s AND b.digest = %s
    UNION ALL
    SELECT
        CASE WHEN one > other THEN (
            SELECT p.seq FROM history h JOIN history p ON p.digest = h.parent WHERE h.seq = one
        ) ELSE one END,
        CASE WHEN other > one THEN (
            SELECT p.seq FROM history h JOIN history p ON p.digest = h.parent WHERE h.seq = other
        ) ELSE other END
    FROM pair WHERE one <> other
)
SELECT h.digest FROM pair JOIN history h ON h.seq = pair.one WHERE pair.one = pair.other
"""
"""A parent's number is smaller: the commit with the larger one is no ancestor of the other."""
_ARTIFACTS = """
SELECT digest FROM (
    SELECT digest FROM object WHERE kind IN (3, 4, 5, 7) AND digest BETWEEN %s AND %s
    UNION
    SELECT t.digest FROM tombstone t JOIN object o ON o.digest = t.stand_in
    WHERE t.prefix = 'art-' AND t.digest BETWEEN %s AND %s
) artifact ORDER BY digest LIMIT %s
"""
_COMMITS = "SELECT digest FROM history WHERE digest BETWEEN %s AND %s ORDER BY digest LIMIT %s"
_RELATIONS = ["pack", "object", "history", "label", "head", "derived", "retention", "tombstone"]


def to_commit_ids(rows: Iterable[TupleRow], collection: Callable[[Iterator[CommitId]], C]) -> C:
    """Return the names of commits from the digests in the first column."""
    return collection(CommitId(f"ctx-{row[0].hex()}") for row in rows)


def find_names(
    database: PostgresDatabase, beginning: str, limit: int
) -> list[CommitId | ArtifactRef]:
    """Return at most `limit` names that start with a text, sorted."""
    names: list[CommitId | ArtifactRef] = []
    for prefix, sql in (("art-", _ARTIFACTS), ("ctx-", _COMMITS)):
        if not (beginning.startswith(prefix) or prefix.startswith(beginning)):
            continue
        between = digest_range(beginning[len(prefix) :])
        if between is None or limit <= len(names):
            continue
        bounds = between * (2 if prefix == "art-" else 1)
        rows = database.fetch(sql, [*bounds, limit - len(names)])
        names += [ArtifactRef(f"{prefix}{digest.hex()}") for (digest,) in rows]
    return names


def find_kinds(tx: Transaction, names: Iterable[Name]) -> dict[Name, ObjectKind]:
    """Return the kinds of the objects that are read under names."""
    full_names = [name for name in names if is_full_name(name)]
    rows = tx.execute(schema.LOOKUP, [to_digests(full_names)]).fetchall()
    kinds = {row[0]: ObjectKind(row[2]) for row in rows if row[2] is not None}
    by_name = ((name, kinds.get(to_digest(name))) for name in full_names)
    return {n: kind for n, kind in by_name if kind is not None and has_prefix_of(n, kind)}


def lock_head(tx: Transaction, name: str) -> bytes | None:
    """Return the digest of a head, which no other transaction changes then, or None."""
    query = "SELECT head FROM head WHERE name = %s FOR UPDATE"
    row = tx.execute(query, [encode_text(name)]).fetchone()
    return None if row is None else row[0]


def read_heads(database: PostgresDatabase, prefix: str) -> list[tuple[str, bytes]]:
    """Return the heads with names that start with a prefix, sorted by name."""
    key = encode_text(prefix)
    query = "SELECT name, head FROM head WHERE name >= %s AND substring(name, 1, %s) = %s"
    rows = database.fetch(f"{query} ORDER BY name", [key, len(key), key])
    return [(decode_text(name), head) for name, head in rows]


def read_retention(database: PostgresDatabase) -> Iterator[tuple[Name, RetentionPolicy]]:
    """Yield the retention policies."""
    rows: list[Any] = database.fetch(
        "SELECT prefix, digest, policy, until FROM retention ORDER BY prefix, digest"
    )
    for prefix, digest, policy, until in rows:
        yield f"{prefix}{digest.hex()}", RetentionPolicy(policy, until)


def measure(database: PostgresDatabase) -> int:
    """Return the bytes that tables, indexes and the object storage take."""
    query = """
        SELECT (SELECT sum(pg_total_relation_size(name::regclass)) FROM unnest(%s::text[]) name)
            + (SELECT coalesce(sum(size_bytes), 0) FROM pack WHERE location IS NOT NULL)
    """
    return int(database.fetch(query, [_RELATIONS])[0][0])
