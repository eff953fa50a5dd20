"""`Wired`: a piece of a protocol as an item, read only when something is new about it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from harken.core.messages import ChatMessage, Message
from harken.errors import FormatError
from harken.formats.wire.base import Form, Piece, Protocol
from harken.recording.item import Item


class Wired(Item):
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
    return [Wired(protocol, piece) for piece in pieces]


def known_by(protocol: Protocol, messages: Sequence[ChatMessage], form: Form) -> tuple[str, str]:
    """Return the key and the likeness of a piece that is in a log."""
    try:
        piece = protocol.piece(protocol.write(messages, form))
    except FormatError:
        return "", ""  # it is nobody's: a request that has it is logged as one with a new piece
    return piece.key, protocol.likeness(piece)
