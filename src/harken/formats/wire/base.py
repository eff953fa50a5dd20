"""`Protocol`: a wire protocol of a provider, parsed without loss.

A request consists of pieces (its system prompt and its messages, each a JSON value, oldest first)
and of other members, which are small. A piece is identified by its `key`, independent of how later
requests decorate it (cache marks, a text as a string or as a block). So of a request with a
thousand messages only the new ones are parsed. Data of a piece that its messages do not carry is
its *form*, small JSON from which the exact value is rebuilt: `put_together(take_apart(body)) ==
body`.

A protocol is one file that creates one `Protocol`.

Source: docs/formats/wire.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias
from typing import Protocol as Shape

import msgspec

from harken.core import canonical
from harken.core.messages import ChatMessage, Message
from harken.core.stream import Finish
from harken.formats.shared_list import SharedList

Body: TypeAlias = dict[str, Any]
"""The body of a request or a response: a JSON object."""
Form: TypeAlias = Any
"""The data of a piece that its messages do not carry, as JSON. None if they carry all of it."""
Mark: TypeAlias = tuple[Sequence[str | int], Any]
"""The path of a member from the body's root, and its value."""


class Piece(msgspec.Struct, eq=False):
    """One value of a request: a block of the system prompt, a message, or an item.

    It holds bytes and parses them on access.
    """

    data: bytes
    """The JSON text, without marks."""
    identify: Callable[[Any], str]
    """The function of the protocol that computes the key of a value."""
    _key: str = ""

    @property
    def raw(self) -> Any:
        """The value, parsed on each access. Bytes that are not UTF-8 are replaced by U+FFFD."""
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
        """64 hex digits that are equal for equal content, regardless of marks."""
        if not self._key:
            self._key = self.identify(self.raw)
        return self._key


class ParsedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A parsed request."""

    model: str
    pieces: Sequence[Piece] = ()
    """Oldest first. The pieces of the system prompt, if any, precede all others."""
    tools: Sequence[Mapping[str, Any]] = ()
    """`name`, `description`, `parameters`; other members of the wire form are in `wire`. Treat as
    immutable: equal tools of two requests may be one object.
    """
    parameters: Mapping[str, Any] = msgspec.field(default_factory=dict)
    """All other members of the body."""
    shape: Form = None
    """The structure of the body that the other fields do not carry. Small, whatever the length of
    the body.
    """
    marks: Sequence[Mark] = ()
    """Members of this request alone, such as cache marks. They are in no piece and in no key."""


class ParsedResponse(msgspec.Struct, frozen=True, kw_only=True):
    """A parsed response, possibly incomplete."""

    pieces: Sequence[Piece] = ()
    """The pieces that the client would send back, in order. One piece, if the protocol has no
    items. Empty if no usable data arrived.
    """
    finish: Finish | None = None
    """None if the response was cut off."""
    error: str = ""
    """The error text of the provider, on one line."""
    partial: tuple[str, str] = ("", "")
    """Thinking and text that arrived of an answer without an end."""
    id: str = ""
    """The provider's id of the response."""


class Listener(Shape):
    """Receives the decompressed bytes of one response, a complete body or a stream of events."""

    def feed(self, data: bytes) -> None:
        """Process the next bytes. Never raises: errors are reported in `end().error`."""
        ...

    def end(self) -> ParsedResponse:
        """Return the parsed response. No bytes may be fed afterwards."""
        ...


class BodyPrefix(msgspec.Struct, frozen=True):
    """The beginning of a body, which ends after an element of one of its arrays."""

    body: bytes
    end: int
    name: str
    """The name of the array."""
    start: int
    """The offset of the array."""
    texts: SharedList[bytes]
    """The elements of the array before `end`."""
    pieces: SharedList[Piece]
    """The pieces of the request up to `end`: those before the array, and those of its elements."""
    marks: Sequence[Mark]
    """The marks of these elements."""

    @property
    def leading_count(self) -> int:
        """The number of pieces before those of the array, such as the system prompt."""
        return len(self.pieces) - len(self.texts)


class PieceLookup(Shape):
    """Finds pieces of a protocol that were parsed before: see `harken.formats.wire.piece_cache`."""

    def find(self, data: bytes) -> Piece | None:
        """Return the cached piece with these bytes. Return None if there is none."""
        ...

    def intern(self, piece: Piece) -> Piece:
        """Return the cached piece with the same bytes, or cache and return this one."""
        ...

    def find_prefix(self, body: bytes) -> BodyPrefix | None:
        """Return the longest cached prefix of a body, or None."""
        ...

    def replace_prefix(self, old: BodyPrefix | None, new: BodyPrefix) -> None:
        """Cache a prefix in place of a shorter one of the same conversation."""
        ...


class ParseRequest(Shape):
    """Parses requests of a protocol."""

    def __call__(self, path: str, body: bytes, known: PieceLookup | None = None) -> ParsedRequest:
        """Parse a request. Raises FormatError for a body that is not of the protocol.

        known: the cached pieces of this protocol, where most pieces are found by a look-up.
        """
        ...


class Protocol(msgspec.Struct, frozen=True, kw_only=True):
    """A wire protocol: its name and operations.

    For every piece, `write(messages, form) == raw` holds after `messages, form = read(piece)`, and
    after `form = form(messages, piece)` for any messages.
    """

    name: str
    """Such as `anthropic-messages`. The name is stored in logs."""
    is_model_path: Callable[[str], bool]
    """Whether a request to this path (without its query) is a model call."""
    parse_request: ParseRequest
    build_body: Callable[[ParsedRequest, Sequence[Any]], Body]
    """The inverse of `parse_request`, equal as JSON: takes the parsed request and the values of the
    pieces. Raises FormatError if they do not fit.
    """
    piece: Callable[[Any], Piece]
    """Creates a piece from its value."""
    read: Callable[[Piece], tuple[Sequence[Message], Form]]
    """Returns the messages of a piece, at least one, and its form. Never raises."""
    form: Callable[[Sequence[ChatMessage], Piece], Form]
    """Returns the form of a piece for messages that are nearly its own: of an answer that a client
    changed, or with names and ids filled in. Never raises.
    """
    write: Callable[[Sequence[ChatMessage], Form], Any]
    """The inverse of `read`: the exact value. Raises FormatError if messages and form do not fit.
    """
    likeness: Callable[[Piece], str]
    """A looser key: role, text, and calls (ids, names, arguments as values). It identifies an
    answer that the client sends back slightly changed. Never raises.
    """
    listener: Callable[[int], Listener]
    """Creates a listener for a response with this HTTP status. The first byte decides about the
    framing.
    """
