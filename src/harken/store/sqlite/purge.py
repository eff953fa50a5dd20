"""Purging in the file: stand-ins come and what they stand for goes, in one transaction.

After it the bytes are still in free pages and in the log beside the file; so the file is written
anew (`shrink`). A purge that was cut off before that is finished by the next one, whatever that
one purges.

Source: docs/formats/store.md, "Purging".
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Mapping

from harken.core.clock import parse_rfc3339
from harken.core.commits import CommitId, decode_commit
from harken.store.base import Name, ObjectKind, StoredObject, Tombstone
from harken.store.purge import PurgePlan, replaced
from harken.store.sqlite import commit_table, pack_table, side_tables
from harken.store.sqlite import side_tables as tombs
from harken.store.sqlite.graph import graph_of, remove
from harken.store.sqlite.name_index import enter
from harken.store.sqlite.side_tables import kept


def replace(
    store: str,
    connection: sqlite3.Connection,
    stand_ins: Mapping[Name, bytes],
    tombstone: Tombstone,
    found: Callable[[Name], StoredObject | None],
) -> None:
    """Put stand-ins in the place of things, in the transaction that is open. As `Store.purge`.

    `found` gives what is read under a name.
    """
    before = tombs.tombstones(connection)
    done = replaced(store, stand_ins, tombstone, found=found, tombstones=before)
    numbers = _add(connection, done, found)
    led_from: dict[Name, list[Name]] = {}
    for name, stone in before.items():
        led_from.setdefault(stone.stand_in, []).append(name)
    remove(store, connection, list(done.gone), led_from)
    for name, stone in done.tombstones.items():
        tombs.set_tombstone(connection, name, stone)
        if name.startswith("ctx-"):
            _lead(connection, CommitId(name), stone.stand_in, numbers, done)
    connection.execute("DELETE FROM principal WHERE id NOT IN (SELECT principal FROM history)")
    _unmake(store, connection)


def _add(
    connection: sqlite3.Connection, done: PurgePlan, found: Callable[[Name], StoredObject | None]
) -> dict[Name, int]:
    """Write the stand-ins that are not there; return their numbers."""
    new = [
        thing
        for name, thing in done.contents.things.items()
        if name not in done.tombstones and (thing.kind is ObjectKind.COMMIT or found(name) is None)
    ]
    numbers: dict[Name, int] = {}
    for number, pack in pack_table.add(connection, new):
        numbers |= dict.fromkeys(pack.things, number)
    enter(connection, numbers)
    return numbers


def _lead(
    connection: sqlite3.Connection,
    name: CommitId,
    stand_in: Name,
    numbers: Mapping[Name, int],
    done: PurgePlan,
) -> None:
    """Let the row of a commit lead to what stands for it."""
    row = commit_table.row_of(connection, name)
    thing = done.contents.things.get(stand_in)
    if row is not None and thing is not None:
        commit = decode_commit(thing.body)
        who = commit_table.principal(connection, commit.principal)
        connection.execute(
            "UPDATE history SET pack = ?, principal = ?, time_us = ? WHERE id = ?",
            [numbers[stand_in], who, parse_rfc3339(commit.created_at), row.id],
        )


def _unmake(store: str, connection: sqlite3.Connection) -> None:
    """Take out what can be made again, and all that nothing else needs: it may hold anything."""
    refs = list(side_tables.artifacts(connection).values())
    connection.execute("DELETE FROM derived")
    if not refs:
        return
    graph = graph_of(store, connection)
    replaces = tombs.stand_ins(connection)
    graph.replace(replaces)
    made = graph.reach(map(graph.node, refs))
    stay: Iterable[Name] = [
        *(f"ctx-{digest.hex()}" for (digest,) in connection.execute("SELECT name FROM history")),
        *kept(connection),
        *filter(None, replaces.values()),
    ]
    others = [node for node in graph if not made[node]]
    needed = graph.reach([*others, *map(graph.node, stay)])
    gone = [graph.name(node) for node in graph if made[node] and not needed[node]]
    remove(store, connection, gone, {})
