"""`Protocol`: how programs talk with a provider, taken apart without loss.

One idea: a request is pieces (its system prompt and its messages, each a JSON value, oldest first)
and all else, which is small. A piece is known again by its `key`, however it is dressed up in
later requests (cache marks, a text as a string or as a block). So of a request with a thousand
messages only the new ones are read; and what a piece's messages do not say of it is its *form*,
small JSON that gives the very value back: `body(taken apart) == body`.

A protocol is one file that makes one `Protocol`.

Source: docs/formats/wire.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from typing import Protocol as Shape

from harken.core import canonical
from harken.core.messages import ChatMessage, Message
from harken.core.stream import Finish

Body: TypeAlias = dict[str, Any]
"""The body of a request or an answer: a JSON object."""
Form: TypeAlias = Any
"""What the messages of a piece do not say of it, JSON; None: nothing, they say all."""
Mark: TypeAlias = tuple[Sequence[str | int], Any]
"""The way to a member from the body's root, and its value."""


@dataclass(slots=True, eq=False)
class Piece:
    """One value of a request: a block of its system prompt, or a message, or an item.

    It is its bytes, and read only when somebody asks; what is never asked costs nothing.
    """

    data: bytes
    """Its JSON text, without marks."""
    identify: Callable[[Any], str]
    """How its protocol makes the key of a value."""
    _key: str = ""

    @property
    def raw(self) -> Any:
        """The value, read anew each time; where its bytes are no UTF-8 stands U+FFFD."""
        try:
            return canonical.from_json(self.data)
        except ValueError:
            text = self.data.decode("utf-8", "replace")
        try:
            return canonical.from_json(text.encode())
        except ValueError:
            return text

    @property
    def key(self) -> str:
        """The same for the same content, marks and such aside: 64 hex digits."""
        if not self._key:
            self._key = self.identify(self.raw)
        return self._key


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedRequest:
    """A request, taken apart."""

    model: str
    pieces: Sequence[Piece] = ()
    """Oldest first; those of the system prompt, if there are any, before all others."""
    tools: Sequence[Mapping[str, Any]] = ()
    """`name`, `description`, `parameters`; what else the wire says of one is in its `wire`.
    Not to be changed: equal tools of two requests may be one object."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """All other members of the body."""
    shape: Form = None
    """What the others do not say of the body as a whole; small, whatever its length."""
    marks: Sequence[Mark] = ()
    """What stands in this request alone, such as marks for a cache; in no piece, and in no key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedResponse:
    """An answer, as far as it came."""

    pieces: Sequence[Piece] = ()
    """As its client would send it back, in order; one, where the protocol has no items. Empty:
    nothing usable arrived."""
    finish: Finish | None = None
    """None: it was cut off."""
    error: str = ""
    """What the provider said went wrong, on one line."""
    partial: tuple[str, str] = ("", "")
    """Thinking and text that had arrived of an answer without an end."""
    id: str = ""
    """The provider's name for it."""


class Listener(Shape):
    """Hears the bytes of one answer, decompressed, whole or as a stream of events."""

    def feed(self, data: bytes) -> None:
        """Take the next bytes. Never raises: what makes no sense is in `end().error`."""
        ...

    def end(self) -> ParsedResponse:
        """Return what was heard; no bytes come after it."""
        ...


class PieceLookup(Shape):
    """Pieces of a protocol that were seen before: see `harken.formats.wire.piece_cache`."""

    def find(self, data: bytes) -> Piece | None:
        """Return the piece with these bytes; None: it was not seen."""
        ...

    def of(self, piece: Piece) -> Piece:
        """Return the piece with the same bytes that was seen first; else this one, seen now."""
        ...


class ParseRequest(Shape):
    """Takes requests of a protocol apart."""

    def __call__(self, path: str, body: bytes, known: PieceLookup | None = None) -> ParsedRequest:
        """Return the request. Raises FormatError for a body that is none of the protocol.

        known: what was seen before, where most pieces are found at the cost of a look-up; of this
        protocol alone.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """A protocol: its name, and what can be done with it.

    For every piece, `write(messages, form) == raw`: after `messages, form = read(piece)`, and after
    `form = form(messages, piece)` for whatever messages.
    """

    name: str
    """Such as `anthropic-messages`; it stands in logs."""
    asks: Callable[[str], bool]
    """Whether a request to this path (without its query) is for an answer of a model."""
    take_apart: ParseRequest
    put_together: Callable[[ParsedRequest, Sequence[Any]], Body]
    """The inverse of `take_apart`, equal as JSON: all but the pieces, and the pieces' values.
    Raises FormatError where they do not fit."""
    piece: Callable[[Any], Piece]
    """Makes a piece of its value."""
    read: Callable[[Piece], tuple[Sequence[Message], Form]]
    """Returns the messages of a piece, at least one, and its form. Never raises."""
    form: Callable[[Sequence[ChatMessage], Piece], Form]
    """Returns the form that a piece has beside messages that are nearly its own: those of an
    answer that came back changed, or with names and ids filled in. Never raises."""
    write: Callable[[Sequence[ChatMessage], Form], Any]
    """The inverse of `read`: the very value. Raises FormatError where they do not fit."""
    likeness: Callable[[Piece], str]
    """A looser key: role, text, and calls (ids, names, arguments as values). By it an answer is
    known again that its client sends back a little changed. Never raises."""
    listener: Callable[[int], Listener]
    """The status of an answer -> who hears it; its first byte tells how it is framed."""
