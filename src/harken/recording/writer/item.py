"""Units of a request: `Item`, `LoggedItem` for an item in a log, `WireItem` for a wire protocol.

Items are compared by key, so only new items are parsed. Items with equal keys have equal content.
The serialization of an item may change from request to request (its *dress*). What the entries do
not determine about it is its form, which is logged when it changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeAlias

import msgspec

from harken.core.ids import MessageId, parse_id_number
from harken.core.messages import (
    ChatMessage,
    Message,
    Role,
    extend_context_hash_with,
    message_hash,
)
from harken.errors import FormatError
from harken.formats.shared_list import SharedList
from harken.formats.wire.base import Form, Piece, Protocol
from harken.formats.wire.piece_cache import MAX_CACHE_BYTES

_MAX_REQUESTS = 16
"""The number of conversations whose items are cached."""
Messages: TypeAlias = Sequence[Message] | Callable[[], Sequence[Message]]
NumberedId: TypeAlias = tuple[int, MessageId | None]
"""The number of an id, which is 0 for an id that was not allocated, and the id, if there is one."""


class Item:
    """A unit of a request or an answer: one or more messages that always occur together."""

    __slots__ = ("_form", "_messages", "dress", "hashes", "key")
    hashes: Sequence[str]
    """The hashes of its messages, if they are known."""

    def __init__(self, key: str, messages: Messages, form: Form = None, dress: int = 0) -> None:
        """Set the key and the messages.

        `messages` may be a function, which is only called for new items.

        dress: equal if an item with this key is serialized the same way.
        """
        self.key = key
        self.dress = dress
        self.hashes = ()
        self._messages = messages
        self._form = form

    @classmethod
    def from_message(cls, message: Message) -> Item:
        """Return the item of a message of Harken's own kind. Its key is `message_key`."""
        hash_ = message_hash(message)
        item = cls(_build_key(hash_, message), [message])
        item.hashes = (hash_,)
        return item

    @property
    def messages(self) -> Sequence[Message]:
        """Its messages, at least one."""
        if callable(self._messages):
            self._messages = self._messages()
        return self._messages

    def forget(self) -> None:
        """Release data that can be parsed again."""

    def form(self, entries: Sequence[ChatMessage]) -> Form:
        """Return the part of the serialization that equal messages do not determine."""
        return self._form

    @property
    def likeness(self) -> str:
        """A looser key that identifies a client's copy of an answer. Empty if there is none."""
        return ""


class LoggedItem(msgspec.Struct, eq=False):
    """An item in the log. Agents that have the same entries share the object."""

    key: str
    ids: tuple[MessageId, ...]
    """The ids of its entries."""
    hashes: tuple[str, ...]
    """The hashes of its messages."""
    role: Role
    """The role of its first message."""
    form: Form = None
    """The last logged form."""
    dress: int | None = None
    """The dress when its form was last checked. None if it was in no request yet."""
    is_joined: bool = False
    """Whether the log marks its entries as one item."""
    likeness: str = ""
    """The looser key of an answer that the client has not sent back yet."""

    @property
    def size(self) -> int:
        """The number of its messages."""
        return len(self.ids)


class SharedItems(msgspec.Struct):
    """The logged items that several agents of a session may have."""

    by_entries: dict[tuple[MessageId, ...], LoggedItem] = msgspec.field(default_factory=dict)
    """Items that were restored from the log, by their entries."""
    change_count: int = 0
    """The number of times that the key or the dress of an item was replaced."""


class ContextPrefix(NamedTuple):
    """The beginning of a context, up to an item."""

    message_count: int = 0
    context_hash: str = ""
    """The rolling hash of its messages."""
    entries_hash: int = 0
    """Equal for two agents that have the same entries up to the item."""
    newest: NumberedId = (0, None)
    """The entry that was logged last."""

    def extend(self, item: LoggedItem) -> ContextPrefix:
        """Return the prefix that ends after an item."""
        context_hash = self.context_hash
        for hash_ in item.hashes:
            context_hash = extend_context_hash_with(context_hash, hash_)
        newest = max([(parse_id_number(id_, "msg_") or 0, id_) for id_ in item.ids])
        return ContextPrefix(
            self.message_count + item.size,
            context_hash,
            hash((self.entries_hash, item.ids)),
            newest if newest[0] >= self.newest[0] else self.newest,
        )


def message_key(message: ChatMessage) -> str:
    """Return the key of a message that is not from a provider: its hash and the call ids it names.

    >>> message_key(Message("tool", "a door", tool_call_id="call_1"))[64:]
    ' call_1'
    """
    return _build_key(message_hash(message), message)


def _build_key(hash: str, message: ChatMessage) -> str:
    """Return the key of a message with this hash."""
    if message.tool_calls:
        key_ids = [message.tool_call_id or "", *[call.id for call in message.tool_calls]]
        return f"{hash} {' '.join(key_ids)}".rstrip()
    return f"{hash} {message.tool_call_id}" if message.tool_call_id else hash


class WireItem(Item):
    """A piece of a wire protocol as an item. Its dress is a hash of its bytes and protocol."""

    __slots__ = ("_likeness", "piece", "protocol")

    def __init__(self, protocol: Protocol, piece: Piece) -> None:
        """Create an item from a piece of this protocol."""
        self.key = piece.key
        self.dress = hash((protocol.name, piece.data))
        self.hashes = ()
        self.protocol = protocol
        self.piece = piece
        self._messages: Sequence[Message] = ()
        self._form: Form = None
        """The form for these messages."""
        self._likeness = ""

    @property
    def messages(self) -> Sequence[Message]:
        """Its messages, at least one."""
        if not self._messages:
            self._messages, self._form = self.protocol.read(self.piece)
        return self._messages

    def form(self, entries: Sequence[ChatMessage]) -> Form:
        """Return the part of the piece that the messages do not determine."""
        if self._messages and _are_equal(entries, self._messages):
            return self._form
        return self.protocol.form(entries, self.piece)

    def forget(self) -> None:
        """Release the messages. They are parsed again on access."""
        self._messages, self._form, self._likeness = (), None, ""

    @property
    def likeness(self) -> str:
        """A looser key. See `Protocol`."""
        if not self._likeness:
            self._likeness = self.protocol.likeness(self.piece)
        return self._likeness


def _are_equal(entries: Sequence[ChatMessage], messages: Sequence[Message]) -> bool:
    """Whether entries of a log have the members of these messages."""
    return len(entries) == len(messages) and all(
        entry.role == message.role
        and entry.content == message.content
        and (entry.tool_calls or None) == (message.tool_calls or None)
        and entry.tool_call_id == message.tool_call_id
        and entry.name == message.name
        and entry.is_error == message.is_error
        for entry, message in zip(entries, messages, strict=True)
    )


def wire_items(protocol: Protocol, pieces: Iterable[Piece]) -> list[Item]:
    """Return the pieces of a request or an answer as items."""
    return [WireItem(protocol, piece) for piece in pieces]


class WireItemCache(msgspec.Struct):
    """The items of the last requests. A request that has the same pieces has the same items.

    Only this cache keeps items, and it is limited in bytes: agents refer to them weakly.
    """

    max_bytes: int = MAX_CACHE_BYTES // 2

    _requests: list[_RequestItems] = msgspec.field(default_factory=list)
    """The least recently used first."""
    _replaced: Sequence[Item] = ()
    """The items of the last request that a longer one replaced: its agent still refers to them."""

    def find_items(
        self, protocol: Protocol, pieces: Sequence[Piece], size_bytes: int = 0
    ) -> SharedList[Item]:
        """Return the pieces of a request of this size as items."""
        shared_pieces = pieces if isinstance(pieces, SharedList) else SharedList(pieces)
        best, common_count = self._find_similar(shared_pieces)
        items: SharedList[Item] = SharedList()
        if best is not None:
            items = best.items.first(common_count)
            for item in best.items[best.common_count : common_count]:
                item.forget()
            # Conversations of one client begin with the same system prompt.
            if 2 * common_count > len(best.items):
                self._requests.remove(best)
                self._replaced = best.items
        items = items.with_end(wire_items(protocol, shared_pieces[common_count:]))
        items = items.with_shared(shared_pieces.shared_count)
        self._requests.append(_RequestItems(shared_pieces, items, common_count, size_bytes))
        total_bytes = sum(request.size_bytes for request in self._requests)
        while total_bytes > self.max_bytes or len(self._requests) > _MAX_REQUESTS:
            total_bytes -= self._requests.pop(0).size_bytes
        return items

    def _find_similar(self, pieces: SharedList[Piece]) -> tuple[_RequestItems | None, int]:
        """Return the request with the longest common beginning, and its length."""
        requests = self._requests
        # A request of the same conversation is found without comparing the others.
        same = [request for request in requests if request.pieces.is_of_same_array(pieces)]
        best, common_count = None, 0
        for request in same or requests:
            count = pieces.common_length(request.pieces)
            if count > common_count:
                best, common_count = request, count
        return best, common_count


class _RequestItems(msgspec.Struct, frozen=True, eq=False):
    pieces: SharedList[Piece]
    items: SharedList[Item]
    common_count: int
    """The number of items that an earlier request had."""
    size_bytes: int


def compute_logged_key(
    protocol: Protocol, messages: Sequence[ChatMessage], form: Form
) -> tuple[str, str]:
    """Return the key and the likeness of a logged piece.

    Return empty strings if it cannot be encoded.
    """
    try:
        piece = protocol.piece(protocol.write(messages, form))
    except FormatError:
        return "", ""  # A request that contains this piece is logged with a new piece.
    return piece.key, protocol.likeness(piece)
