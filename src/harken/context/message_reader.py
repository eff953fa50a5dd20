"""Read messages from a store and assemble them, in a few round trips for any number of messages.

Names can be repeated at no cost, and sequences may contain sequences: a few bytes of a hostile
store could expand to more than the available memory. So the size of one conversation is limited.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby
from typing import Any, Protocol, runtime_checkable

from harken.core import canonical
from harken.core.commits import ArtifactRef, DeltaEntry, Hash
from harken.core.messages import Message, MessageContent, join_occurrence
from harken.errors import ArtifactNotMessages, ObjectCorrupted, ObjectNotFound, StoreError
from harken.store.base import Store

_ARTIFACTS_PER_READ = 4096
"""The number of artifacts per read. Packs that are loaded for them serve their messages too."""
MAX_MESSAGES = 1 << 21
"""The limit of messages in one conversation."""
MAX_NESTED_ARTIFACTS = 1 << 20
"""The limit of artifacts in the sequences of a conversation, including nested ones."""


@runtime_checkable
class _MessageStore(Protocol):
    """A store with a faster way to assemble messages."""

    def messages(self, names: Iterable[ArtifactRef]) -> dict[ArtifactRef, list[Message]]:
        """Return the messages of deltas, without those that must be read by name."""
        ...

    def messages_at(
        self, indexes: Mapping[ArtifactRef, Collection[int]]
    ) -> dict[ArtifactRef, dict[int, Message]]:
        """Return the messages of deltas at some indexes, as `messages`."""
        ...


def read_messages(store: Store, artifacts: Sequence[ArtifactRef]) -> list[Message]:
    """Return the messages of deltas and of sequences of them, in order. Errors as `entries_in`."""
    direct = store.messages(artifacts) if isinstance(store, _MessageStore) else {}
    messages: list[Message] = []
    for is_direct, run in groupby(artifacts, direct.__contains__):
        run_names = list(run)
        for start in range(0, len(run_names), _ARTIFACTS_PER_READ):
            batch = run_names[start : start + _ARTIFACTS_PER_READ]
            if is_direct:
                check_size(batch, direct)
                messages += chain.from_iterable(direct[name] for name in batch)
            else:
                messages += read_entry_messages(store, read_entries(store, batch))
            if len(messages) > MAX_MESSAGES:
                raise _size_error(batch[-1], f"{MAX_MESSAGES:,} messages")
    return messages


def read_messages_at(
    store: Store, indexes: Mapping[ArtifactRef, Collection[int]]
) -> dict[ArtifactRef, dict[int, Message]]:
    """Return the messages of deltas at some indexes, if the store has a fast way to read them.

    Deltas that must be read by name are left out, and indexes that a delta does not have.
    """
    return store.messages_at(indexes) if isinstance(store, _MessageStore) else {}


def read_entries(store: Store, artifacts: Sequence[ArtifactRef]) -> list[DeltaEntry]:
    """Return the entries of deltas and of sequences of them, in order.

    Raises ObjectNotFound, ObjectCorrupted, and ArtifactNotMessages for raw bytes.
    """
    deltas = store.deltas(dict.fromkeys(artifacts))
    if len(deltas) < len(artifacts):
        artifacts = list(iter_leaves(store, artifacts, deltas))
        for name in artifacts:
            if name not in deltas:
                raise _not_messages_error(store, name)
    check_size(artifacts, deltas)
    return [entry for artifact in artifacts for entry in deltas[artifact]]


def read_entry_messages(store: Store, entries: Sequence[DeltaEntry]) -> list[Message]:
    """Return the messages of entries. Each distinct message is read once.

    Raises ObjectNotFound, ObjectCorrupted.
    """
    names = dict.fromkeys([entry.message for entry in entries])
    objects = store.objects(names)
    _check_found(names, objects)
    roles_and_parts = {name: _decode_message(name, objects[name]) for name in names}
    parts = dict.fromkeys([part for _, parts in roles_and_parts.values() for part in parts])
    bodies = store.objects(parts)
    _check_found(parts, bodies)
    values = {name: _decode_part(name, body) for name, body in bodies.items()}
    return [_assemble(entry, roles_and_parts[entry.message], values) for entry in entries]


def iter_leaves(
    store: Store, artifacts: Iterable[ArtifactRef], deltas: dict[ArtifactRef, list[DeltaEntry]]
) -> Iterator[ArtifactRef]:
    """Yield artifacts in order, with the members of a sequence in its place.

    Deltas that were not read yet are added to `deltas`. An artifact that is not in it afterwards is
    raw, or missing. Raises ObjectCorrupted if sequences contain more than
    `MAX_NESTED_ARTIFACTS` artifacts.
    """
    stack = list(artifacts)[::-1]
    sequences: dict[ArtifactRef, list[ArtifactRef]] = {}
    nested = 0
    while stack:
        name = stack.pop()
        if name not in deltas and name not in sequences:
            deltas |= store.deltas([name])
            new_sequences = {} if name in deltas else store.sequences([name])
            for members in new_sequences.values():
                deltas |= store.deltas(dict.fromkeys(members))
            sequences |= new_sequences
        if name in sequences:
            nested += len(sequences[name])
            if nested > MAX_NESTED_ARTIFACTS:
                raise _size_error(name, f"{MAX_NESTED_ARTIFACTS:,} artifacts")
            stack += sequences[name][::-1]
        else:
            yield name


def check_size(
    artifacts: Iterable[ArtifactRef], deltas: Mapping[ArtifactRef, Sequence[object]]
) -> None:
    """Raise ObjectCorrupted if artifacts have more than `MAX_MESSAGES` messages together."""
    messages = 0
    for name in artifacts:
        messages += len(deltas.get(name, ()))
        if messages > MAX_MESSAGES:
            raise _size_error(name, f"{MAX_MESSAGES:,} messages")


def _size_error(name: ArtifactRef, limit: str) -> ObjectCorrupted:
    reason = f"a conversation with it comes to more than {limit}"
    return ObjectCorrupted("the store", name, reason=reason)


def _not_messages_error(store: Store, name: ArtifactRef) -> StoreError:
    """Build the error for an artifact that is neither a delta nor a sequence."""
    try:
        next(store.read_chunks(name), None)
    except ObjectNotFound:
        return ObjectNotFound("the store", name)
    return ArtifactNotMessages("the store", name)


def _decode_message(name: Hash, body: bytes) -> tuple[Any, list[Hash]]:
    """Return the role of a message and the names of its parts."""
    try:
        record = canonical.from_json(body)
        return record["role"], list(record["parts"])
    except (LookupError, TypeError, ValueError) as error:
        reason = f"it is not a message ({error!r})"
        raise ObjectCorrupted("the store", name, reason=reason) from None


def _decode_part(name: Hash, body: bytes) -> Any:
    try:
        return canonical.from_json(body)
    except ValueError as error:
        raise ObjectCorrupted("the store", name, reason=f"it is not a part ({error!r})") from None


def _assemble(
    entry: DeltaEntry, role_and_parts: tuple[Any, Sequence[Hash]], values: Mapping[Hash, Any]
) -> Message:
    """Assemble a message. Raises ObjectCorrupted if its data is inconsistent."""
    try:
        role, parts = role_and_parts
        return join_occurrence(
            MessageContent(role, [values[part] for part in parts]), entry.occurrence
        )
    except (LookupError, TypeError, ValueError, StopIteration, RecursionError) as error:
        reason = f"its occurrence does not fit ({error!r})"
        raise ObjectCorrupted("the store", entry.message, reason=reason) from None


def _check_found(names: Iterable[str], existing: Container[str]) -> None:
    for name in names:
        if name not in existing:
            raise ObjectNotFound("the store", name)
