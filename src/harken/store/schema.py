"""The tables of a store's file, and the number of their version.

Source: docs/formats/store.md, "The file".
"""

import sqlite3

APPLICATION = 0x4861726B  # "Hark"
MADE, VERSION = 2, 3
"""The version that a file is made in, and the newest that can be read. A file has version 3 from
the first pack on that has raw bytes behind the rest; nothing else is new in it."""

HISTORY = """
CREATE TABLE history (
    id INTEGER PRIMARY KEY,
    name BLOB NOT NULL,
    pack INTEGER NOT NULL,
    parent INTEGER,
    principal INTEGER NOT NULL,
    time_us INTEGER NOT NULL,
    notes BLOB NOT NULL
) STRICT;
CREATE INDEX history_key ON history (substr(name, 1, 6));
CREATE INDEX history_parent ON history (parent) WHERE parent IS NOT NULL;
CREATE INDEX history_time ON history (principal, time_us);
"""
LIFECYCLE = """
CREATE TABLE keeping (name TEXT PRIMARY KEY, policy TEXT NOT NULL, until TEXT)
    STRICT, WITHOUT ROWID;
CREATE TABLE tombstone (name TEXT PRIMARY KEY, record BLOB NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE derived (key BLOB PRIMARY KEY, artifact BLOB NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE mark (time_us INTEGER PRIMARY KEY, pack INTEGER NOT NULL) STRICT;
CREATE TABLE again (name TEXT PRIMARY KEY, pack INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE used (pack INTEGER PRIMARY KEY, time_us INTEGER NOT NULL) STRICT;
CREATE TABLE evicted (name TEXT PRIMARY KEY, kind INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE state (generation INTEGER NOT NULL) STRICT;
INSERT INTO state (generation) VALUES (1);
"""
_THINGS = """
CREATE TABLE pack (id INTEGER PRIMARY KEY, data BLOB NOT NULL) STRICT;
CREATE TABLE object (key BLOB NOT NULL, pack INTEGER NOT NULL, PRIMARY KEY (key, pack))
    STRICT, WITHOUT ROWID;
CREATE TABLE artifact (key BLOB NOT NULL, pack INTEGER NOT NULL, PRIMARY KEY (key, pack))
    STRICT, WITHOUT ROWID;
CREATE TABLE principal (id INTEGER PRIMARY KEY, name BLOB NOT NULL UNIQUE) STRICT;
CREATE TABLE label (name BLOB NOT NULL, history INTEGER NOT NULL, PRIMARY KEY (name, history))
    STRICT, WITHOUT ROWID;
"""


def version_of(connection: sqlite3.Connection) -> int:
    """Return the version that a file says it has; 0: it was not made yet."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)


def statements(text: str) -> list[str]:
    """Take a script apart: SQLite would commit what is open before it runs one whole."""
    return text.split(";\n")[:-1]


WHOLE = _THINGS + HISTORY + LIFECYCLE
