"""Encode values with LangGraph's serializer, and plain data without it."""

from __future__ import annotations

from typing import Any

import msgspec
from langgraph.checkpoint.base import Checkpoint
from langgraph.checkpoint.serde.base import SerializerProtocol

from harken.adapters.records import PLAIN, TypedBytes, pack

_OTHER_MEMBERS = ("id", "channel_values")
"""The members of a checkpoint that its row has elsewhere."""


def dump_plain(serde: SerializerProtocol, value: Any) -> TypedBytes:
    """Encode plain data as MessagePack, and other data with the serializer."""
    try:
        return PLAIN, pack(value)
    except (TypeError, ValueError, OverflowError):
        return serde.dumps_typed(value)


def dump_head(serde: SerializerProtocol, checkpoint: Checkpoint) -> TypedBytes:
    """Encode a checkpoint without its id and the values of its channels."""
    head = {name: value for name, value in checkpoint.items() if name not in _OTHER_MEMBERS}
    if head.get("pending_sends"):
        return serde.dumps_typed(head)
    return dump_plain(serde, head)


def load(serde: SerializerProtocol, data: TypedBytes) -> Any:
    """Decode a value of either encoding."""
    kind, body = data
    return msgspec.msgpack.decode(body) if kind == PLAIN else serde.loads_typed((kind, body))
