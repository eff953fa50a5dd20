"""Checks a store: every pack is read and hashed, and every reference is looked up.

Nothing is changed. Damage is reported with the place of the bytes and with what to do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from harken.core.clock import parse_rfc3339
from harken.core.commits import ArtifactRef, DeltaEntry, decode_commit
from harken.errors import HarkenError, ObjectCorrupted
from harken.store.base import Name, ObjectKind, Progress, Store, StoreFinding
from harken.store.batch import compute_name, parse_needs
from harken.store.message_check import iter_problems, read_bodies
from harken.store.postgresql.database import PostgresDatabase
from harken.store.postgresql.names import decode_text, to_digest, to_name
from harken.store.postgresql.packs.reader import ObjectReader, StoredPack, decode_notes
from harken.store.sqlite.pack import Body, PackCorrupted, decode_objects

_PACKS_AT_ONCE = 16
_COMMITS_AT_ONCE = 2000
_DELTAS_AT_ONCE = 200
_MAX_FINDINGS = 100
"""Missing references that one check reports, at most."""
_RESTORE = "restore it from a backup; nothing was changed"
_MISSING_NEEDS = """
SELECT o.kind, o.digest, need.digest FROM object o, unnest(o.needs) AS need (digest)
WHERE NOT EXISTS (SELECT 1 FROM object n WHERE n.digest = need.digest)
    AND NOT EXISTS (SELECT 1 FROM tombstone t WHERE t.digest = need.digest)
LIMIT %s
"""
_MISSING_TARGETS = {
    "history": """
        SELECT 'ctx-' || encode(h.digest, 'hex') FROM history h
        LEFT JOIN tombstone t ON t.digest = h.digest
        LEFT JOIN object o ON o.digest = coalesce(t.stand_in, h.digest) AND o.kind = 6
        WHERE o.digest IS NULL LIMIT %s
    """,
    "label": """
        SELECT encode(l.digest, 'hex') FROM label l LEFT JOIN history h USING (digest)
        WHERE h.digest IS NULL LIMIT %s
    """,
    "head": """
        SELECT encode(e.head, 'hex') FROM head e LEFT JOIN tombstone t ON t.digest = e.head
        LEFT JOIN object o ON o.digest = coalesce(t.stand_in, e.head)
        WHERE o.digest IS NULL LIMIT %s
    """,
    "derived": """
        SELECT encode(d.digest, 'hex') FROM derived d LEFT JOIN tombstone t ON t.digest = d.digest
        LEFT JOIN object o ON o.digest = coalesce(t.stand_in, d.digest)
        WHERE o.digest IS NULL LIMIT %s
    """,
    "retention": """
        SELECT r.prefix || encode(r.digest, 'hex') FROM retention r
        LEFT JOIN tombstone t ON t.digest = r.digest
        LEFT JOIN object o ON o.digest = coalesce(t.stand_in, r.digest)
        WHERE o.digest IS NULL LIMIT %s
    """,
    "tombstone": """
        SELECT t.prefix || encode(t.digest, 'hex') FROM tombstone t
        LEFT JOIN object o ON o.digest = t.stand_in
        WHERE t.stand_in IS NOT NULL AND o.digest IS NULL LIMIT %s
    """,
    "object": """
        SELECT encode(o.digest, 'hex') FROM object o LEFT JOIN pack p ON p.id = o.pack
        WHERE o.pack IS NOT NULL AND p.id IS NULL LIMIT %s
    """,
}


def iter_findings(
    store: Store, database: PostgresDatabase, reader: ObjectReader, on_progress: Progress | None
) -> Iterator[StoreFinding]:
    """Yield the problems of a store."""
    try:
        yield from _check_packs(store, database, reader, on_progress)
        yield from _check_commits(database, reader)
        yield from _check_references(database)
    except HarkenError as error:
        yield StoreFinding(database.place, str(error).removeprefix(f"{database.place}: "))


def _check_packs(
    store: Store, database: PostgresDatabase, reader: ObjectReader, on_progress: Progress | None
) -> Iterator[StoreFinding]:
    numbers = [number for (number,) in database.fetch("SELECT id FROM pack ORDER BY place, id")]
    for start in range(0, len(numbers), _PACKS_AT_ONCE):
        batch = numbers[start : start + _PACKS_AT_ONCE]
        deltas: list[ArtifactRef] = []
        packs = reader.find_packs(batch)
        data = reader.read_data(packs.values())
        rows = _read_rows(database, batch)
        for number, pack in packs.items():
            for finding in _check_pack(reader, pack, data[number], rows.get(number, {})):
                # A pack that was rewritten meanwhile is no damage.
                if reader.find_packs([number]):
                    yield finding
            kinds = {name: kind for name, (kind, _) in rows.get(number, {}).items()}
            deltas += [ArtifactRef(n) for n, kind in kinds.items() if kind is ObjectKind.DELTA]
        yield from _check_messages(store, deltas)
        if on_progress is not None:
            on_progress(start + len(batch), len(numbers))


def _read_rows(
    database: PostgresDatabase, numbers: Sequence[int]
) -> dict[int, dict[Name, tuple[ObjectKind, list[bytes]]]]:
    """Return the rows of the objects of packs: kind and needs, by pack and name."""
    query = "SELECT pack, kind, digest, needs FROM object WHERE pack = ANY(%s)"
    rows: dict[int, dict[Name, tuple[ObjectKind, list[bytes]]]] = {}
    for number, kind, digest, needs in database.fetch(query, [list(numbers)]):
        name = to_name(ObjectKind(kind), digest)
        rows.setdefault(number, {})[name] = ObjectKind(kind), list(needs or ())
    return rows


def _check_pack(
    reader: ObjectReader,
    pack: StoredPack,
    data: bytes | None,
    rows: Mapping[Name, tuple[ObjectKind, list[bytes]]],
) -> Iterator[StoreFinding]:
    place = reader.describe_pack(pack)
    affected = f"{len(rows)} objects are in it, {min(rows)} for one" if rows else "nothing needs it"
    if data is None:
        yield StoreFinding(place, f"the pack is missing ({affected}); {_RESTORE}")
        return
    try:
        objects: Mapping[Name, Body] = decode_objects(data)
    except PackCorrupted as error:
        yield StoreFinding(place, f"the pack is damaged: {error} ({affected}); {_RESTORE}")
        return
    for name, (kind, needs) in rows.items():
        problem = _find_problem(kind, needs, objects.get(name))
        if problem:
            yield StoreFinding(name, f"{problem} in {place}")


def _find_problem(kind: ObjectKind, needs: Sequence[bytes], body: Body | None) -> str:
    if body is None:
        return "the object is missing"
    if body[0] is not kind:
        return f"the object is a {body[0].name.lower()}, its row says {kind.name.lower()}"
    try:
        actual = [to_digest(need) for need in parse_needs(*body)]
    except ValueError as error:
        return f"the object cannot be read: {error}"
    return "" if actual == [*needs] else "its row names other objects than it needs"


def _check_messages(store: Store, deltas: Sequence[ArtifactRef]) -> Iterator[StoreFinding]:
    for start in range(0, len(deltas), _DELTAS_AT_ONCE):
        by_name: dict[ArtifactRef, list[DeltaEntry]] = {}
        try:
            by_name = store.deltas(deltas[start : start + _DELTAS_AT_ONCE])
            bodies = read_bodies(store, [e for entries in by_name.values() for e in entries])
        except ObjectCorrupted:
            continue  # The pack is reported.
        for name, entries in by_name.items():
            for message, problem in iter_problems(name, entries, bodies):
                yield StoreFinding(message, problem)


def _check_commits(database: PostgresDatabase, reader: ObjectReader) -> Iterator[StoreFinding]:
    last = b""
    query = """
        SELECT digest, body, needs FROM object
        WHERE body IS NOT NULL AND digest > %s ORDER BY digest LIMIT %s
    """
    while rows := database.fetch(query, [last, _COMMITS_AT_ONCE]):
        last = rows[-1][0]
        for digest, body, needs in rows:
            name = to_name(ObjectKind.COMMIT, digest)
            if compute_name(ObjectKind.COMMIT, body) != name:
                yield StoreFinding(name, f"its row has other bytes; {_RESTORE}")
                continue
            commit = decode_commit(body)
            actual = [commit.artifact, *filter(None, [commit.parent])]
            if [to_digest(need) for need in actual] != [*(needs or ())]:
                yield StoreFinding(name, "its row names other objects than it needs")
    yield from _check_notes(database)


def _check_notes(database: PostgresDatabase) -> Iterator[StoreFinding]:
    last = -1
    query = """
        SELECT h.seq, h.digest, h.notes, h.parent, h.principal, h.time_us, o.body
        FROM history h LEFT JOIN tombstone t ON t.digest = h.digest
        LEFT JOIN object o ON o.digest = coalesce(t.stand_in, h.digest)
        WHERE h.seq > %s ORDER BY h.seq LIMIT %s
    """
    while rows := database.fetch(query, [last, _COMMITS_AT_ONCE]):
        last = rows[-1][0]
        for _, digest, notes, parent, principal, time_us, body in rows:
            name = to_name(ObjectKind.COMMIT, digest)
            try:
                decode_notes(notes)
            except ValueError as error:
                yield StoreFinding(name, f"its notes cannot be read: {error}")
            if body is not None and not _is_row_of(body, parent, principal, time_us):
                yield StoreFinding(name, "its row in the history does not match the commit")


def _is_row_of(body: bytes, parent: bytes | None, principal: bytes, time_us: int) -> bool:
    try:
        commit = decode_commit(body)
        expected = None if commit.parent is None else to_digest(commit.parent)
        has_time = parse_rfc3339(commit.created_at) == time_us
        return has_time and expected == parent and decode_text(principal) == commit.principal
    except ValueError:
        return True  # The bytes of the commit are reported.


def _check_references(database: PostgresDatabase) -> Iterator[StoreFinding]:
    for kind, digest, need in database.fetch(_MISSING_NEEDS, [_MAX_FINDINGS]):
        name = to_name(ObjectKind(kind), digest)
        yield StoreFinding(name, f"{need.hex()}, which it needs, is missing; {_RESTORE}")
    for table, query in _MISSING_TARGETS.items():
        for (name,) in database.fetch(query, [_MAX_FINDINGS]):
            problem = f"the table `{table}` names it, and it is missing; {_RESTORE}"
            yield StoreFinding(name, problem)
