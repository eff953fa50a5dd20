"""`MessageItems`: the items of the messages that a program passes, request after request.

A program passes its whole conversation with each request, as values of its own: dicts or objects of
a client, which it may have changed since. So values are compared by their content, not by identity,
and only those after the first change are read. A request that repeats the values of the last one
has the same items, so an `AgentRecorder` does not compare them again.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from harken.core.messages import Message
from harken.formats.client_messages import messages_in
from harken.formats.plain_value import to_plain_value
from harken.formats.shared_list import SharedList
from harken.recording.writer.item import Item

_MARSHAL_VERSION = 2
"""The last version in which equal values have equal bytes: later ones mark shared objects."""


class MessageItems:
    """The items of the last request of one conversation."""

    def __init__(self, create_item: Callable[[Message], Item] = Item.from_message) -> None:
        """Start without a request. `create_item` is called once for each new message."""
        self._create_item = create_item
        self._encodings: list[bytes] = []
        """The content of each value of the last request."""
        self._ends: list[int] = []
        """The number of items up to the end of each value. A value may have several messages."""
        self._items: SharedList[Item] = SharedList()
        self._replaced: Sequence[Item] = ()
        """The items of the request before: the recorder still refers to them, weakly."""

    def find_items(self, values: Sequence[Any]) -> SharedList[Item]:
        """Return the items of a request. Only values that have changed are read. Never raises."""
        encodings = [*map(_encode, values)]
        count = self._count_known(encodings)
        self._replaced = self._items
        ends = self._ends[:count]
        new_items: list[Item] = []
        known_count = ends[-1] if ends else 0
        for value in values[count:]:
            new_items += map(self._create_item, messages_in([value]))
            ends.append(known_count + len(new_items))
        items = self._items.first(known_count).with_end(new_items)
        self._encodings, self._ends = encodings, ends
        self._items = items.with_shared(len(items))
        return self._items

    def _count_known(self, encodings: Sequence[bytes]) -> int:
        """Return how many values at the beginning have not changed since the last request."""
        pairs = enumerate(zip(encodings, self._encodings, strict=False))
        changed = (index for index, (new, old) in pairs if new != old or not new)
        return next(changed, min(len(encodings), len(self._encodings)))


def _encode(value: Any) -> bytes:
    """Return bytes that only equal values of the same types have, or none if that is unknown.

    >>> _encode({"a": 1}) == _encode({"a": True}), _encode({"a": 1}) == _encode({"a": 1})
    (False, True)
    """
    try:
        return marshal.dumps(value, _MARSHAL_VERSION)
    except ValueError:  # The value has an object of a client.
        pass
    opaque_types: list[str] = []
    try:
        if isinstance(value, msgspec.Struct):
            plain = msgspec.to_builtins(value)
        else:
            plain = to_plain_value(value, opaque_types.append)
        type_ = type(value)
        encoding = marshal.dumps((type_.__module__, type_.__qualname__, plain), _MARSHAL_VERSION)
    except (TypeError, ValueError):
        return b""
    return b"" if opaque_types else encoding
