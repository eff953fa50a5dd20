"""Loose messages: logged by themselves, before any thread has them. The store keeps them.

One idea: a message is an object like any other, so logging it again stores nothing. When it was
said, and by which model, is an occurrence of it: a delta of one entry, found by the message's id.
What no thread comes to name goes with the next garbage collection, as all that nothing needs.
"""

from __future__ import annotations

from harken.core import canonical
from harken.core.commits import DeltaEntry, Hash, encode_delta, encode_message
from harken.core.messages import MessageContent
from harken.errors import FormatError
from harken.interactions.records import LoggedMessage, MessageMetadata
from harken.interactions.unit import joined, message_of, units_in
from harken.store.base import Store, WriteBatch

_KEY = "interactions-v1:"


def keep(store: Store, message: LoggedMessage, time: str) -> str:
    """Store a message, if it is not there; return its id. Raises FormatError, StoreError."""
    said = encode_message(message_of(message))
    key = _KEY + said.name
    if store.find_derived([key]):
        return said.name
    metadata = message.metadata or MessageMetadata()
    source = {"model": metadata.model, "tool_name": metadata.tool_name}
    known = {name: value for name, value in source.items() if value is not None}
    entry = DeltaEntry(said.name, said.occurrence, time or None, known or None)
    artifact, _ = encode_delta([entry])
    objects = {**dict(said.parts), said.name: said.body}
    store.write(WriteBatch(objects=objects, deltas={artifact: [entry]}, derived={key: artifact}))
    return said.name


def find(store: Store, id: str, *, tokens: bool) -> LoggedMessage | None:
    """Return a message that is in a store; None: it is not, or is no message of one unit.

    Raises StoreError.
    """
    name = Hash(id)
    body = store.objects([name]).get(name)
    if body is None:
        return None
    try:
        shape = canonical.from_json(body)
        names = [Hash(part) for part in shape["parts"]]
        parts = store.objects(names)
        pure = MessageContent(shape["role"], [canonical.from_json(parts[part]) for part in names])
        entry = _occurrence(store, id)
        source = {} if entry is None else entry.source or {}
        unit, *others = units_in(pure, source.get("tool_name"))
        joined(pure)
    except (ValueError, LookupError, TypeError, AttributeError, FormatError):
        return None
    if others or unit.id != id:
        return None
    time = "" if entry is None else entry.time or ""
    return unit.logged(time, source.get("model"), tokens=tokens)


def _occurrence(store: Store, id: str) -> DeltaEntry | None:
    key = _KEY + id
    artifact = store.find_derived([key]).get(key)
    entries = [] if artifact is None else store.deltas([artifact]).get(artifact, [])
    return entries[0] if entries else None
