"""The history: a row for every commit, for all questions about which commits there are.

One idea: a row says nothing that the commit does not say itself, but for the notes, which may
change. They are sealed with the commit's name, so that a name that comes from a row is the one that
was written.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence
from contextlib import suppress

import msgspec

from harken.core import canonical
from harken.core.commits import CommitId, CommitNotes
from harken.store.batch import BatchCommit
from harken.store.sqlite.name_index import key_prefix, keys_between
from harken.store.sqlite.side_tables import sealed, unsealed

_FULL = re.compile(r"ctx-[0-9a-f]{64}")
_KEY = "substr(name, 1, 6)"
_ANCESTORS = """
WITH RECURSIVE up (id, name, parent, pack, notes, depth) AS (
    SELECT id, name, parent, pack, notes, 1 FROM history WHERE id = ?
    UNION ALL
    SELECT h.id, h.name, h.parent, h.pack, h.notes, depth + 1
    FROM up JOIN history h ON h.id = up.parent WHERE h.id < up.id AND depth < ?
) SELECT id, name, pack, notes FROM up
"""
_ADD = """
INSERT INTO history (name, pack, parent, principal, time_us, notes) VALUES (
    ?1, ?2,
    (SELECT id FROM history
     WHERE substr(name, 1, 6) = substr(?3, 1, 6) AND name = substr(?3, 1, length(name))),
    (SELECT id FROM principal WHERE name = ?4), ?5, ?6)
"""


class RowCorrupted(sqlite3.DatabaseError):
    """A row is not as it was written."""


class CommitRow(msgspec.Struct, frozen=True):
    """One commit, as far as its row knows it."""

    id: int
    name: bytes
    """32 bytes; 6 in a file that was damaged before it was migrated."""
    pack: int
    notes: bytes

    def __post_init__(self) -> None:
        """Raise RowCorrupted for what only a damaged table says: SQLite does not look again."""
        if not (
            isinstance(self.id, int)
            and isinstance(self.pack, int)
            and isinstance(self.name, bytes)
            and isinstance(self.notes, bytes)
        ):
            raise RowCorrupted(f"row {self.id!r} of history has values of the wrong types")

    def is_of(self, name: CommitId) -> bool:
        """Whether this is the row of that commit."""
        return bytes.fromhex(name[4:]).startswith(self.name)


def row_of(connection: sqlite3.Connection, name: CommitId) -> CommitRow | None:
    """Return the row of a commit by its full name; None: there is none, or it is no such name."""
    if not _FULL.fullmatch(name):
        return None
    query = f"SELECT id, name, pack, notes FROM history WHERE {_KEY} = ?"  # noqa: S608 - ours
    rows = (CommitRow(*row) for row in connection.execute(query, [key_prefix(name)]).fetchall())
    return next((row for row in rows if row.is_of(name)), None)


def some(connection: sqlite3.Connection, where: str, given: Sequence[object]) -> list[CommitRow]:
    """Return the rows that a condition, an order or a limit picks."""
    query = f"SELECT id, name, pack, notes FROM history {where}"  # noqa: S608 - ours
    return [CommitRow(*row) for row in connection.execute(query, given).fetchall()]


def ancestors(connection: sqlite3.Connection, id_: int, limit: int) -> list[CommitRow]:
    """Return the row with this id and those before it, newest first, at most so many."""
    if limit < 1:
        return []
    return [CommitRow(*row) for row in connection.execute(_ANCESTORS, [id_, limit]).fetchall()]


def latest(connection: sqlite3.Connection, principal: str, until_us: int) -> list[CommitRow]:
    """Return a principal's last commit at or before a time, if it has one."""
    return some(
        connection,
        "WHERE principal = (SELECT id FROM principal WHERE name = ?) AND time_us <= ?"
        " ORDER BY time_us DESC, id DESC LIMIT 1",
        [in_bytes(principal), until_us],
    )


def beginning(connection: sqlite3.Connection, digits: str, limit: int) -> list[CommitRow]:
    """Return the rows of commits whose names may begin so, sorted by name; at most so many."""
    between = keys_between(digits)
    if between is None:
        return []
    where = (
        f"WHERE {_KEY} BETWEEN ? AND ? AND lower(hex(name)) LIKE ? ORDER BY {_KEY}, name LIMIT ?"
    )
    return some(connection, where, [*between, digits + "%", max(limit, 0)])


def labelled(connection: sqlite3.Connection, label: str | None) -> list[tuple[str, CommitRow]]:
    """Return labels with their commits, those of a label oldest first; of one label, or of all."""
    which, given = ("", []) if label is None else ("WHERE label.name = ?", [in_bytes(label)])
    rows = connection.execute(
        "SELECT label.name, h.id, h.name, h.pack, h.notes FROM label JOIN history h"  # noqa: S608
        f" ON h.id = label.history {which} ORDER BY label.name, h.time_us, h.id",
        given,
    )
    return [(_text(name), CommitRow(*row)) for name, *row in rows.fetchall()]


def add(connection: sqlite3.Connection, several: Sequence[tuple[BatchCommit, int]]) -> None:
    """Enter commits that are in the packs of these numbers, parents before children."""
    rows: list[tuple[object, ...]] = []
    for new, number in several:
        name, who = bytes.fromhex(new.id[4:]), in_bytes(new.commit.principal)
        parent = new.commit.parent and bytes.fromhex(new.commit.parent[4:])
        rows.append((name, number, parent, who, new.time_us, seal(new.id, new.notes)))
    whose = [(who,) for who in {row[3] for row in rows}]
    connection.executemany("INSERT OR IGNORE INTO principal (name) VALUES (?)", whose)
    connection.executemany(_ADD, rows)
    for new, _ in several:
        if new.notes.labels and (row := row_of(connection, new.id)):
            _label(connection, row.id, new.notes)


def mend(connection: sqlite3.Connection, name: CommitId, number: int) -> bool:
    """Say that a commit is in the pack of this number now, if it has a row; return whether."""
    row = row_of(connection, name)
    if row is not None:
        query = "UPDATE history SET pack = ?, name = ? WHERE id = ?"
        connection.execute(query, [number, bytes.fromhex(name[4:]), row.id])
    return row is not None


def annotate(
    connection: sqlite3.Connection, row: CommitRow, name: CommitId, notes: CommitNotes
) -> None:
    """Replace a commit's notes."""
    connection.execute("UPDATE history SET notes = ? WHERE id = ?", [seal(name, notes), row.id])
    connection.execute("DELETE FROM label WHERE history = ?", [row.id])
    _label(connection, row.id, notes)


def seal(name: CommitId, notes: CommitNotes) -> bytes:
    """Return notes as a row has them."""
    return sealed(name, canonical.to_canonical_bytes(notes))


def notes_from(name: CommitId, data: bytes) -> CommitNotes:
    """Read a commit's notes as they are stored. Raises ValueError where they are damaged."""
    body = unsealed(name, data)
    try:
        return _notes.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):  # lone surrogates, or what is no notes
        return msgspec.convert(canonical.from_json(body), CommitNotes)


def in_bytes(text: str) -> bytes:
    """Return text as tables have it: lone surrogates too."""
    return text.encode("utf-8", "surrogatepass")


def principal(connection: sqlite3.Connection, name: str) -> int:
    """Return the number of a principal, which is given one if it has none."""
    connection.execute("INSERT OR IGNORE INTO principal (name) VALUES (?)", [in_bytes(name)])
    query = "SELECT id FROM principal WHERE name = ?"
    (found,) = connection.execute(query, [in_bytes(name)]).fetchone()
    return int(found)


_notes = msgspec.json.Decoder(CommitNotes)


def _text(data: object) -> str:
    if isinstance(data, bytes):
        with suppress(UnicodeDecodeError):
            return data.decode("utf-8", "surrogatepass")
    raise RowCorrupted(f"{data!r} is no label")


def _label(connection: sqlite3.Connection, id_: int, notes: CommitNotes) -> None:
    rows = [(in_bytes(label), id_) for label in notes.labels]
    connection.executemany("INSERT OR IGNORE INTO label (name, history) VALUES (?, ?)", rows)
