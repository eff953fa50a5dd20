"""The tables of a store in PostgreSQL.

A name is a hash, so a table has its 32 bytes; the prefix follows from the kind of the object. Text
from outside is bytes in UTF-8 (lone surrogates encoded as if they were characters), since the text
type of PostgreSQL holds neither them nor NUL.

Source: docs/formats/store-postgresql.md.
"""

from __future__ import annotations

VERSION = 1

TABLES = """
CREATE TABLE state (
    version integer NOT NULL,
    generation bigint NOT NULL,
    collection bigint
);
INSERT INTO state (version, generation) VALUES (1, 1);
CREATE TABLE pack (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    place bigint NOT NULL,
    data bytea,
    location text,
    size_bytes integer NOT NULL,
    is_dirty boolean NOT NULL DEFAULT false,
    CHECK ((data IS NULL) <> (location IS NULL))
);
ALTER TABLE pack ALTER COLUMN data SET STORAGE EXTERNAL;
CREATE INDEX pack_place ON pack (place, id);
CREATE INDEX pack_dirty ON pack (id) WHERE is_dirty;
CREATE TABLE object (
    digest bytea PRIMARY KEY,
    kind smallint NOT NULL,
    pack bigint,
    body bytea,
    size_bytes integer NOT NULL,
    needs bytea[],
    touched timestamptz NOT NULL DEFAULT now(),
    CHECK ((body IS NULL) <> (pack IS NULL))
);
CREATE INDEX object_pack ON object (pack) WHERE pack IS NOT NULL;
CREATE INDEX object_artifact ON object (digest) WHERE kind IN (3, 4, 5, 7);
CREATE TABLE history (
    digest bytea PRIMARY KEY,
    seq bigint GENERATED ALWAYS AS IDENTITY,
    parent bytea,
    principal bytea NOT NULL,
    principal_key bytea NOT NULL,
    time_us bigint NOT NULL,
    notes bytea NOT NULL
);
CREATE UNIQUE INDEX history_seq ON history (seq);
CREATE INDEX history_parent ON history (parent) WHERE parent IS NOT NULL;
CREATE INDEX history_time ON history (principal_key, time_us, seq);
CREATE TABLE label (name bytea, digest bytea, PRIMARY KEY (digest, name));
CREATE INDEX label_name ON label USING hash (name);
CREATE TABLE head (name bytea PRIMARY KEY, head bytea NOT NULL);
CREATE TABLE derived (key bytea PRIMARY KEY, digest bytea NOT NULL);
CREATE INDEX derived_digest ON derived (digest);
CREATE TABLE retention (
    digest bytea PRIMARY KEY,
    prefix text NOT NULL,
    policy text NOT NULL,
    until text
);
CREATE TABLE tombstone (
    digest bytea PRIMARY KEY,
    prefix text NOT NULL,
    stand_in bytea,
    record bytea NOT NULL
);
CREATE INDEX tombstone_stand_in ON tombstone (stand_in);
CREATE TABLE upload (
    location text PRIMARY KEY,
    started timestamptz NOT NULL DEFAULT now(),
    is_abandoned boolean NOT NULL DEFAULT false
);
CREATE TABLE spared (digest bytea NOT NULL);
CREATE TABLE receipt (id uuid PRIMARY KEY, written timestamptz NOT NULL DEFAULT now());
"""

LOOKUP = """
SELECT n.digest, o.digest, o.kind, t.digest IS NOT NULL
FROM unnest(%s::bytea[]) AS n (digest)
LEFT JOIN tombstone t ON t.digest = n.digest
LEFT JOIN object o ON o.digest = CASE WHEN t.digest IS NULL THEN n.digest ELSE t.stand_in END
WHERE o.digest IS NOT NULL OR t.digest IS NOT NULL
"""
"""The name, the object that is read under it, its kind, and whether the name was purged."""

BODIES = """
SELECT n.digest, o.digest, o.kind, o.pack, o.body
FROM unnest(%s::bytea[]) AS n (digest)
LEFT JOIN tombstone t ON t.digest = n.digest
JOIN object o ON o.digest = CASE WHEN t.digest IS NULL THEN n.digest ELSE t.stand_in END
"""

COMMITS = """
SELECT h.digest, h.notes, o.digest, o.body
FROM history h
LEFT JOIN tombstone t ON t.digest = h.digest
LEFT JOIN object o ON o.digest = CASE WHEN t.digest IS NULL THEN h.digest ELSE t.stand_in END
"""

CHAIN = """
WITH RECURSIVE up (digest, parent, notes, depth) AS (
    SELECT digest, parent, notes, 1::bigint FROM history WHERE digest = %s
    UNION ALL
    SELECT h.digest, h.parent, h.notes, up.depth + 1
    FROM up JOIN history h ON h.digest = up.parent WHERE up.depth < %s
)
SELECT up.digest, up.notes, o.digest, o.body
FROM up
LEFT JOIN tombstone t ON t.digest = up.digest
LEFT JOIN object o ON o.digest = CASE WHEN t.digest IS NULL THEN up.digest ELSE t.stand_in END
ORDER BY up.depth
"""
