"""Purging in the file: stand-ins are added and the originals removed, in one transaction.

Afterwards the bytes are still in free pages and in the log of the file; so the file is rewritten
(`rewrite_file`). A purge that was interrupted before that is completed by the next one, whatever
that one purges.

Source: docs/formats/store.md, "Purging".
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Mapping

from harken.core.clock import parse_rfc3339
from harken.core.commits import CommitId, decode_commit
from harken.store.base import Name, ObjectKind, StoredObject, Tombstone
from harken.store.purge import PurgePlan, plan_purge
from harken.store.sqlite import commit_table, pack_table, side_tables
from harken.store.sqlite.graph import build_graph, remove_objects
from harken.store.sqlite.name_index import insert_keys
from harken.store.sqlite.side_tables import read_retention


def replace_objects(
    store: str,
    connection: sqlite3.Connection,
    stand_ins: Mapping[Name, bytes],
    tombstone: Tombstone,
    find_object: Callable[[Name], StoredObject | None],
) -> None:
    """Replace objects by stand-ins, in the open transaction. As `Store.purge`.

    `find_object` returns the object that is read under a name.
    """
    old_tombstones = side_tables.read_tombstones(connection)
    done = plan_purge(
        store, stand_ins, tombstone, find_object=find_object, tombstones=old_tombstones
    )
    numbers = _add_stand_ins(connection, done, find_object)
    led_from: dict[Name, list[Name]] = {}
    for name, stone in old_tombstones.items():
        led_from.setdefault(stone.stand_in, []).append(name)
    remove_objects(store, connection, list(done.originals), led_from)
    for name, stone in done.tombstones.items():
        side_tables.set_tombstone(connection, name, stone)
        if name.startswith("ctx-"):
            _redirect_row(connection, CommitId(name), stone.stand_in, numbers, done)
    connection.execute("DELETE FROM principal WHERE id NOT IN (SELECT principal FROM history)")
    _remove_derived(store, connection)


def _add_stand_ins(
    connection: sqlite3.Connection,
    plan: PurgePlan,
    find_object: Callable[[Name], StoredObject | None],
) -> dict[Name, int]:
    """Write the new stand-ins and return their numbers."""
    new = [
        obj
        for name, obj in plan.contents.objects.items()
        if name not in plan.tombstones
        and (obj.kind is ObjectKind.COMMIT or find_object(name) is None)
    ]
    numbers: dict[Name, int] = {}
    for number, pack in pack_table.insert_packs(connection, new, {}):
        numbers |= dict.fromkeys(pack.objects, number)
    insert_keys(connection, numbers)
    return numbers


def _redirect_row(
    connection: sqlite3.Connection,
    name: CommitId,
    stand_in: Name,
    numbers: Mapping[Name, int],
    plan: PurgePlan,
) -> None:
    """Point the row of a commit to its stand-in."""
    row = commit_table.find_row(connection, name)
    obj = plan.contents.objects.get(stand_in)
    if row is not None and obj is not None:
        commit = decode_commit(obj.body)
        principal_id = commit_table.principal(connection, commit.principal)
        connection.execute(
            "UPDATE history SET pack = ?, principal = ?, time_us = ? WHERE id = ?",
            [numbers[stand_in], principal_id, parse_rfc3339(commit.created_at), row.id],
        )


def _remove_derived(store: str, connection: sqlite3.Connection) -> None:
    """Remove derived artifacts, which may contain anything, and objects that only they need."""
    refs = list(side_tables.read_derived(connection).values())
    connection.execute("DELETE FROM derived")
    if not refs:
        return
    graph = build_graph(store, connection)
    stand_ins = side_tables.read_stand_ins(connection)
    graph.add_stand_ins(stand_ins)
    derivable = graph.reach(map(graph.node, refs))
    retained: Iterable[Name] = [
        *(f"ctx-{digest.hex()}" for (digest,) in connection.execute("SELECT name FROM history")),
        *read_retention(connection),
        *side_tables.read_artifact_heads(connection).values(),
        *filter(None, stand_ins.values()),
    ]
    other_nodes = [node for node in graph if not derivable[node]]
    needed = graph.reach([*other_nodes, *map(graph.node, retained)])
    garbage = [graph.name(node) for node in graph if derivable[node] and not needed[node]]
    remove_objects(store, connection, garbage, {})
