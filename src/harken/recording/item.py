"""`Item`: what requests are made of; `LoggedItem`: how one stands in a log.

One idea: an item is known again by its key, so only a new one is read. Two items with one key say
the same. How one is written may change from request to request (its *dress*); what the entries do
not say of that is its form, which is logged where it changes.

`WireItem`: a piece of a protocol as an item, read only when something is new about it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from harken.core.ids import MessageId
from harken.core.messages import ChatMessage, Message, Role, message_hash
from harken.errors import FormatError
from harken.formats.wire.base import Form, Piece, Protocol

Messages: TypeAlias = Sequence[Message] | Callable[[], Sequence[Message]]


class Item:
    """A piece of a request, or of an answer: one or more messages that come and go together."""

    __slots__ = ("_form", "_messages", "dress", "key")

    def __init__(self, key: str, messages: Messages, form: Form = None, dress: int = 0) -> None:
        """Name what is said by its key; messages may be a function, asked only for what is new.

        dress: the same where an item with this key is written the same.
        """
        self.key = key
        self.dress = dress
        self._messages = messages
        self._form = form

    @classmethod
    def of(cls, message: Message) -> Item:
        """Return the item of a message of Harken's own kind; its key is `plain_key`."""
        return cls(plain_key(message), [message])

    @property
    def messages(self) -> Sequence[Message]:
        """What it says, at least one message."""
        if callable(self._messages):
            self._messages = self._messages()
        return self._messages

    def form(self, entries: Sequence[ChatMessage]) -> Form:
        """Return what these messages, which say the same, do not say of how it is written."""
        return self._form

    @property
    def likeness(self) -> str:
        """A looser key, by which a client's copy of an answer is known again; empty: none."""
        return ""


@dataclass(slots=True, eq=False)
class LoggedItem:
    """An item that is in the log, whoever heard it first; agents that share it share this."""

    key: str
    ids: tuple[MessageId, ...]
    """Its entries."""
    hashes: tuple[str, ...]
    """Of its messages."""
    role: Role
    """Of the first of them."""
    form: Form = None
    """As last logged."""
    dress: int | None = None
    """As it was written when its form was last looked at; None: it was in no request yet."""
    is_joined: bool = False
    """Whether the log says that its entries are one item."""
    likeness: str = ""
    """Of an answer that was not sent back yet."""

    @property
    def size(self) -> int:
        """How many messages it is."""
        return len(self.ids)


def plain_key(message: ChatMessage) -> str:
    """Return the key of a message that is no provider's: its hash, and the ids that it names.

    >>> plain_key(Message("tool", "a door", tool_call_id="call_1"))[64:]
    ' call_1'
    """
    ids = [call.id for call in message.tool_calls or ()]
    named = [message.tool_call_id or "", *ids] if ids else [message.tool_call_id or ""]
    return f"{message_hash(message)} {' '.join(named)}".rstrip()


class WireItem(Item):
    """A piece as it stood on the wire; its bytes, in its protocol, say how it is dressed."""

    __slots__ = ("_likeness", "_read", "piece", "protocol")

    def __init__(self, protocol: Protocol, piece: Piece) -> None:
        """Make an item of a piece of this protocol."""
        self.key = piece.key
        self.dress = hash((protocol.name, piece.data))
        self.protocol = protocol
        self.piece = piece
        self._read: Sequence[Message] = ()
        self._likeness = ""

    @property
    def messages(self) -> Sequence[Message]:
        """What it says, at least one message."""
        if not self._read:
            self._read = self.protocol.read(self.piece)[0]
        return self._read

    def form(self, entries: Sequence[ChatMessage]) -> Form:
        """Return what these messages do not say of the piece."""
        return self.protocol.form(entries, self.piece)

    @property
    def likeness(self) -> str:
        """A looser key: see `Protocol`."""
        if not self._likeness:
            self._likeness = self.protocol.likeness(self.piece)
        return self._likeness


def wired(protocol: Protocol, pieces: Iterable[Piece]) -> list[Item]:
    """Return the pieces of a request, or of an answer, as items."""
    return [WireItem(protocol, piece) for piece in pieces]


def known_by(protocol: Protocol, messages: Sequence[ChatMessage], form: Form) -> tuple[str, str]:
    """Return the key and the likeness of a piece that is in a log."""
    try:
        piece = protocol.piece(protocol.write(messages, form))
    except FormatError:
        return "", ""  # it is nobody's: a request that has it is logged as one with a new piece
    return piece.key, protocol.likeness(piece)
