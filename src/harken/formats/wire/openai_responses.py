"""`openai-responses`: OpenAI's Responses on the wire.

The instructions are the piece `{"instructions": text}`; any other piece is an item, and so is each
of an answer. The ids of items are in no key: a client gives its own items new ones when it likes,
and leaves out those of others.

Source: docs/formats/wire.md, "openai-responses"; docs/formats/codex.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harken.core import canonical
from harken.core.events import Usage
from harken.core.messages import ChatMessage, Message, UnknownPart, text_of
from harken.core.stream import Finish
from harken.errors import FormatError
from harken.formats.base import ConversationEntry
from harken.formats.json_records import get_count, get_objects, get_text
from harken.formats.json_records import get_object as inner
from harken.formats.providers.openai_responses import OUTPUTS, heard, is_answer, items_of, said
from harken.formats.wire.base import Body, ParsedRequest, ParsedResponse, PieceLookup
from harken.formats.wire.json_slices import BodySlices, begins, cutting_of, put, shape_of, value_of
from harken.formats.wire.piece_codec import PieceCodec, alone, protocol_of
from harken.formats.wire.response_reader import error_line

NAME = "openai-responses"
_TOLD = "instructions"
_INPUT = "input"
_THOUGHTS = ("response.reasoning_summary_text.delta", "response.reasoning_text.delta")
_TEXTS = ("response.output_text.delta", "response.refusal.delta")
_ENDS = ("response.completed", "response.incomplete", "response.failed", "response.done")
_EMPTY: tuple[Any, ...] = (None, [])


def _asks(path: str) -> bool:
    return path.rstrip("/").endswith("/responses")


def _take_apart(path: str, body: bytes, known: PieceLookup | None = None) -> ParsedRequest:
    del path
    cutting = cutting_of(NAME, body, SAYING.identify, known)
    model = cutting.model()
    cut = [b'{"instructions":%b}' % told for told in _lone(cutting, _TOLD)]
    listed = cutting.array(_INPUT)
    if listed is None:
        listed = [b'{"role":"user","content":%b}' % lone for lone in _lone(cutting, _INPUT)]
        cutting.shape[_INPUT] = "text"
        if not listed:
            raise FormatError(NAME, "it has no input")
    pieces = [*map(cutting.piece, cut), *cutting.pieces(listed, _INPUT)]
    if not cut and listed and _told(value_of(listed[0])) is not None:
        cutting.shape[_TOLD] = False
    return cutting.asked(model, pieces, cutting.tools(_tool))


def _lone(cutting: BodySlices, name: str) -> list[bytes]:
    """Take a member that is a text; empty: it is none, and stays."""
    is_text = begins(cutting.members.get(name), b'"')
    return [bytes(cutting.members.pop(name))] if is_text else []


def _told(value: Any) -> Any:
    """Return what the piece of the instructions holds; None: it is an item."""
    return value[_TOLD] if isinstance(value, dict) and {*value} == {_TOLD} else None


def _put_together(asked: ParsedRequest, values: Sequence[Any]) -> Body:
    shape, listed = shape_of(asked), [*values]
    taken: Body = {}
    if listed and shape.get(_TOLD) is not False and _told(listed[0]) is not None:
        taken = listed.pop(0)
    is_text = shape.get(_INPUT) == "text"
    return put(asked, {**taken, _INPUT: listed[0]["content"] if is_text else listed}, _tool)


def _tool(tool: Mapping[str, Any]) -> Body:
    told = {"description": tool["description"]} if tool.get("description") else {}
    schema = tool.get("parameters") or {}
    return {"type": "function", "name": tool["name"], **told, "parameters": schema}


def _messages(value: Any) -> list[Message]:
    told = _told(value)
    if told is not None:
        return [Message("system", told)] if isinstance(told, str) else []
    if not isinstance(value, dict) or not (get_text(value, "type") or get_text(value, "role")):
        return []
    kind = get_text(value, "type")
    if kind.endswith("_output") and kind not in OUTPUTS:
        data = canonical.to_json_line(value).decode()
        return [Message("tool", [UnknownPart(kind, data)], tool_call_id=get_text(value, "call_id"))]
    return [said([value]) if is_answer(value) else heard(value, None).message]


def _manner(value: Any) -> str:
    return _TOLD if _told(value) is not None else ""


def _plain(messages: Sequence[ChatMessage], manner: str) -> Any:
    (message,) = messages
    if manner == _TOLD:
        return {_TOLD: text_of(message.content)}
    if message.role == "tool" and isinstance(message.content, list):
        match message.content:
            case [UnknownPart(kind=kind, data=data)] if kind.endswith("_output"):
                if kind not in OUTPUTS:
                    return canonical.from_json(data.encode())
    return next(iter(items_of([ConversationEntry(alone(message))])), {})


def _normal(value: Any) -> Any:
    """Return an item with all texts as blocks, without its id, its status and what is empty."""
    if not isinstance(value, dict) or _told(value) is not None:
        return value
    kept = {name: inner for name, inner in value.items() if inner not in _EMPTY}
    kept.pop("status", None)
    if kept.get("type") != "item_reference" and (
        get_text(kept, "call_id") or "role" in kept or _said(kept)
    ):
        kept.pop("id", None)
    if "role" in kept:
        kept.setdefault("type", "message")
    block = "output_text" if kept.get("role") == "assistant" else "input_text"
    for name in ("content", "output"):
        if isinstance(kept.get(name), str):
            kept[name] = [{"type": block, "text": kept[name]}]
        elif isinstance(kept.get(name), list):
            kept[name] = [*map(_full, kept[name])]
    return kept


def _said(item: Body) -> bool:
    return get_text(item, "type") == "reasoning" and len(item) > len(("type", "id"))


def _full(block: Any) -> Any:
    """Return a block without the members that are empty: annotations, logprobs."""
    if not isinstance(block, dict):
        return block
    return {name: inner for name, inner in block.items() if inner not in _EMPTY}


SAYING = PieceCodec(name=NAME, messages=_messages, plain=_plain, manner=_manner, normal=_normal)


@dataclass(slots=True)
class _Answer:
    """Puts together the items of an answer."""

    _items: dict[Any, Body] = field(default_factory=dict)
    _thought: dict[Any, list[str]] = field(default_factory=dict)
    """What has come of each item."""
    _text: dict[Any, list[str]] = field(default_factory=dict)
    _response: Body = field(default_factory=dict)
    """What the last event said of the answer as a whole."""

    def event(self, event: Any) -> None:
        """Take the next event."""
        kind, at = event.get("type"), event.get("output_index")
        if kind == "response.output_item.done":
            self._items[at] = dict(event["item"])
        elif kind in _THOUGHTS:
            self._thought.setdefault(at, []).append(str(event["delta"]))
        elif kind in _TEXTS:
            self._text.setdefault(at, []).append(str(event["delta"]))
        elif isinstance(event.get("response"), dict):
            self._response = {**self._response, **event["response"]}

    def whole(self, body: Body) -> None:
        """Take an answer that came at once."""
        self._response = dict(body)

    def answered(self) -> ParsedResponse:
        """Return what has come."""
        response = self._response
        id_, status = get_text(response, "id"), get_text(response, "status")
        if status == "failed":
            return ParsedResponse(id=id_, error=error_line(response), partial=self._partial())
        if status not in ("completed", "incomplete"):
            return ParsedResponse(id=id_, partial=self._partial())
        reason = get_text(inner(response, "incomplete_details"), "reason") or status
        model = get_text(response, "model") or None
        finish = Finish(stop_reason=reason, usage=_usage(inner(response, "usage")), model=model)
        said = [*self._items.values()] or get_objects(response, "output")
        return ParsedResponse(id=id_, finish=finish, pieces=[SAYING.piece(item) for item in said])

    def _partial(self) -> tuple[str, str]:
        """Return thinking and text of the items that are whole, and of the one that is not."""
        thought, told = dict(self._thought), dict(self._text)
        for at, item in self._items.items():
            blocks = get_objects(item, "summary") or get_objects(item, "content")
            shown = thought if get_text(item, "type") == "reasoning" else told
            shown[at] = [get_text(block, "text") for block in blocks] or shown.get(at, [])
        return _joined(thought), _joined(told)


def _joined(texts: Mapping[Any, Sequence[str]]) -> str:
    return "\n\n".join(filter(None, map("".join, texts.values())))


def _usage(counts: Body) -> Usage | None:
    usage = Usage(
        input_tokens=get_count(counts, "input_tokens"),
        output_tokens=get_count(counts, "output_tokens"),
        cache_read_tokens=get_count(inner(counts, "input_tokens_details"), "cached_tokens"),
    )
    return usage if usage != Usage() else None


PROTOCOL = protocol_of(SAYING, _asks, _take_apart, _put_together, _Answer)
