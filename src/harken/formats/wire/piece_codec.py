"""`PieceCodec`: how the pieces of a protocol are said as messages, and told again.

One idea: a protocol says how it reads a value and how it would plainly write messages. Whatever is
between the two is the form, which is made by comparing; so reading may lose what it likes, and the
value comes back all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from harken.core import canonical
from harken.core.messages import (
    ChatMessage,
    ImagePart,
    Message,
    Part,
    TextPart,
    ThinkingPart,
    ToolCall,
    UnknownPart,
)
from harken.errors import FormatError
from harken.formats.tool_calls import in_order
from harken.formats.wire.base import Form, ParseRequest, Piece, Protocol
from harken.formats.wire.json_patch import changed, form_of, manner_of
from harken.formats.wire.json_slices import Maker, fitting
from harken.formats.wire.response_reader import ResponseAssembler, ResponseReader

_PIECE = b"harken.piece.v1\n"
_OTHER = "other"
"""The manner of a piece that says nothing of what a message is: it is kept as its JSON text."""
_STUMBLES = (RecursionError, ValueError, TypeError, LookupError, AttributeError)
"""What reading may end in where a value is odd beyond all expectation, or nested too deeply."""
_OCCURRING = frozenset({"id", "status"})
Manner: TypeAlias = str


@dataclass(frozen=True, slots=True, kw_only=True)
class PieceCodec:
    """The two ways of a protocol between values and messages."""

    name: str
    messages: Callable[[Any], Sequence[Message]]
    """Reads a value as well as it can; empty: it is none of the protocol's."""
    plain: Callable[[Sequence[ChatMessage], Manner], Any]
    """Writes the messages of one piece as they are mostly written."""
    manner: Callable[[Any], Manner] = lambda _: ""
    """In which of several manners a value is written; empty: the usual one."""
    normal: Callable[[Any], Any]
    """What is the same for the same content: its key is the hash of it."""
    has_ids: bool = True
    """Whether calls have ids by which they can be told apart."""

    def piece(self, value: Any) -> Piece:
        """Return the piece of a value."""
        return Piece(canonical.to_json_line(value), self.identify)

    def identify(self, value: Any) -> str:
        """Return the key of a value."""
        return canonical.hash_value(_PIECE, self.normal(value))

    def read(self, piece: Piece) -> tuple[Sequence[Message], Form]:
        """Return the messages of a piece, at least one, and its form."""
        value = piece.raw
        try:
            messages = self.messages(value)
            if messages:
                form = form_of(self.plain(messages, self.manner(value)), value, self.manner(value))
                return messages, form
        except _STUMBLES:
            pass  # it is kept as a text, as below
        text = canonical.to_json_line(value).decode("utf-8", "surrogatepass")
        return [Message("user", [UnknownPart("", text)])], {"as": _OTHER}

    def form(self, messages: Sequence[ChatMessage], piece: Piece) -> Form:
        """Return the form of a piece beside messages that are nearly its own."""
        value = piece.raw
        try:
            manner = self.manner(value)
            return form_of(self.plain(messages, manner), value, manner)
        except _STUMBLES:
            return {"whole": value}

    def write(self, messages: Sequence[ChatMessage], form: Form) -> Any:
        """Return the value of messages and a form. Raises FormatError where they do not fit."""
        if isinstance(form, dict) and "whole" in form:
            return form["whole"]
        if not messages:
            raise FormatError(self.name, "there is no message")
        manner = manner_of(form)
        try:
            plain = _kept(messages) if manner == _OTHER else self.plain(messages, manner)
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise FormatError(self.name, f"a message does not fit ({error!r:.100})") from None
        return changed(plain, form)

    def likeness(self, piece: Piece) -> str:
        """Return what a piece has in common with what its client may make of it."""
        messages, _ = self.read(piece)
        said = [[message.role, *self._said(message)] for message in messages]
        return canonical.hash_value(_PIECE, said)

    def _said(self, message: ChatMessage) -> Iterator[Any]:
        items = [*in_order(message)]
        texts = "".join(item.text for item in items if isinstance(item, TextPart))
        words = " ".join(texts.split())
        others = [item for item in items if not isinstance(item, TextPart | ThinkingPart)]
        if words:
            yield words
        for item in others:
            yield self._call(item) if isinstance(item, ToolCall) else _shown(item)
        if not words and not others:
            yield ["thought", *(_thought(item) for item in items if isinstance(item, ThinkingPart))]
        if message.role == "tool" and self.has_ids:
            yield ["answers", message.tool_call_id or ""]

    def _call(self, call: ToolCall) -> list[Any]:
        id_ = call.id if self.has_ids else ""
        return ["call", id_, call.function.name, argument(call.function.arguments)]


def protocol_of(
    saying: PieceCodec,
    asks: Callable[[str], bool],
    take_apart: ParseRequest,
    put_together: Maker,
    answer: Callable[[], ResponseAssembler],
) -> Protocol:
    """Return the protocol that says its pieces so; `answer` makes what puts an answer together."""
    return Protocol(
        name=saying.name,
        asks=asks,
        take_apart=take_apart,
        put_together=fitting(saying.name, put_together),
        piece=saying.piece,
        read=saying.read,
        form=saying.form,
        write=saying.write,
        likeness=saying.likeness,
        listener=lambda status: ResponseReader(status, answer()),
    )


def alone(message: ChatMessage) -> Message:
    """Return a message, which may stand in a log, as one that stands alone."""
    if isinstance(message, Message):
        return message
    return Message(**{name: getattr(message, name) for name in Message.__struct_fields__})


def argument(text: str) -> Any:
    """Return the JSON value that arguments are; of what is no JSON, the text."""
    try:
        return canonical.from_json(text.encode("utf-8", "surrogatepass"))
    except ValueError:
        return text


def _kept(messages: Sequence[ChatMessage]) -> Any:
    for part in messages[0].content or ():
        if isinstance(part, UnknownPart):
            return canonical.from_json(part.data.encode("utf-8", "surrogatepass"))
    raise ValueError("it holds no JSON text")


def _thought(part: ThinkingPart) -> Any:
    return " ".join(part.text.split()) or part.meta


def _shown(part: Part) -> list[Any]:
    match part:
        case ImagePart():
            return ["image", part.data or part.url or ""]
        case UnknownPart(kind=kind, data=data):
            value = argument(data)
            if isinstance(value, dict):
                value = {
                    name: inner
                    for name, inner in value.items()
                    if name not in _OCCURRING and inner is not None
                }
            return [kind, value]
    raise AssertionError(part)  # texts and thoughts are said otherwise
