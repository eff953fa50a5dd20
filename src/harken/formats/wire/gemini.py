"""`gemini`: the wire protocol of Gemini's generateContent.

The system instruction is the piece `{"systemInstruction": content}`, under the name that the client
used; any other piece is a content. The model is in the path. Thought signatures are in no key,
because a client replaces them.

Source: docs/formats/wire.md, "gemini"; docs/formats/gemini-cli.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any

import msgspec

from harken.core.events import Usage
from harken.core.messages import ChatMessage, Message, Part, ToolCall, UnknownPart
from harken.core.stream import Finish
from harken.errors import FormatError
from harken.formats.json_records import get_count, get_objects, get_text
from harken.formats.json_records import get_object as inner
from harken.formats.providers import gemini
from harken.formats.tool_calls import build_assistant_message, iter_items, normalize_content
from harken.formats.wire.base import Body, ParsedRequest, ParsedResponse, PieceLookup
from harken.formats.wire.json_patch import apply_form, get_manner
from harken.formats.wire.json_slices import (
    get_shape,
    parse_slice,
    parse_tool,
    restore_marks,
    slice_body,
    starts_with,
)
from harken.formats.wire.piece_codec import (
    PieceCodec,
    build_protocol,
    parse_arguments,
)

NAME = "gemini"
_MODEL = re.compile(r"/(?:models|tunedModels|endpoints)/([^/:]+):(?:streamG|g)enerateContent$")
_SYSTEM_NAMES = ("systemInstruction", "system_instruction")
_DECLARATION_NAMES = ("functionDeclarations", "function_declarations")
_JSON = "json"
"""The manner of tools with JSON Schema parameters."""
_PLAIN = frozenset({"text"})
_THOUGHT = frozenset({"text", "thought"})


def _is_model_path(path: str) -> bool:
    return _MODEL.search(path.rstrip("/")) is not None


def _parse_request(path: str, body: bytes, known: PieceLookup | None = None) -> ParsedRequest:
    cutting = slice_body(NAME, body, CODEC.identify, known)
    match = _MODEL.search(path.partition("?")[0].rstrip("/"))
    contents = cutting.take_array("contents")
    if contents is None:
        raise FormatError(NAME, "it has no list of contents")
    names = (
        system_name
        for system_name in _SYSTEM_NAMES
        if starts_with(cutting.members.get(system_name), b"{")
    )
    instruction = [
        b'{"%b":%b}' % (name.encode(), bytes(cutting.members.pop(name)))
        for name in islice(names, 1)
    ]
    if not instruction and contents and _instruction_name(parse_slice(contents[0])):
        cutting.shape["system"] = False
    tools, groups = _parse_tools(bytes(cutting.members.get("tools", b"")))
    if groups is not None:
        del cutting.members["tools"]
        if groups != [{_DECLARATION_NAMES[0]: len(tools)}]:
            cutting.shape["tools"] = groups
    pieces = cutting.pieces(contents, "contents", leading=map(cutting.piece, instruction))
    return cutting.build_request(match[1] if match else "", pieces, tools)


def _instruction_name(value: Any) -> str:
    """Return the member name of a system instruction piece, or an empty string for a content."""
    if not isinstance(value, dict) or len(value) != 1:
        return ""
    return next((name for name in _SYSTEM_NAMES if isinstance(value.get(name), dict)), "")


def _build_body(request: ParsedRequest, values: Sequence[Any]) -> Body:
    shape, contents = get_shape(request), [*values]
    body = dict(request.parameters)
    if contents and shape.get("system") is not False and _instruction_name(contents[0]):
        body |= contents.pop(0)
    remaining = [apply_form(_build_tool(tool), tool.get("wire")) for tool in request.tools]
    groups = shape.get("tools", [{_DECLARATION_NAMES[0]: len(remaining)}] if remaining else None)
    if groups is not None:
        body["tools"] = [_restore_group(group, remaining) for group in groups]
    return restore_marks(request, {**body, "contents": contents})


def _restore_group(group: Any, remaining: list[Any]) -> Any:
    """Restore a group of tools from its count, and remove its declarations from those remaining."""
    name = _declarations_name(group, int)
    if not name:
        return group
    declarations, remaining[:] = remaining[: group[name]], remaining[group[name] :]
    return {**group, name: declarations}


def _declarations_name(group: Any, kind: type) -> str:
    if not isinstance(group, dict):
        return ""
    return next((name for name in _DECLARATION_NAMES if isinstance(group.get(name), kind)), "")


@lru_cache(maxsize=32)
def _parse_tools(data: bytes) -> tuple[tuple[Body, ...], list[Any] | None]:
    """Return the tools of all groups, and the groups with tool counts.

    The groups are None if the data is no list.
    """
    value = parse_slice(data) if data else None
    if not isinstance(value, list):
        return (), None
    tools: list[Body] = []
    groups: list[Any] = []
    for group in value:
        name = _declarations_name(group, list)
        if not name or not all(isinstance(declaration, dict) for declaration in group[name]):
            if _declarations_name(group, int):
                return (), None  # This group would look like a group with counts.
            groups.append(group)
            continue
        groups.append({**group, name: len(group[name])})
        tools += [
            parse_tool(declaration, _build_tool, _schema_manner(declaration))
            for declaration in group[name]
        ]
    return tuple(tools), groups


def _schema_manner(tool: Body) -> str:
    return _JSON if isinstance(tool.get("parametersJsonSchema"), dict) else ""


def _build_tool(tool: Mapping[str, Any]) -> Body:
    members = {name: tool[name] for name in ("name", "description") if tool.get(name)}
    kind = "parametersJsonSchema" if get_manner(tool.get("wire")) == _JSON else "parameters"
    return {**members, kind: tool.get("parameters") or {}}


def _parse_messages(value: Any) -> list[Message]:
    if not isinstance(value, dict):
        return []
    name = _instruction_name(value)
    if name:
        messages = _read_messages(value[name], is_answer=False)
        contents = [message.content for message in messages if message.role == "user"]
        return [Message("system", content) for content in contents or [""]]
    if value.get("role") not in (None, "user", "model", "function"):
        return []
    is_answer = value.get("role") == "model"
    messages = _read_messages(value, is_answer=is_answer)
    return messages or [Message("assistant" if is_answer else "user", "")]


def _read_messages(content: Body, *, is_answer: bool) -> list[Message]:
    blocks = content.get("parts")
    blocks = blocks if isinstance(blocks, list) else []
    if is_answer:
        items = [gemini.parse_part(block) for block in blocks]
        return [build_assistant_message(items)] if items else []
    results = [_parse_result(block) for block in blocks if gemini.is_response(block)]
    parts = [gemini.parse_input_part(b) for b in blocks if not gemini.is_response(b)]
    return [*results, Message("user", normalize_content(parts))] if parts else results


def _parse_result(block: Body) -> Message:
    response = block["functionResponse"]
    return gemini.parse_result([block], get_text(response, "id"), get_text(response, "name"))


def _build_piece(messages: Sequence[ChatMessage], manner: str) -> Any:
    if manner in _SYSTEM_NAMES:
        return {manner: {"parts": [*_parts(messages[0])]}}
    parts: list[Body] = []
    for message in messages:
        if message.role == "tool":
            parts += gemini.build_result_parts(
                message, message.tool_call_id or None, message.name or ""
            )
        else:
            parts += _parts(message)
    role = "model" if messages[0].role == "assistant" else "user"
    return {"role": role, "parts": parts}


def _parts(message: ChatMessage) -> Iterator[Body]:
    for item in iter_items(message):
        yield _block(item)


def _block(item: Part | ToolCall) -> Any:
    if isinstance(item, ToolCall):
        return gemini.build_call(item, item.id or None, parse_arguments(item.function.arguments))
    if isinstance(item, UnknownPart):
        value = parse_arguments(item.data)
        return {**value, **gemini.get_metadata(item.meta)} if isinstance(value, dict) else value
    return gemini.build_native_block(item)


def _normalize_piece(value: Any) -> Any:
    """Return a content without signatures of its parts, and with an explicit role."""
    if not isinstance(value, dict) or _instruction_name(value):
        return value
    content = {"role": "user", **value}
    if isinstance(value.get("parts"), list):
        content["parts"] = [*map(_without_signatures, value["parts"])]
    return content


def _without_signatures(part: Any) -> Any:
    if not isinstance(part, dict):
        return part
    return {name: inner for name, inner in part.items() if name not in gemini.SIGNATURES}


def _piece_content(value: Any) -> Any:
    """Return a normalized content without signatures and ids."""
    if not isinstance(value, dict):
        return value
    name = _instruction_name(value)
    if name:
        members = {n: inner for n, inner in value[name].items() if n != "role"}
        return {_SYSTEM_NAMES[0]: {**members, "parts": _part_contents(members.get("parts"))}}
    content = {n: inner for n, inner in value.items() if inner is not None}
    role = content.get("role", "user")
    content["role"] = "user" if role == "function" else role
    return {**content, "parts": _part_contents(content.get("parts"))}


def _part_contents(parts: Any) -> Any:
    return [*map(gemini.part_content, parts)] if isinstance(parts, list) else parts


CODEC = PieceCodec(
    name=NAME,
    messages=_parse_messages,
    build=_build_piece,
    manner=_instruction_name,
    normalize=_normalize_piece,
    content=_piece_content,
    has_ids=False,
)


class _ResponseAssembler(msgspec.Struct):
    """Assembles the content that a client sends back: the first of several candidates."""

    _parts: list[Any] = msgspec.field(default_factory=list)
    """The complete parts."""
    _kind: frozenset[str] | None = None
    """The members of the current part, if it is only a text or a thought."""
    _open_part: Body = msgspec.field(default_factory=dict)
    """The current part; the pieces of its text are in `_texts`."""
    _texts: list[str] = msgspec.field(default_factory=list)
    _last_members: Body = msgspec.field(default_factory=dict)
    """Event members beside the candidates. Later values replace earlier ones."""
    _reason: str = ""

    def add_event(self, event: Any) -> None:
        """Add the next event, or a complete response."""
        self._last_members |= {name: value for name, value in event.items() if name != "candidates"}
        for candidate in get_objects(event, "candidates"):
            if candidate.get("index"):
                continue
            for part in inner(candidate, "content").get("parts") or ():
                self._add(part)
            self._reason = get_text(candidate, "finishReason") or self._reason

    def add_body(self, body: Body) -> None:
        """Add a complete response."""
        self.add_event(body)

    def finish(self) -> ParsedResponse:
        """Return the parsed response."""
        self._close()
        id_ = get_text(self._last_members, "responseId")
        reason = self._reason or get_text(
            inner(self._last_members, "promptFeedback"), "blockReason"
        )
        if not reason:
            return ParsedResponse(
                id=id_,
                partial=(
                    self._instruction_name(thought=True),
                    self._instruction_name(thought=False),
                ),
            )
        model = get_text(self._last_members, "modelVersion") or None
        usage = _usage(inner(self._last_members, "usageMetadata"))
        finish = Finish(stop_reason=reason, usage=usage, model=model)
        content = {"role": "model", "parts": self._parts}
        pieces = [CODEC.piece(content)] if self._parts else []
        return ParsedResponse(id=id_, finish=finish, pieces=pieces)

    def _add(self, part: Any) -> None:
        """Add a part. A text extends the current part if both are only text."""
        kind = _kind(part)
        if kind is None or kind != self._kind:
            self._close()
        if kind is None:
            self._parts.append(part)
        elif part["text"]:
            self._kind, self._open_part = kind, part
            self._texts.append(part["text"])

    def _close(self) -> None:
        """End the current part, if any."""
        if self._texts:
            self._parts.append({**self._open_part, "text": "".join(self._texts)})
        self._kind, self._texts = None, []

    def _instruction_name(self, *, thought: bool) -> str:
        parts = [part for part in self._parts if isinstance(part, dict)]
        return "\n\n".join(
            get_text(part, "text") for part in parts if bool(part.get("thought")) == thought
        ).strip()


def _kind(part: Any) -> frozenset[str] | None:
    """Return the members of a part that is only a text or a thought. Return None for others."""
    is_text = isinstance(part, dict) and isinstance(part.get("text"), str)
    kind = frozenset(part) if is_text else frozenset()
    return kind if kind in (_PLAIN, _THOUGHT) else None


def _usage(counts: Body) -> Usage | None:
    """Return the token counts of a response.

    Thoughts are output, and prompts of tool use are input.
    """

    def both(name: str, other_name: str) -> int | None:
        first, second = get_count(counts, name), get_count(counts, other_name)
        return None if first is None and second is None else (first or 0) + (second or 0)

    usage = Usage(
        input_tokens=both("promptTokenCount", "toolUsePromptTokenCount"),
        output_tokens=both("candidatesTokenCount", "thoughtsTokenCount"),
        cache_read_tokens=get_count(counts, "cachedContentTokenCount"),
    )
    return usage if usage != Usage() else None


PROTOCOL = build_protocol(CODEC, _is_model_path, _parse_request, _build_body, _ResponseAssembler)
