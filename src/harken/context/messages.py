"""Messages as a store keeps them, put together again: a few round trips, however many they are."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby
from typing import Any, Protocol, runtime_checkable

from harken.core import codec
from harken.core.commits import ArtifactRef, Entry, Hash
from harken.core.messages import Message, PureMessage, join
from harken.errors import ObjectDamaged, ObjectMissing, StoreError
from harken.store.base import Store

_AT_ONCE = 4096
"""How many artifacts are read at once: what a store opens for them serves their messages too."""


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
    for is_quick, some in groupby(artifacts, quick.__contains__):
        if is_quick:
            found += chain.from_iterable(quick[one] for one in some)
        else:
            left = list(some)
            for at in range(0, len(left), _AT_ONCE):
                found += messages_of(store, entries_in(store, left[at : at + _AT_ONCE]))
    return found


def entries_in(store: Store, artifacts: Sequence[ArtifactRef]) -> list[Entry]:
    """Return the entries of deltas, and of sequences of them, in order.

    Raises ObjectMissing, ObjectDamaged, and StoreError for raw bytes: those are no messages.
    """
    deltas = store.deltas(dict.fromkeys(artifacts))
    if len(deltas) < len(artifacts):
        artifacts = list(_flat(store, artifacts, deltas))
    return [entry for artifact in artifacts for entry in deltas[artifact]]


def messages_of(store: Store, entries: Sequence[Entry]) -> list[Message]:
    """Return the messages that entries stand for, each read once however often it occurs.

    Raises ObjectMissing, ObjectDamaged.
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


def _flat(
    store: Store, artifacts: Iterable[ArtifactRef], deltas: dict[ArtifactRef, list[Entry]]
) -> Iterator[ArtifactRef]:
    """Yield the deltas that artifacts are made of; those that were not read yet are."""
    waiting = list(artifacts)[::-1]
    while waiting:
        name = waiting.pop()
        if name not in deltas:
            deltas |= store.deltas([name])
        if name in deltas:
            yield name
        elif found := store.sequences([name]):
            deltas |= store.deltas(found[name])
            waiting += found[name][::-1]
        else:
            raise _no_messages(store, name)


def _no_messages(store: Store, name: ArtifactRef) -> StoreError:
    """Return what to say of an artifact that is neither a delta nor a sequence."""
    try:
        next(store.pieces(name), None)
    except ObjectMissing:
        return ObjectMissing("the store", name)
    return StoreError("the store", f"{name} is raw bytes, not messages: read it by its format")


def _shape(name: Hash, body: bytes) -> tuple[Any, list[Hash]]:
    """Return the role of a message, and its parts by name."""
    try:
        shape = codec.decode(body)
        return shape["role"], list(shape["parts"])
    except (LookupError, TypeError, ValueError) as error:
        reason = f"it is no message ({error!r})"
        raise ObjectDamaged("the store", name, reason=reason) from None


def _value(name: Hash, body: bytes) -> Any:
    try:
        return codec.decode(body)
    except ValueError as error:
        raise ObjectDamaged("the store", name, reason=f"it is no part ({error!r})") from None


def _whole(entry: Entry, shape: tuple[Any, Sequence[Hash]], values: Mapping[Hash, Any]) -> Message:
    """Put one message together; what another machine wrote may not fit together."""
    try:
        role, parts = shape
        return join(PureMessage(role, [values[part] for part in parts]), entry.occurrence)
    except (LookupError, TypeError, ValueError, StopIteration) as error:
        reason = f"its occurrence does not fit ({error!r})"
        raise ObjectDamaged("the store", entry.message, reason=reason) from None


def _check_there(names: Iterable[str], found: Container[str]) -> None:
    for name in names:
        if name not in found:
            raise ObjectMissing("the store", name)
