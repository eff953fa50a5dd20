"""`messages-v1`: Harken's own wire protocol, for clients without a protocol of a provider.

A piece is a message in the form of the log. So a client of any kind can submit its requests, and is
recorded like any other.

Source: docs/formats/wire.md, "messages-v1".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from harken.core import structs
from harken.core.event_types.message_parser import decode_extra, parse_message
from harken.core.events import Usage
from harken.core.messages import ChatMessage, Message
from harken.core.stream import Finish
from harken.errors import FormatError
from harken.formats.json_records import get_count, get_text
from harken.formats.json_records import get_object as inner
from harken.formats.wire.base import Body, ParsedRequest, ParsedResponse, PieceLookup
from harken.formats.wire.json_slices import build_body, get_shape, parse_slice, slice_body
from harken.formats.wire.piece_codec import (
    PieceCodec,
    build_protocol,
    parse_arguments,
    to_standalone_message,
)

NAME = "messages-v1"
_PARAMETERS = "parameters"
_OCCURRENCE_MEMBERS = frozenset({"tool_call_id", "name"})
_EXTRA_MEMBERS = "beside"
"""The member of the shape that holds the body members that the protocol does not define."""


def _is_model_path(path: str) -> bool:
    return path.rstrip("/").endswith("/" + NAME)


def _parse_request(path: str, body: bytes, known: PieceLookup | None = None) -> ParsedRequest:
    del path
    cutting = slice_body(NAME, body, CODEC.identify, known)
    model = cutting.take_model()
    messages = cutting.take_array("messages")
    if messages is None:
        raise FormatError(NAME, "it has no list of messages")
    parameters = parse_slice(cutting.members.get(_PARAMETERS, b"null"))
    if isinstance(parameters, dict) and parameters:
        del cutting.members[_PARAMETERS]
    else:
        parameters = {}
    pieces = cutting.pieces(messages, "messages")
    request = cutting.build_request(model, pieces, cutting.take_tools(_build_tool))
    extra = {_EXTRA_MEMBERS: request.parameters} if request.parameters else {}
    return structs.replace(request, parameters=parameters, shape={**cutting.shape, **extra} or None)


def _build_body(request: ParsedRequest, values: Sequence[Any]) -> Body:
    members: Body = {"messages": [*values], **get_shape(request).get(_EXTRA_MEMBERS, {})}
    if request.parameters:
        members[_PARAMETERS] = request.parameters
    return build_body(structs.replace(request, parameters={}), members, _build_tool)


def _build_tool(tool: Mapping[str, Any]) -> Body:
    members = {name: tool[name] for name in ("name", "description") if tool.get(name)}
    return {**members, _PARAMETERS: tool.get(_PARAMETERS) or {}}


def _parse_messages(value: Any) -> list[Message]:
    try:
        return [parse_message(value)] if isinstance(value, dict) else []
    except ValueError:
        return []


def _build_piece(messages: Sequence[ChatMessage], manner: str) -> Any:
    del manner
    (message,) = messages
    return msgspec.to_builtins(to_standalone_message(message), enc_hook=str)


def _normalize_piece(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    members = {name: inner for name, inner in value.items() if inner is not None}
    if isinstance(members.get("content"), str):
        members["content"] = [{"type": "text", "text": members["content"]}]
    return members


def _piece_content(value: Any) -> Any:
    """Return a normalized message without ids and the data of its occurrence."""
    value = _normalize_piece(value)
    if not isinstance(value, dict):
        return value
    members = {n: v for n, v in value.items() if n not in _OCCURRENCE_MEMBERS and v not in ([], "")}
    for name in ("content", "tool_calls"):
        if isinstance(members.get(name), list):
            members[name] = [*map(_part_content, members[name])]
    if members.get("is_error") is False or members.get("role") != "tool":
        members.pop("is_error", None)
    return members


def _part_content(part: Any) -> Any:
    """Return a part without its `meta`, ids and default members; its `extra` as members."""
    if not isinstance(part, dict):
        return part
    if part.get("type") == "other":
        block = parse_arguments(str(part.get("data")))
        if isinstance(block, dict) and block.get("type") == part.get("kind"):
            return block
    names = ("id", "meta", "extra")
    members = {n: v for n, v in part.items() if n not in names and v is not None}
    if "function" in members:
        members.setdefault("type", "function")
    extra = decode_extra(part.get("extra"))
    if isinstance(extra.get("function"), dict) and isinstance(members.get("function"), dict):
        members["function"] = {**members["function"], **extra.pop("function")}
    return {**members, **extra}


CODEC = PieceCodec(
    name=NAME,
    messages=_parse_messages,
    build=_build_piece,
    normalize=_normalize_piece,
    content=_piece_content,
)


class _ResponseAssembler:
    """Assembles a response of one JSON object.

    Its members are `message`, `stop_reason`, `usage`, `model`, `cost_usd` and `id`, and `partial`
    if it was cut off.
    """

    def __init__(self) -> None:
        self._body: Body = {}

    def add_event(self, event: Any) -> None:
        """Add the complete response. The protocol does not stream, so the event is the response."""
        if isinstance(event, dict):
            self.add_body(event)

    def add_body(self, body: Body) -> None:
        """Add the complete response."""
        self._body = body

    def finish(self) -> ParsedResponse:
        """Return the parsed response."""
        body, id_ = self._body, get_text(self._body, "id")
        if not get_text(body, "stop_reason"):
            partial = inner(body, "partial")
            return ParsedResponse(
                id=id_, partial=(get_text(partial, "thinking"), get_text(partial, "text"))
            )
        counts = inner(body, "usage")
        usage = Usage(**{name: get_count(counts, name) for name in Usage.__struct_fields__})
        cost = body.get("cost_usd")
        is_cost = isinstance(cost, int | float) and not isinstance(cost, bool)
        finish = Finish(
            stop_reason=get_text(body, "stop_reason"),
            usage=usage if usage != Usage() else None,
            cost_usd=float(cost) if is_cost and cost is not None else None,
            model=get_text(body, "model") or None,
        )
        message = body.get("message")
        pieces = [CODEC.piece(message)] if isinstance(message, dict) else ()
        return ParsedResponse(id=id_, finish=finish, pieces=pieces)


PROTOCOL = build_protocol(CODEC, _is_model_path, _parse_request, _build_body, _ResponseAssembler)
