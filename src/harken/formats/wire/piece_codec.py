"""`PieceCodec`: conversion between the pieces of a protocol and messages.

A protocol defines how it parses a value and how it would usually build the value of messages. The
difference of the two is the form, computed by comparison. So parsing may lose data, and the exact
value is still restored. Content among the difference is added to the messages, so that their
hashes cover it: see `harken.formats.wire.leftover`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import msgspec

from harken.core import canonical
from harken.core.event_types.message_parser import FORM_KEY, MESSAGE_KEY
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
from harken.formats.first_part import (
    add_leftover,
    has_meta,
    take_leftover,
    with_first_part,
    without_meta,
)
from harken.formats.json_records import apply_members
from harken.formats.tool_calls import iter_items
from harken.formats.wire.base import Form, ParseRequest, Piece, Protocol
from harken.formats.wire.json_patch import apply_form, build_form, get_manner
from harken.formats.wire.json_slices import BodyBuilder, with_format_errors
from harken.formats.wire.leftover import build_leftover
from harken.formats.wire.response_reader import ResponseAssembler, ResponseReader

_PIECE = b"harken.piece.v1\n"
_UNPARSED = "other"
"""The manner of a piece that carries no message. It is stored as its JSON text."""
_PARSE_ERRORS = (RecursionError, ValueError, TypeError, LookupError, AttributeError)
"""Errors of parsing a malformed or too deeply nested value."""
_VOLATILE_MEMBERS = frozenset({"id", "status"})
Manner: TypeAlias = str


class PieceCodec(msgspec.Struct, frozen=True, kw_only=True):
    """The conversion functions of one protocol."""

    name: str
    messages: Callable[[Any], Sequence[Message]]
    """Parses a value. Returns an empty sequence for a value that is not of the protocol."""
    build: Callable[[Sequence[ChatMessage], Manner], Any]
    """Builds the usual value of the messages of one piece."""
    manner: Callable[[Any], Manner] = lambda _: ""
    """Returns the manner in which a value is written, or an empty string for the usual one."""
    normalize: Callable[[Any], Any]
    """Returns a normalized value that is equal for equal content. The key is its hash."""
    content: Callable[[Any], Any]
    """Returns a normalized value without data of one occurrence: ids, signatures, null members."""
    bare: Callable[[Message], Message] = without_meta
    """Returns a message without the data of its `meta`. Its content stays."""
    has_ids: bool = True
    """Whether calls have ids that identify them."""

    def piece(self, value: Any) -> Piece:
        """Return the piece of a value."""
        return Piece(canonical.to_json_line(value), self.identify)

    def identify(self, value: Any) -> str:
        """Return the key of a value."""
        return canonical.hash_value(_PIECE, self.normalize(value))

    def read(self, piece: Piece) -> tuple[Sequence[Message], Form]:
        """Return the messages of a piece, at least one, and its form."""
        value = piece.raw
        try:
            messages = self.messages(value)
            if messages:
                form = self._form(messages, value)
                if form is None and not any(map(has_meta, messages)):
                    return messages, None  # Only the messages determine the value.
                complete = self._with_leftover(messages, value)
                return complete, form if complete is messages else self._form(complete, value)
        except _PARSE_ERRORS:
            pass  # The value is stored as a text below.
        text = canonical.to_json_line(value).decode("utf-8", "surrogatepass")
        return [Message("user", [UnknownPart("", text)])], {"as": _UNPARSED}

    def form(self, messages: Sequence[ChatMessage], piece: Piece) -> Form:
        """Return the form of a piece for messages that are nearly its own."""
        value = piece.raw
        try:
            return self._form(messages, value)
        except _PARSE_ERRORS:
            return {"whole": value}

    def _form(self, messages: Sequence[ChatMessage], value: Any) -> Form:
        manner = self.manner(value)
        return build_form(self._build(messages, manner), value, manner)

    def _build(self, messages: Sequence[ChatMessage], manner: Manner) -> Any:
        """Build the usual value of messages, with their leftover."""
        first, leftover = take_leftover(messages[0])
        built = self.build([first, *messages[1:]], manner)
        if not leftover or not isinstance(built, dict):
            return built
        members = leftover.get(MESSAGE_KEY)
        if isinstance(members, dict):
            return apply_members(built, members)
        try:
            return apply_form(self.content(built), leftover.get(FORM_KEY))
        except FormatError:
            return built  # The message was edited.

    def _with_leftover(self, messages: Sequence[Message], value: Any) -> Sequence[Message]:
        """Return the messages of a value with its leftover, if it has one."""
        if not self._leftover(messages, value):
            return messages
        first = with_first_part(messages[0])
        leftover = self._leftover([first, *messages[1:]], value)
        return [add_leftover(first, leftover) if leftover else first, *messages[1:]]

    def _leftover(self, messages: Sequence[Message], value: Any) -> dict[str, Any]:
        built = self.build([*map(self.bare, messages)], self.manner(value))
        return build_leftover(self.content(built), self.content(value))

    def write(self, messages: Sequence[ChatMessage], form: Form) -> Any:
        """Build the value of messages and a form. Raises FormatError if they do not fit."""
        if isinstance(form, dict) and "whole" in form:
            return form["whole"]
        if not messages:
            raise FormatError(self.name, "there is no message")
        manner = get_manner(form)
        try:
            built = (
                _parse_stored(messages) if manner == _UNPARSED else self._build(messages, manner)
            )
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise FormatError(self.name, f"a message does not fit ({error!r:.100})") from None
        return apply_form(built, form)

    def likeness(self, piece: Piece) -> str:
        """Return a hash that a piece shares with changed copies that its client sends."""
        messages, _ = self.read(piece)
        content = [[message.role, *self._iter_content(message)] for message in messages]
        return canonical.hash_value(_PIECE, content)

    def _iter_content(self, message: ChatMessage) -> Iterator[Any]:
        items = [*iter_items(message)]
        texts = "".join(item.text for item in items if isinstance(item, TextPart))
        words = " ".join(texts.split())
        other_items = [item for item in items if not isinstance(item, TextPart | ThinkingPart)]
        if words:
            yield words
        for item in other_items:
            yield self._call(item) if isinstance(item, ToolCall) else _part_content(item)
        if not words and not other_items:
            yield [
                "thought",
                *(_thinking_content(item) for item in items if isinstance(item, ThinkingPart)),
            ]
        if message.role == "tool" and self.has_ids:
            yield ["answers", message.tool_call_id or ""]

    def _call(self, call: ToolCall) -> list[Any]:
        id_ = call.id if self.has_ids else ""
        return ["call", id_, call.function.name, parse_arguments(call.function.arguments)]


def build_protocol(
    saying: PieceCodec,
    asks: Callable[[str], bool],
    take_apart: ParseRequest,
    put_together: BodyBuilder,
    answer: Callable[[], ResponseAssembler],
) -> Protocol:
    """Build the protocol of a codec; `answer` creates the assembler of a response."""
    return Protocol(
        name=saying.name,
        is_model_path=asks,
        parse_request=take_apart,
        build_body=with_format_errors(saying.name, put_together),
        piece=saying.piece,
        read=saying.read,
        form=saying.form,
        write=saying.write,
        likeness=saying.likeness,
        listener=lambda status: ResponseReader(status, answer()),
    )


def to_standalone_message(message: ChatMessage) -> Message:
    """Return a message, possibly one of a log, as a standalone Message."""
    if isinstance(message, Message):
        return message
    return Message(**{name: getattr(message, name) for name in Message.__struct_fields__})


def parse_arguments(text: str) -> Any:
    """Parse arguments as JSON. Return the text if it is no JSON."""
    try:
        return canonical.from_json(text.encode("utf-8", "surrogatepass"))
    except ValueError:
        return text


def _parse_stored(messages: Sequence[ChatMessage]) -> Any:
    for part in messages[0].content or ():
        if isinstance(part, UnknownPart):
            return canonical.from_json(part.data.encode("utf-8", "surrogatepass"))
    raise ValueError("it has no JSON text")


def _thinking_content(part: ThinkingPart) -> Any:
    return " ".join(part.text.split()) or part.meta


def _part_content(part: Part) -> list[Any]:
    match part:
        case ImagePart():
            return ["image", part.data or part.url or ""]
        case UnknownPart(kind=kind, data=data):
            value = parse_arguments(data)
            if isinstance(value, dict):
                value = {
                    name: inner
                    for name, inner in value.items()
                    if name not in _VOLATILE_MEMBERS and inner is not None
                }
            return [kind, value]
    raise AssertionError(part)  # The caller handles texts and thoughts.
