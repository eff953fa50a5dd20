"""`MessageEncoder`: the lines of a history that is passed whole at each step.

A message that was encoded at the same place and has the same content keeps its line. Programs may
change a message in place, as pydantic-ai does when it sends a request, so the values in it are
compared, not only the message: 1 to 2 µs for each message, a tenth of the time to encode it.

Source: docs/design/020-adapters.md.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from datetime import datetime
from operator import is_
from typing import Any, NamedTuple, TypeAlias

from pydantic_ai.messages import ModelMessage

from harken.adapters.pydantic_ai.message_log import encode_messages

_SCALARS = frozenset({type(None), bool, int, float, str, bytes, datetime})
_MAX_HISTORIES = 64


_Container: TypeAlias = tuple[Any, list[Any]]
"""A list, a dict, its values, or an object with members; and the values that it had."""


class _EncodedMessage(NamedTuple):
    """A message with its line, and the values that it had."""

    message: ModelMessage
    line: bytes
    containers: list[_Container] | None
    """None if not all values can be compared."""

    def is_current(self) -> bool:
        """Whether the message still has the values of the line.

        Each value is compared by identity: a container is compared by its values, too, and other
        values cannot change.
        """
        if self.containers is None:
            return False
        for owner, values in self.containers:
            # Another `__dict__` may have been assigned.
            container = owner.__dict__.values() if hasattr(owner, "__dict__") else owner
            if len(container) != len(values) or not all(map(is_, container, values)):
                return False
        return True


class MessageEncoder:
    """Encodes the history of one run again and again."""

    def __init__(self) -> None:
        self._encoded: list[_EncodedMessage] = []

    def encode(self, messages: Sequence[ModelMessage]) -> list[bytes]:
        """Return the lines of messages, as `encode_messages`."""
        encoded = self._encoded
        del encoded[len(messages) :]
        for index, (entry, message) in enumerate(zip(encoded, messages, strict=False)):
            if entry.message is not message or not entry.is_current():
                encoded[index] = _encode(message)
        encoded += map(_encode, messages[len(encoded) :])
        return [entry.line for entry in encoded]


def _encode(message: ModelMessage) -> _EncodedMessage:
    containers = _list_containers(message)  # Before the line: a later change is noticed then.
    (line,) = encode_messages([message])
    return _EncodedMessage(message, line, containers)


class EncoderCache:
    """The encoders of the histories that were encoded last. Python threads may share it."""

    def __init__(self) -> None:
        self._encoders: OrderedDict[str, MessageEncoder] = OrderedDict()
        self._lock = threading.Lock()

    def encode(self, key: str, messages: Sequence[ModelMessage]) -> list[bytes]:
        """Return the lines of messages. key: that of histories with the same beginning."""
        with self._lock:
            encoder = self._encoders.pop(key, None) or MessageEncoder()
            self._encoders[key] = encoder
            if len(self._encoders) > _MAX_HISTORIES:
                self._encoders.popitem(last=False)
            return encoder.encode(messages)


class _Opaque(Exception):
    """A value whose content is not known."""


def _list_containers(message: object) -> list[_Container] | None:
    """Return the containers in a message, with their values.

    Return None if it has a value other than data classes of pydantic-ai, lists, dicts and scalars:
    other classes may define how they are encoded.
    """
    containers: list[_Container] = []
    try:
        _add_containers([message], containers)
    except (_Opaque, RecursionError):
        return None
    return containers


def _add_containers(values: Sequence[Any], containers: list[_Container]) -> None:
    for value in values:
        type_ = type(value)
        if type_ in _SCALARS:
            continue
        if type_ is list or type_ is tuple:
            containers.append((value, [*value]))
        elif type_ is dict:
            containers += ((value, [*value]), (value.values(), [*value.values()]))
        elif (
            type_.__module__.partition(".")[0] == "pydantic_ai"
            and hasattr(type_, "__dataclass_fields__")
            and hasattr(value, "__dict__")
        ):
            containers.append((value, [*value.__dict__.values()]))
        else:
            raise _Opaque
        _add_containers(containers[-1][1], containers)
