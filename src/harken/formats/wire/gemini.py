"""`gemini`: Gemini's generateContent on the wire.

The system instruction is the piece `{"systemInstruction": content}`, under the name that it has;
any other piece is a content. The model is in the path. What signs a thought is in no key: a client
puts another in its place.

Source: docs/formats/wire.md, "gemini"; docs/formats/gemini-cli.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from typing import Any

from harken.core.events import Usage
from harken.core.messages import ChatMessage, Message, Part, ThinkingPart, ToolCall, UnknownPart
from harken.core.stream import Finish
from harken.errors import FormatError
from harken.formats.base import ConversationEntry
from harken.formats.json_records import get_count, get_objects, get_text
from harken.formats.json_records import get_object as inner
from harken.formats.runtimes.gemini_cli import messages as gemini
from harken.formats.tool_calls import as_object, in_order
from harken.formats.wire.base import Body, ParsedRequest, ParsedResponse, PieceLookup
from harken.formats.wire.json_patch import changed, manner_of
from harken.formats.wire.json_slices import (
    begins,
    cutting_of,
    shape_of,
    tool_of,
    value_of,
    with_marks,
)
from harken.formats.wire.piece_codec import PieceCodec, alone, argument, protocol_of

NAME = "gemini"
_MODEL = re.compile(r"/(?:models|tunedModels|endpoints)/([^/:]+):(?:streamG|g)enerateContent$")
_SYSTEM = ("systemInstruction", "system_instruction")
_DECLARED = ("functionDeclarations", "function_declarations")
_JSON = "json"
"""The manner of results that are objects, and of tools whose parameters are JSON Schema."""
_SIGNATURES = ("thoughtSignature", "thought_signature")
_PLAIN = frozenset({"text"})
_THOUGHT = frozenset({"text", "thought"})


def _asks(path: str) -> bool:
    return _MODEL.search(path.rstrip("/")) is not None


def _take_apart(path: str, body: bytes, known: PieceLookup | None = None) -> ParsedRequest:
    cutting = cutting_of(NAME, body, SAYING.identify, known)
    asks = _MODEL.search(path.partition("?")[0].rstrip("/"))
    listed = cutting.array("contents")
    if listed is None:
        raise FormatError(NAME, "it has no list of contents")
    named = (one for one in _SYSTEM if begins(cutting.members.get(one), b"{"))
    cut = [
        b'{"%b":%b}' % (name.encode(), bytes(cutting.members.pop(name)))
        for name in islice(named, 1)
    ]
    if not cut and listed and _told(value_of(listed[0])):
        cutting.shape["system"] = False
    tools, groups = _tools(bytes(cutting.members.get("tools", b"")))
    if groups is not None:
        del cutting.members["tools"]
        if groups != [{_DECLARED[0]: len(tools)}]:
            cutting.shape["tools"] = groups
    pieces = [*map(cutting.piece, cut), *cutting.pieces(listed, "contents")]
    return cutting.asked(asks[1] if asks else "", pieces, tools)


def _told(value: Any) -> str:
    """Return the name of the instruction that a piece is; empty: it is a content."""
    if not isinstance(value, dict) or len(value) != 1:
        return ""
    return next((name for name in _SYSTEM if isinstance(value.get(name), dict)), "")


def _put_together(asked: ParsedRequest, values: Sequence[Any]) -> Body:
    shape, listed = shape_of(asked), [*values]
    body = dict(asked.parameters)
    if listed and shape.get("system") is not False and _told(listed[0]):
        body |= listed.pop(0)
    left = [changed(_tool(tool), tool.get("wire")) for tool in asked.tools]
    groups = shape.get("tools", [{_DECLARED[0]: len(left)}] if left else None)
    if groups is not None:
        body["tools"] = [_filled(group, left) for group in groups]
    return with_marks(asked, {**body, "contents": listed})


def _filled(group: Any, left: list[Any]) -> Any:
    """Return a group of tools with its declarations, which are taken from those that are left."""
    name = _declaring(group, int)
    if not name:
        return group
    taken, left[:] = left[: group[name]], left[group[name] :]
    return {**group, name: taken}


def _declaring(group: Any, kind: type) -> str:
    if not isinstance(group, dict):
        return ""
    return next((name for name in _DECLARED if isinstance(group.get(name), kind)), "")


@lru_cache(maxsize=32)
def _tools(data: bytes) -> tuple[tuple[Body, ...], list[Any] | None]:
    """Return the tools of all groups, and the groups with a number for them; None: no list."""
    found = value_of(data) if data else None
    if not isinstance(found, list):
        return (), None
    tools: list[Body] = []
    groups: list[Any] = []
    for group in found:
        name = _declaring(group, list)
        if not name or not all(isinstance(one, dict) for one in group[name]):
            if _declaring(group, int):
                return (), None  # that is how a group looks whose tools were taken
            groups.append(group)
            continue
        groups.append({**group, name: len(group[name])})
        tools += [tool_of(one, _tool, _schema(one)) for one in group[name]]
    return tuple(tools), groups


def _schema(tool: Body) -> str:
    return _JSON if isinstance(tool.get("parametersJsonSchema"), dict) else ""


def _tool(tool: Mapping[str, Any]) -> Body:
    named = {name: tool[name] for name in ("name", "description") if tool.get(name)}
    kind = "parametersJsonSchema" if manner_of(tool.get("wire")) == _JSON else "parameters"
    return {**named, kind: tool.get("parameters") or {}}


def _messages(value: Any) -> list[Message]:
    if not isinstance(value, dict):
        return []
    name = _told(value)
    if name:
        told = _entries("user", value[name])
        return [Message("system", message.content) for message in told if message.role == "user"]
    if value.get("role") not in (None, "user", "model", "function"):
        return []
    is_answer = value.get("role") == "model"
    said = _entries("gemini" if is_answer else "user", value)
    return said or [Message("assistant" if is_answer else "user", "")]


def _entries(kind: str, content: Body) -> list[Message]:
    whole = {"type": kind, "content": content.get("parts")}
    return [entry.message for entry in gemini.entries_of(whole, gemini.AnsweredCalls())]


def _manner(value: Any) -> str:
    name = _told(value)
    return name or (_JSON if any(map(_is_object, _responses(value))) else "")


def _responses(value: Any) -> Iterator[Any]:
    for part in get_objects(value, "parts") if isinstance(value, dict) else ():
        if isinstance(part.get("functionResponse"), dict):
            yield part["functionResponse"].get("response")


def _is_object(response: Any) -> bool:
    """Whether a result is an object that is more than a text."""
    if not isinstance(response, dict) or not response:
        return False
    return not isinstance(response.get("output", response.get("error")), str)


def _plain(messages: Sequence[ChatMessage], manner: str) -> Any:
    if manner in _SYSTEM:
        return {manner: {"parts": [*_parts(messages[0])]}}
    parts: list[Body] = []
    for message in messages:
        if message.role == "tool":
            parts += _result(message, manner)
        else:
            parts += _parts(message)
    role = "model" if messages[0].role == "assistant" else "user"
    return {"role": role, "parts": parts}


def _result(message: ChatMessage, manner: str) -> list[Body]:
    entry = ConversationEntry(alone(message))
    first, *more = gemini.response_of(entry, message.tool_call_id or None, message.name or "")
    content = message.content
    shown = as_object(content) if manner == _JSON and isinstance(content, str) else None
    if shown is not None:
        first = {"functionResponse": {**first["functionResponse"], "response": shown}}
    return [first, *more]


def _parts(message: ChatMessage) -> Iterator[Body]:
    for item in in_order(message):
        yield _block(item)


def _block(item: Part | ToolCall) -> Body:
    own = gemini.own_of(item.meta)
    match item:
        case ToolCall(id=id_, function=function):
            called = {"name": function.name, "args": argument(function.arguments)}
            return {"functionCall": {"id": id_, **called} if id_ else called, **own}
        case ThinkingPart():
            return {"text": item.text, "thought": True, **own}
        case UnknownPart():
            value = argument(item.data)
            return value if isinstance(value, dict) else {}
    return gemini.block_of(item) or {}


def _normal(value: Any) -> Any:
    """Return a content without what signs its parts; whose it is, is said."""
    if not isinstance(value, dict) or _told(value):
        return value
    kept = {"role": "user", **value}
    if isinstance(value.get("parts"), list):
        kept["parts"] = [*map(_unsigned, value["parts"])]
    return kept


def _unsigned(part: Any) -> Any:
    if not isinstance(part, dict):
        return part
    return {name: inner for name, inner in part.items() if name not in _SIGNATURES}


SAYING = PieceCodec(
    name=NAME, messages=_messages, plain=_plain, manner=_manner, normal=_normal, has_ids=False
)


@dataclass(slots=True)
class _Answer:
    """Puts together the content that a client sends back; of several candidates, the first."""

    _parts: list[Any] = field(default_factory=list)
    """Those that are at their end."""
    _kind: frozenset[str] | None = None
    """Of the part that is under way, which is nothing but a text or a thought."""
    _open: Body = field(default_factory=dict)
    """That part, and the pieces of its text."""
    _texts: list[str] = field(default_factory=list)
    _last: Body = field(default_factory=dict)
    """What the events said beside the candidates; a later one stands for an earlier one."""
    _reason: str = ""

    def event(self, event: Any) -> None:
        """Take the next event, or an answer that came at once."""
        self._last |= {name: value for name, value in event.items() if name != "candidates"}
        for candidate in get_objects(event, "candidates"):
            if candidate.get("index"):
                continue
            for part in inner(candidate, "content").get("parts") or ():
                self._add(part)
            self._reason = get_text(candidate, "finishReason") or self._reason

    def whole(self, body: Body) -> None:
        """Take an answer that came at once."""
        self.event(body)

    def answered(self) -> ParsedResponse:
        """Return what has come."""
        self._close()
        id_ = get_text(self._last, "responseId")
        reason = self._reason or get_text(inner(self._last, "promptFeedback"), "blockReason")
        if not reason:
            return ParsedResponse(
                id=id_, partial=(self._told(thought=True), self._told(thought=False))
            )
        model = get_text(self._last, "modelVersion") or None
        usage = _usage(inner(self._last, "usageMetadata"))
        finish = Finish(stop_reason=reason, usage=usage, model=model)
        said = {"role": "model", "parts": self._parts}
        pieces = [SAYING.piece(said)] if self._parts else []
        return ParsedResponse(id=id_, finish=finish, pieces=pieces)

    def _add(self, part: Any) -> None:
        """Add a part; a text goes on with the last, where both are nothing but text."""
        kind = _kind(part)
        if kind is None or kind != self._kind:
            self._close()
        if kind is None:
            self._parts.append(part)
        elif part["text"]:
            self._kind, self._open = kind, part
            self._texts.append(part["text"])

    def _close(self) -> None:
        """End the part that is under way, if any."""
        if self._texts:
            self._parts.append({**self._open, "text": "".join(self._texts)})
        self._kind, self._texts = None, []

    def _told(self, *, thought: bool) -> str:
        said = [part for part in self._parts if isinstance(part, dict)]
        return "\n\n".join(
            get_text(part, "text") for part in said if bool(part.get("thought")) == thought
        ).strip()


def _kind(part: Any) -> frozenset[str] | None:
    """Return the members of a part that is nothing but a text or a thought; None: it is more."""
    is_text = isinstance(part, dict) and isinstance(part.get("text"), str)
    kind = frozenset(part) if is_text else frozenset()
    return kind if kind in (_PLAIN, _THOUGHT) else None


def _usage(counts: Body) -> Usage | None:
    """Return the counts of an answer: its thoughts are output, and what tools read is input."""

    def both(one: str, other: str) -> int | None:
        first, second = get_count(counts, one), get_count(counts, other)
        return None if first is None and second is None else (first or 0) + (second or 0)

    usage = Usage(
        input_tokens=both("promptTokenCount", "toolUsePromptTokenCount"),
        output_tokens=both("candidatesTokenCount", "thoughtsTokenCount"),
        cache_read_tokens=get_count(counts, "cachedContentTokenCount"),
    )
    return usage if usage != Usage() else None


PROTOCOL = protocol_of(SAYING, _asks, _take_apart, _put_together, _Answer)
