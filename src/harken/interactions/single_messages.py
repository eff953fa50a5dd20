"""Store single messages that are logged before any thread contains them.

A message is a stored object, so logging it again stores nothing. Its time and model are stored as a
delta of one entry, which is found by the message id. Garbage collection removes a message that no
thread refers to.
"""

from __future__ import annotations

from harken.core import canonical
from harken.core.commits import DeltaEntry, Hash, encode_delta, encode_message
from harken.core.event_types.message_parser import redact_message
from harken.core.messages import MessageContent
from harken.core.secrets.redaction import Credentials
from harken.errors import FormatError
from harken.interactions.records import LoggedMessage, MessageMetadata
from harken.interactions.unit import join_unit, split_content, to_message
from harken.store.base import Store, WriteBatch

_KEY_PREFIX = "interactions-v1:"


def store_message(
    store: Store, message: LoggedMessage, time: str, credentials: Credentials | None = None
) -> str:
    """Store a message unless it exists; return its id. Raises FormatError, StoreError.

    If credentials are removed from it, the id is that of the message without them.
    """
    encoded = encode_message(redact_message(to_message(message), credentials))
    key = _KEY_PREFIX + encoded.name
    if store.find_derived([key]):
        return encoded.name
    metadata = message.metadata or MessageMetadata()
    source = {"model": metadata.model, "tool_name": metadata.tool_name}
    entry_source = {name: value for name, value in source.items() if value is not None}
    entry = DeltaEntry(encoded.name, encoded.occurrence, time or None, entry_source or None)
    artifact, _ = encode_delta([entry])
    objects = {**dict(encoded.parts), encoded.name: encoded.body}
    store.write(WriteBatch(objects=objects, deltas={artifact: [entry]}, derived={key: artifact}))
    return encoded.name


def find_message(store: Store, id: str, *, tokens: bool) -> LoggedMessage | None:
    """Return a message of the store. Return None if it does not exist or has several units.

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
        content = MessageContent(
            shape["role"], [canonical.from_json(parts[part]) for part in names]
        )
        entry = _find_occurrence(store, id)
        source = {} if entry is None else entry.source or {}
        unit, *others = split_content(content, source.get("tool_name"))
        join_unit(content)
    except (ValueError, LookupError, TypeError, AttributeError, FormatError):
        return None
    if others or unit.id != id:
        return None
    time = "" if entry is None else entry.time or ""
    return unit.logged(time, source.get("model"), tokens=tokens)


def _find_occurrence(store: Store, id: str) -> DeltaEntry | None:
    key = _KEY_PREFIX + id
    artifact = store.find_derived([key]).get(key)
    entries = [] if artifact is None else store.deltas([artifact]).get(artifact, [])
    return entries[0] if entries else None
