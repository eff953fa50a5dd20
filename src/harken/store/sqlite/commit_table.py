"""The history table: one row per commit, for all queries about commits.

A row contains only what the commit contains, except for the notes, which may change. The notes are
sealed with the commit's name, so that a name that was read from a row is the one that was written.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence
from contextlib import suppress

import msgspec

from harken.core import canonical
from harken.core.commits import CommitId, CommitNotes
from harken.store.base import NO_LIMIT, CommitLink
from harken.store.batch import BatchCommit
from harken.store.sqlite.name_index import key_prefix, key_range
from harken.store.sqlite.side_tables import RowCorrupted, add_seal, remove_seal

_FULL_NAME_PATTERN = re.compile(r"ctx-[0-9a-f]{64}")
_NAME_BYTES = 32
_KEY = "substr(name, 1, 6)"
_ANCESTORS_SQL = """
WITH RECURSIVE up (id, name, parent, pack, notes, depth) AS (
    SELECT id, name, parent, pack, notes, 1 FROM history WHERE id = ?
    UNION ALL
    SELECT h.id, h.name, h.parent, h.pack, h.notes, depth + 1
    FROM up JOIN history h ON h.id = up.parent WHERE h.id < up.id AND depth < ?
) SELECT id, name, pack, notes FROM up
"""
_COMMON_ANCESTOR_SQL = """
WITH RECURSIVE pair (one, other) AS (
    VALUES (?, ?)
    UNION ALL
    SELECT
        CASE WHEN one > other
            THEN (SELECT parent FROM history WHERE id = one AND parent < one) ELSE one END,
        CASE WHEN other > one
            THEN (SELECT parent FROM history WHERE id = other AND parent < other) ELSE other END
    FROM pair WHERE one <> other
) SELECT id, name, pack, notes FROM history WHERE id = (SELECT one FROM pair WHERE one = other)
"""
"""A parent's id is smaller: the commit with the larger id is no ancestor of the other."""
_LINKS_SQL = """
SELECT h.id, h.name, h.parent, h.time_us, p.name
FROM history h LEFT JOIN principal p ON p.id = h.principal ORDER BY h.id DESC
"""
_INSERT_SQL = """
INSERT INTO history (name, pack, parent, principal, time_us, notes) VALUES (
    ?1, ?2,
    (SELECT id FROM history
     WHERE substr(name, 1, 6) = substr(?3, 1, 6) AND name = substr(?3, 1, length(name))),
    (SELECT id FROM principal WHERE name = ?4), ?5, ?6)
"""


class CommitRow(msgspec.Struct, frozen=True, gc=False):
    """A row of the history table."""

    id: int
    name: bytes
    """32 bytes; 6 in a file that was damaged before it was migrated."""
    pack: int
    notes: bytes

    def __post_init__(self) -> None:
        """Raise RowCorrupted for values of wrong types, which SQLite does not check."""
        if not (
            isinstance(self.id, int)
            and isinstance(self.pack, int)
            and isinstance(self.name, bytes)
            and isinstance(self.notes, bytes)
        ):
            raise RowCorrupted(f"row {self.id!r} of history has values of the wrong types")

    def has_name(self, name: CommitId) -> bool:
        """Whether this is the row of that commit."""
        return bytes.fromhex(name[4:]).startswith(self.name)


def find_row(connection: sqlite3.Connection, name: CommitId) -> CommitRow | None:
    """Return the row of a commit. Return None if there is none, or the name is not a full name."""
    if not _FULL_NAME_PATTERN.fullmatch(name):
        return None
    query = f"SELECT id, name, pack, notes FROM history WHERE {_KEY} = ?"  # noqa: S608 - ours
    rows = (CommitRow(*row) for row in connection.execute(query, [key_prefix(name)]).fetchall())
    return next((row for row in rows if row.has_name(name)), None)


def select_rows(
    connection: sqlite3.Connection, where: str, parameters: Sequence[object]
) -> list[CommitRow]:
    """Return the rows that a condition, an order or a limit selects."""
    query = f"SELECT id, name, pack, notes FROM history {where}"  # noqa: S608 - ours
    return [CommitRow(*row) for row in connection.execute(query, parameters).fetchall()]


def select_ancestors(connection: sqlite3.Connection, id_: int, limit: int) -> list[CommitRow]:
    """Return the row with this id and its ancestors, newest first, at most `limit` rows."""
    if limit < 1:
        return []
    return [CommitRow(*row) for row in connection.execute(_ANCESTORS_SQL, [id_, limit]).fetchall()]


def find_common_ancestor(connection: sqlite3.Connection, one: int, other: int) -> CommitRow | None:
    """Return the row of the last commit in both histories, by the ids of two rows, or None."""
    row = connection.execute(_COMMON_ANCESTOR_SQL, [one, other]).fetchone()
    return None if row is None else CommitRow(*row)


def select_links(connection: sqlite3.Connection) -> list[CommitLink]:
    """Return the links of all commits, the last written first. Raises RowCorrupted.

    Neither packs nor notes are read. So a name is not verified, and a commit that has it is not
    either.
    """
    rows = connection.execute(_LINKS_SQL).fetchall()
    name_by_id = {row[0]: _decode_name(row[1]) for row in rows}
    principals = {key: _decode_text(key, "the name of a principal") for key in {r[4] for r in rows}}
    return [
        CommitLink(name_by_id[id_], name_by_id.get(parent), time_us, principals[principal_name])
        for id_, _, parent, time_us, principal_name in rows
    ]


def select_latest(connection: sqlite3.Connection, principal: str, until_us: int) -> list[CommitRow]:
    """Return a principal's last commit at or before a time, if it has one.

    The clock may have stepped back after the commit with the greatest time. So its descendants are
    searched, too.
    """
    where = "principal = (SELECT id FROM principal WHERE name = ?) AND time_us <= ?"
    order = "ORDER BY time_us DESC, id DESC LIMIT 1"
    parameters = [encode_text(principal), until_us]
    latest: list[CommitRow] = []
    rows = select_rows(connection, f"WHERE {where} {order}", parameters)
    # A column with a plus is not looked up in an index. Without it, SQLite searches for the
    # children among all earlier commits of the principal, which have the order already.
    of_parent = f"WHERE parent = ? AND +{where} {order}".replace("time_us", "+time_us")
    while rows:
        latest, parent = rows, [rows[0].id]
        rows = select_rows(connection, of_parent, parent + parameters)
    return latest


def select_by_prefix(connection: sqlite3.Connection, digits: str, limit: int) -> list[CommitRow]:
    """Return at most `limit` rows of commits whose names start with `digits`, sorted by name."""
    between = key_range(digits)
    if between is None:
        return []
    where = (
        f"WHERE {_KEY} BETWEEN ? AND ? AND lower(hex(name)) LIKE ? ORDER BY {_KEY}, name LIMIT ?"
    )
    return select_rows(connection, where, [*between, digits + "%", max(limit, 0)])


def select_by_label(
    connection: sqlite3.Connection, label: str | None
) -> list[tuple[str, CommitRow]]:
    """Return labels with their commits, oldest first: of one label, or of all."""
    condition, parameters = (
        ("", []) if label is None else ("WHERE label.name = ?", [encode_text(label)])
    )
    rows = connection.execute(
        "SELECT label.name, h.id, h.name, h.pack, h.notes FROM label JOIN history h"  # noqa: S608
        f" ON h.id = label.history {condition} ORDER BY label.name, h.time_us, h.id",
        parameters,
    )
    return [(_decode_text(name, "a label"), CommitRow(*row)) for name, *row in rows.fetchall()]


def insert_commits(
    connection: sqlite3.Connection, several: Sequence[tuple[BatchCommit, int]]
) -> None:
    """Insert the rows of commits in the packs of these numbers, parents before children."""
    rows: list[tuple[object, ...]] = []
    for new, number in several:
        name, principal_name = bytes.fromhex(new.id[4:]), encode_text(new.commit.principal)
        parent = new.commit.parent and bytes.fromhex(new.commit.parent[4:])
        rows.append(
            (name, number, parent, principal_name, new.time_us, seal_notes(new.id, new.notes))
        )
    principals = [(principal_name,) for principal_name in {row[3] for row in rows}]
    connection.executemany("INSERT OR IGNORE INTO principal (name) VALUES (?)", principals)
    connection.executemany(_INSERT_SQL, rows)
    for new, _ in several:
        if new.notes.labels and (row := find_row(connection, new.id)):
            _insert_labels(connection, row.id, new.notes)


def update_pack(connection: sqlite3.Connection, name: CommitId, number: int) -> bool:
    """Update the pack number of a commit's row. Return whether the row exists."""
    row = find_row(connection, name)
    if row is not None:
        query = "UPDATE history SET pack = ?, name = ? WHERE id = ?"
        connection.execute(query, [number, bytes.fromhex(name[4:]), row.id])
    return row is not None


def update_row_notes(
    connection: sqlite3.Connection, row: CommitRow, name: CommitId, notes: CommitNotes
) -> None:
    """Replace a commit's notes."""
    connection.execute(
        "UPDATE history SET notes = ? WHERE id = ?", [seal_notes(name, notes), row.id]
    )
    connection.execute("DELETE FROM label WHERE history = ?", [row.id])
    _insert_labels(connection, row.id, notes)


def seal_notes(name: CommitId, notes: CommitNotes) -> bytes:
    """Return notes as stored in a row."""
    return add_seal(name, canonical.to_canonical_bytes(notes))


def unseal_notes(name: CommitId, data: bytes) -> CommitNotes:
    """Decode a commit's notes from a row. Raises ValueError if they are damaged."""
    body = remove_seal(name, data)
    try:
        return _notes_decoder.decode(body)
    # The notes contain lone surrogates, or are invalid.
    except (msgspec.DecodeError, UnicodeDecodeError):
        return msgspec.convert(canonical.from_json(body), CommitNotes)


def clamp(limit: int) -> int:
    """Return a limit that SQLite can compare."""
    return max(0, min(limit, NO_LIMIT))


def encode_text(text: str) -> bytes:
    """Encode text for the tables, including lone surrogates."""
    return text.encode("utf-8", "surrogatepass")


def principal(connection: sqlite3.Connection, name: str) -> int:
    """Return the id of a principal, which is inserted if it is new."""
    connection.execute("INSERT OR IGNORE INTO principal (name) VALUES (?)", [encode_text(name)])
    query = "SELECT id FROM principal WHERE name = ?"
    (id_,) = connection.execute(query, [encode_text(name)]).fetchone()
    return int(id_)


_notes_decoder = msgspec.json.Decoder(CommitNotes)


def _decode_name(data: object) -> CommitId:
    if isinstance(data, bytes) and len(data) == _NAME_BYTES:
        return CommitId(f"ctx-{data.hex()}")
    raise RowCorrupted(f"{data!r} is not the name of a commit")


def _decode_text(data: object, kind: str) -> str:
    if isinstance(data, bytes):
        with suppress(UnicodeDecodeError):
            return data.decode("utf-8", "surrogatepass")
    raise RowCorrupted(f"{data!r} is not {kind}")


def _insert_labels(connection: sqlite3.Connection, id_: int, notes: CommitNotes) -> None:
    rows = [(encode_text(label), id_) for label in notes.labels]
    connection.executemany("INSERT OR IGNORE INTO label (name, history) VALUES (?, ?)", rows)
