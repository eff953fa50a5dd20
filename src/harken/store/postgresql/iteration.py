"""Iterates all objects, each after those that it needs.

Packs are read in the order of writing. Two writers of the same object, or a rewritten pack, may
put an object before one that it needs: such an object is held back until that one has been yielded.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator

from harken.store.base import Name, ObjectKind, StoredObject
from harken.store.batch import parse_needs
from harken.store.postgresql.database import PostgresDatabase
from harken.store.postgresql.names import to_name
from harken.store.postgresql.packs.reader import ObjectReader

_PACKS_AT_ONCE = 16
_COMMITS_AT_ONCE = 2000
_COMMITS = """
SELECT h.seq, o.digest, o.body FROM history h
LEFT JOIN tombstone t ON t.digest = h.digest
JOIN object o ON o.digest = CASE WHEN t.digest IS NULL THEN h.digest ELSE t.stand_in END
WHERE h.seq > %s ORDER BY h.seq LIMIT %s
"""


def iter_objects(database: PostgresDatabase, reader: ObjectReader) -> Iterator[StoredObject]:
    """Yield every object, each after the objects that it requires. Raises ObjectCorrupted."""
    rows = database.fetch("SELECT digest, prefix FROM tombstone")
    purged = {f"{prefix}{digest.hex()}" for digest, prefix in rows}
    return _order(_iter_unordered(database, reader), purged)


def _iter_unordered(database: PostgresDatabase, reader: ObjectReader) -> Iterator[StoredObject]:
    """Yield every object, commits last. Some may be yielded twice."""
    read_numbers: set[int] = set()
    while True:
        # A pack that was rewritten meanwhile is listed the next time, under its new number.
        rows = database.fetch("SELECT id FROM pack ORDER BY place, id")
        numbers = [number for (number,) in rows if number not in read_numbers]
        read_numbers.update(numbers)
        are_all_there = True
        for start in range(0, len(numbers), _PACKS_AT_ONCE):
            batch = numbers[start : start + _PACKS_AT_ONCE]
            packs = yield from _iter_packs(database, reader, batch)
            are_all_there &= packs == len(batch)
        if are_all_there:
            break
    last = -1
    while commits := database.fetch(_COMMITS, [last, _COMMITS_AT_ONCE]):
        last = commits[-1][0]
        for _, digest, body in commits:
            yield reader.check_commit(to_name(ObjectKind.COMMIT, digest), body)


def _iter_packs(
    database: PostgresDatabase, reader: ObjectReader, numbers: list[int]
) -> Generator[StoredObject, None, int]:
    """Yield the live objects of packs. Return the number of packs that exist."""
    rows = database.fetch("SELECT pack, kind, digest FROM object WHERE pack = ANY(%s)", [numbers])
    live: dict[int, set[Name]] = {}
    for number, kind, digest in rows:
        live.setdefault(number, set()).add(to_name(ObjectKind(kind), digest))
    packs = reader.load_packs(numbers)
    for number in numbers:
        for name, (kind, body) in packs.get(number, {}).items():
            if name in live.get(number, ()):
                yield StoredObject(kind, name, body)
    return len(packs)


def _order(objects: Iterable[StoredObject], purged: set[Name]) -> Iterator[StoredObject]:
    """Yield objects in such an order that each follows its needs, without repetitions."""
    yielded: set[bytes] = set()
    waiting: dict[bytes, list[StoredObject]] = {}
    """Objects by the first of their needs that was not yielded."""
    for obj in objects:
        stack = [obj]
        while stack:
            current = stack.pop()
            key = _key(current.name)
            if key in yielded:
                continue
            needs = current.needs or parse_needs(current.kind, current.body)
            missing = next((n for n in needs if n not in purged and _key(n) not in yielded), None)
            complete = StoredObject(current.kind, current.name, current.body, needs)
            if missing is not None:
                waiting.setdefault(_key(missing), []).append(complete)
                continue
            yielded.add(key)
            yield complete
            stack += waiting.pop(key, [])
    # What these need is missing: a check reports it.
    for group in waiting.values():
        yield from group


def _key(name: Name) -> bytes:
    """Return a short key of a name: a prefix of its hash is enough to tell names apart."""
    return bytes.fromhex(name[-64:-32])
