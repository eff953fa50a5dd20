"""`messages-v1`: a request in Harken's own words, of whoever has no provider's protocol.

One idea: a piece is a message as a log has it. So a client of any kind says what it asks, and is
recorded like any other.

Source: docs/formats/wire.md, "messages-v1".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from harken.core.events import Usage
from harken.core.messages import ChatMessage, Message, message_from
from harken.core.stream import Finish
from harken.errors import FormatError
from harken.formats.json_records import get_count, get_text
from harken.formats.json_records import get_object as inner
from harken.formats.wire.base import Body, ParsedRequest, ParsedResponse, PieceLookup
from harken.formats.wire.json_slices import cutting_of, put, shape_of, value_of
from harken.formats.wire.piece_codec import PieceCodec, alone, protocol_of

NAME = "messages-v1"
_GIVEN = "parameters"
_BESIDE = "beside"
"""In the shape, the members of a body that the protocol does not know."""


def _asks(path: str) -> bool:
    return path.rstrip("/").endswith("/" + NAME)


def _take_apart(path: str, body: bytes, known: PieceLookup | None = None) -> ParsedRequest:
    del path
    cutting = cutting_of(NAME, body, SAYING.identify, known)
    model = cutting.model()
    listed = cutting.array("messages")
    if listed is None:
        raise FormatError(NAME, "it has no list of messages")
    given = value_of(cutting.members.get(_GIVEN, b"null"))
    if isinstance(given, dict) and given:
        del cutting.members[_GIVEN]
    else:
        given = {}
    pieces = cutting.pieces(listed, "messages")
    asked = cutting.asked(model, pieces, cutting.tools(_tool))
    beside = {_BESIDE: asked.parameters} if asked.parameters else {}
    return replace(asked, parameters=given, shape={**cutting.shape, **beside} or None)


def _put_together(asked: ParsedRequest, values: Sequence[Any]) -> Body:
    taken: Body = {"messages": [*values], **shape_of(asked).get(_BESIDE, {})}
    if asked.parameters:
        taken[_GIVEN] = asked.parameters
    return put(replace(asked, parameters={}), taken, _tool)


def _tool(tool: Mapping[str, Any]) -> Body:
    named = {name: tool[name] for name in ("name", "description") if tool.get(name)}
    return {**named, _GIVEN: tool.get(_GIVEN) or {}}


def _messages(value: Any) -> list[Message]:
    try:
        return [message_from(value)] if isinstance(value, dict) else []
    except ValueError:
        return []


def _plain(messages: Sequence[ChatMessage], manner: str) -> Any:
    del manner
    (message,) = messages
    return msgspec.to_builtins(alone(message), enc_hook=str)


def _normal(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    kept = {name: inner for name, inner in value.items() if inner is not None}
    if isinstance(kept.get("content"), str):
        kept["content"] = [{"type": "text", "text": kept["content"]}]
    return kept


SAYING = PieceCodec(name=NAME, messages=_messages, plain=_plain, normal=_normal)


class _Answer:
    """`message`, `stop_reason`, `usage`, `model`, `cost_usd`, `id`; `partial`, where it was cut."""

    def __init__(self) -> None:
        self._body: Body = {}

    def event(self, event: Any) -> None:
        """Take the whole answer: it does not stream, so an event is one."""
        if isinstance(event, dict):
            self.whole(event)

    def whole(self, body: Body) -> None:
        """Take the whole answer."""
        self._body = body

    def answered(self) -> ParsedResponse:
        """Return it."""
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
        said = body.get("message")
        pieces = [SAYING.piece(said)] if isinstance(said, dict) else ()
        return ParsedResponse(id=id_, finish=finish, pieces=pieces)


PROTOCOL = protocol_of(SAYING, _asks, _take_apart, _put_together, _Answer)
