"""Messages as a store keeps them, put together again: a few round trips, however many they are.

Names cost nothing to repeat, and sequences may hold sequences: a few bytes of a hostile store can
stand for more than there is memory. So what one conversation may come to is bounded.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby
from typing import Any, Protocol, runtime_checkable

from harken.core import canonical
from harken.core.commits import ArtifactRef, DeltaEntry, Hash
from harken.core.messages import Message, MessageContent, join_occurrence
from harken.errors import ArtifactNotMessages, ObjectCorrupted, ObjectNotFound, StoreError
from harken.store.base import Store

_AT_ONCE = 4096
"""How many artifacts are read at once: what a store opens for them serves their messages too."""
MOST_MESSAGES = 1 << 21
"""In one conversation."""
MOST_NESTED = 1 << 20
"""How many artifacts the sequences in a conversation may come to, however they are nested."""


@runtime_checkable
class _ReadsMessages(Protocol):
    """A store that can put messages together by itself, more quickly."""

    def messages(self, names: Iterable[ArtifactRef]) -> dict[ArtifactRef, list[Message]]:
        """Return the messages of deltas; those that must be read by their names are left out."""
        ...


def read(store: Store, artifacts: Sequence[ArtifactRef]) -> list[Message]:
    """Return the messages of deltas, and of sequences of them, in order. As `entries_in`."""
    quick = store.messages(artifacts) if isinstance(store, _ReadsMessages) else {}
    found: list[Message] = []
    for is_quick, run in groupby(artifacts, quick.__contains__):
        some = list(run)
        for at in range(0, len(some), _AT_ONCE):
            now = some[at : at + _AT_ONCE]
            if is_quick:
                check_size(now, quick)
                found += chain.from_iterable(quick[one] for one in now)
            else:
                found += messages_of(store, entries_in(store, now))
            if len(found) > MOST_MESSAGES:
                raise _too_much(now[-1], f"{MOST_MESSAGES:,} messages")
    return found


def entries_in(store: Store, artifacts: Sequence[ArtifactRef]) -> list[DeltaEntry]:
    """Return the entries of deltas, and of sequences of them, in order.

    Raises ObjectNotFound, ObjectCorrupted, and ArtifactNotMessages for raw bytes.
    """
    deltas = store.deltas(dict.fromkeys(artifacts))
    if len(deltas) < len(artifacts):
        artifacts = list(leaves(store, artifacts, deltas))
        for name in artifacts:
            if name not in deltas:
                raise _no_messages(store, name)
    check_size(artifacts, deltas)
    return [entry for artifact in artifacts for entry in deltas[artifact]]


def messages_of(store: Store, entries: Sequence[DeltaEntry]) -> list[Message]:
    """Return the messages that entries stand for, each read once however often it occurs.

    Raises ObjectNotFound, ObjectCorrupted.
    """
    names = dict.fromkeys([entry.message for entry in entries])
    objects = store.objects(names)
    _check_there(names, objects)
    shapes = {name: _shape(name, objects[name]) for name in names}
    parts = dict.fromkeys([part for _, parts in shapes.values() for part in parts])
    bodies = store.objects(parts)
    _check_there(parts, bodies)
    values = {name: _value(name, body) for name, body in bodies.items()}
    return [_whole(entry, shapes[entry.message], values) for entry in entries]


def leaves(
    store: Store, artifacts: Iterable[ArtifactRef], deltas: dict[ArtifactRef, list[DeltaEntry]]
) -> Iterator[ArtifactRef]:
    """Yield artifacts in order, those of sequences in place of the sequence.

    Deltas that were not read yet are, into `deltas`; what is not in there then is raw, or missing.
    Raises ObjectCorrupted where sequences come to more than `MOST_NESTED` artifacts.
    """
    waiting = list(artifacts)[::-1]
    sequences: dict[ArtifactRef, list[ArtifactRef]] = {}
    nested = 0
    while waiting:
        name = waiting.pop()
        if name not in deltas and name not in sequences:
            deltas |= store.deltas([name])
            found = {} if name in deltas else store.sequences([name])
            for inner in found.values():
                deltas |= store.deltas(dict.fromkeys(inner))
            sequences |= found
        if name in sequences:
            nested += len(sequences[name])
            if nested > MOST_NESTED:
                raise _too_much(name, f"{MOST_NESTED:,} artifacts")
            waiting += sequences[name][::-1]
        else:
            yield name


def check_size(
    artifacts: Iterable[ArtifactRef], deltas: Mapping[ArtifactRef, Sequence[object]]
) -> None:
    """Raise ObjectCorrupted where artifacts hold more than `MOST_MESSAGES` together."""
    messages = 0
    for name in artifacts:
        messages += len(deltas.get(name, ()))
        if messages > MOST_MESSAGES:
            raise _too_much(name, f"{MOST_MESSAGES:,} messages")


def _too_much(name: ArtifactRef, most: str) -> ObjectCorrupted:
    reason = f"a conversation with it comes to more than {most}"
    return ObjectCorrupted("the store", name, reason=reason)


def _no_messages(store: Store, name: ArtifactRef) -> StoreError:
    """Return what to say of an artifact that is neither a delta nor a sequence."""
    try:
        next(store.read_chunks(name), None)
    except ObjectNotFound:
        return ObjectNotFound("the store", name)
    return ArtifactNotMessages("the store", name)


def _shape(name: Hash, body: bytes) -> tuple[Any, list[Hash]]:
    """Return the role of a message, and its parts by name."""
    try:
        shape = canonical.from_json(body)
        return shape["role"], list(shape["parts"])
    except (LookupError, TypeError, ValueError) as error:
        reason = f"it is no message ({error!r})"
        raise ObjectCorrupted("the store", name, reason=reason) from None


def _value(name: Hash, body: bytes) -> Any:
    try:
        return canonical.from_json(body)
    except ValueError as error:
        raise ObjectCorrupted("the store", name, reason=f"it is no part ({error!r})") from None


def _whole(
    entry: DeltaEntry, shape: tuple[Any, Sequence[Hash]], values: Mapping[Hash, Any]
) -> Message:
    """Put one message together; what another machine wrote may not fit together."""
    try:
        role, parts = shape
        return join_occurrence(
            MessageContent(role, [values[part] for part in parts]), entry.occurrence
        )
    except (LookupError, TypeError, ValueError, StopIteration, RecursionError) as error:
        reason = f"its occurrence does not fit ({error!r})"
        raise ObjectCorrupted("the store", entry.message, reason=reason) from None


def _check_there(names: Iterable[str], found: Container[str]) -> None:
    for name in names:
        if name not in found:
            raise ObjectNotFound("the store", name)
