"""Verification of messages: each entry of a delta is decoded as a reader would decode it.

A hash proves that bytes are unchanged, not that they are a message: a bundle or another program may
have written an object that no reader accepts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import get_args

from harken.core.commits import DeltaEntry, Hash, decode_entry
from harken.core.messages import Role
from harken.store.base import Store
from harken.store.batch import parse_message

_ROLES = frozenset(get_args(Role))


def decode_message(body: bytes) -> None:
    """Decode a message without its parts. Raises ValueError."""
    role = parse_message(body).role
    if role not in _ROLES:
        raise ValueError(f"unknown role {role!r}")


def list_objects(entry: DeltaEntry, bodies: Mapping[Hash, bytes]) -> list[Hash]:
    """Return the names of a message and, if `bodies` has the message, of its parts."""
    try:
        return [entry.message, *parse_message(bodies[entry.message]).parts]
    except (LookupError, ValueError):
        return [entry.message]


def read_bodies(store: Store, entries: Sequence[DeltaEntry]) -> dict[Hash, bytes]:
    """Read the messages of entries and their parts, those that exist. Raises StoreError."""
    bodies = store.objects([entry.message for entry in entries])
    parts = {name for entry in entries for name in list_objects(entry, bodies)[1:]}
    return bodies | store.objects(parts)


def iter_problems(
    delta: str, entries: Sequence[DeltaEntry], bodies: Mapping[Hash, bytes]
) -> Iterator[tuple[Hash, str]]:
    """Yield the name and problem of each message that does not decode.

    Messages with an object that `bodies` lacks are skipped.
    """
    for entry in entries:
        if all(name in bodies for name in list_objects(entry, bodies)):
            problem = _find_problem(entry, bodies)
            if problem:
                yield entry.message, f"the message cannot be decoded: {problem}; {delta} names it"


def _find_problem(entry: DeltaEntry, bodies: Mapping[Hash, bytes]) -> str:
    try:
        decode_entry(entry, bodies)
    except (LookupError, TypeError, ValueError, StopIteration, RecursionError) as error:
        return str(error) if isinstance(error, ValueError) else repr(error)
    return ""
