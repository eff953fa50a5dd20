"""Anthropic Messages: request and response bodies to messages, and messages to a request body.

`harken.formats.providers.alternation` normalizes the conversation; this module writes and parses
parts. Only known members are sent: the `meta` of a part belongs to Harken, and only the signature
of thinking is sent, to the model that it comes from.

Source: docs/formats/anthropic-messages.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from harken.core import canonical, structs
from harken.core.event_types.message_parser import MESSAGE_KEYS, encode_extra
from harken.core.messages import (
    ChatMessage,
    FunctionCall,
    ImagePart,
    Message,
    Part,
    TextPart,
    ThinkingPart,
    ToolCall,
    UnknownPart,
)
from harken.formats.images import to_sendable_image
from harken.formats.json_records import as_objects
from harken.formats.providers.alternation import (
    AlternatingContext,
    Block,
    PartSpeaker,
    Turn,
    TurnToolResult,
)
from harken.formats.tool_calls import (
    CallIds,
    EncodedToolCall,
    build_assistant_message,
    normalize_content,
    parse_json_object,
    replace_surrogates,
)

ID_LENGTH, NAME_LENGTH = 64, 128
CITATIONS = "citations"
THINKING_MODEL_KEY = "model"
"""The member of the `meta` of thinking that holds its model. Other models cannot verify the
signature and refuse the request.
"""
ERROR_NOTE = "[error]"
"""The prefix of an error result that holds more than text, because the API refuses such a result
with `is_error`.
"""
_NATIVE_TYPES: Mapping[PartSpeaker, frozenset[str]] = {
    "user": frozenset({"document", "search_result", "container_upload"}),
    "result": frozenset({"document", "search_result", "tool_reference"}),
    "assistant": frozenset(
        {
            "redacted_thinking",
            "server_tool_use",
            "web_search_tool_result",
            "web_fetch_tool_result",
            "code_execution_tool_result",
            "bash_code_execution_tool_result",
            "text_editor_code_execution_tool_result",
            "tool_search_tool_result",
        }
    ),
}
"""The types of blocks that are sent back unchanged."""
OCCURRENCE_MEMBERS = frozenset(
    {"id", "tool_use_id", "signature", "caller", "cache_control", "cache_reference"}
)
"""Members of blocks and messages that vary between occurrences of the same content."""
_BLOCK_MEMBERS: Mapping[str, frozenset[str]] = {
    "text": frozenset({"type", "text"}),
    "thinking": frozenset({"type", "thinking"}),
    "tool_use": frozenset({"type", "name", "input"}),
    "image": frozenset({"type", "source"}),
}
_CACHE_CONTROL = {"type": "ephemeral"}


def build_request_body(
    messages: Iterable[ChatMessage],
    tools: Iterable[Mapping[str, Any]] = (),
    *,
    model: str | None = None,
) -> dict[str, Any]:
    """Return `system`, `messages` and `tools` of a request that the provider accepts.

    messages: a context, oldest first. tools: `name`, `description`, `parameters` of each.
    model: the model of the request; thinking that is known to be of another model is left out.
    """
    conversation = AlternatingContext(partial(_write, model), CallIds(ID_LENGTH), NAME_LENGTH)
    conversation.add(messages)
    conversation.close()
    body: dict[str, Any] = {}
    if conversation.system:
        body["system"] = [{"type": "text", "text": text} for text in conversation.system]
    body["messages"] = [_message(turn) for turn in conversation.turns]
    tool_blocks = [_tool(tool) for tool in tools]
    if tool_blocks:
        body["tools"] = tool_blocks
    return body


def add_cache_breakpoints(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return a body of `build_request_body` with cache breakpoints and no other changes.

    Four, the maximum: after the tools, after the system prompt, and after the last two turns of the
    user. The one before the last is where the previous request ended, so the cache entry that this
    request wrote is found, however much was added since.
    """
    marked_body = dict(body)
    for name in ("tools", "system"):
        if marked_body.get(name):
            marked_body[name] = _with_breakpoint(marked_body[name])
    messages = list(marked_body["messages"])
    users = [index for index, message in enumerate(messages) if message["role"] == "user"]
    for index in users[-2:]:
        messages[index] = {
            **messages[index],
            "content": _with_breakpoint(messages[index]["content"]),
        }
    return {**marked_body, "messages": messages}


def lacks_thinking(body: Mapping[str, Any]) -> bool:
    """Whether a body continues calls that no thinking of its model precedes.

    With a thinking budget, the API requires that such a turn begins with thinking. The thinking is
    missing if another model made the calls, because its thinking is left out.
    """
    if not _has_block(body["messages"][-1], "tool_result"):
        return False
    for message in reversed(body["messages"]):
        if message["role"] == "user":
            if not _has_block(message, "tool_result"):
                break
        elif message["content"][0]["type"] in ("thinking", "redacted_thinking"):
            return False
    return True


def _has_block(message: Block, kind: str) -> bool:
    return any(block["type"] == kind for block in message["content"])


def _with_breakpoint(blocks: Sequence[Block]) -> list[Block]:
    return [*blocks[:-1], {**blocks[-1], "cache_control": _CACHE_CONTROL}]


def _tool(tool: Mapping[str, Any]) -> Block:
    schema = {"type": "object", **(tool.get("parameters") or {})}
    block: Block = {"name": tool["name"]}
    if tool.get("description"):
        block["description"] = tool["description"]
    return {**block, "input_schema": schema}


def _message(turn: Turn) -> Block:
    return {"role": turn.speaker, "content": [*map(_result_block, turn.results), *turn.blocks]}


def _result_block(result: TurnToolResult) -> Block:
    block: Block = {"type": "tool_result", "tool_use_id": result.id, "content": result.blocks}
    if not result.is_error:
        return block
    if all(inner["type"] == "text" for inner in result.blocks):
        return {**block, "is_error": True}
    return {**block, "content": [{"type": "text", "text": ERROR_NOTE}, *result.blocks]}


def _write(model: str | None, item: Part | EncodedToolCall, place: PartSpeaker) -> Block | None:
    match item:
        case EncodedToolCall():
            return {"type": "tool_use", "id": item.id, "name": item.name, "input": item.arguments}
        case TextPart():
            return {"type": "text", "text": item.text}
        case ThinkingPart():
            return _thinking(model, item) if place == "assistant" else None
        case ImagePart():
            return _image(to_sendable_image(item)) if place != "assistant" else None
        case UnknownPart():
            return None if _is_foreign(model, item) else _unknown_block(item, place)


def _is_foreign(model: str | None, part: ThinkingPart | UnknownPart) -> bool:
    """Whether the part is known to be thinking of another model."""
    thinker = (part.meta or {}).get(THINKING_MODEL_KEY)
    return thinker is not None and thinker != model


def _thinking(model: str | None, part: ThinkingPart) -> Block | None:
    """Return thinking with a signature and unchanged text. The provider refuses any other."""
    signature = (part.meta or {}).get("signature")
    if _is_foreign(model, part):
        return None
    if not isinstance(signature, str) or not signature:
        return None
    if (replace_surrogates(signature), replace_surrogates(part.text)) != (signature, part.text):
        return None
    return {"type": "thinking", "thinking": part.text, "signature": signature}


def _image(image: ImagePart | TextPart) -> Block:
    if isinstance(image, TextPart):
        return {"type": "text", "text": image.text}
    if image.data is None:
        return {"type": "image", "source": {"type": "url", "url": image.url}}
    source = {"type": "base64", "media_type": image.media_type, "data": image.data}
    return {"type": "image", "source": source}


def _unknown_block(part: UnknownPart, place: PartSpeaker) -> Block | None:
    """Return an Anthropic block unchanged, or a note.

    Return None for blocks of the model that are not native.
    """
    block = parse_json_object(part.data) if part.kind in _NATIVE_TYPES[place] else None
    if block is not None and block.get("type") == part.kind:
        block.pop("cache_control", None)  # The API accepts four marks in all.
        return block
    if place == "assistant":
        return None
    return {"type": "text", "text": f"[a block of the kind {part.kind!a} that cannot be shown]"}


def parse_request_messages(body: Mapping[str, Any]) -> list[Message]:
    """Return the messages of a request body, also of one that another program wrote.

    The inverse of `build_request_body`, as far as that is lossless. Blocks of an unexpected shape
    are skipped, and a block of another type becomes an "other" part.
    """
    system = body.get("system")
    texts = [system] if isinstance(system, str) else [b.get("text") for b in as_objects(system)]
    messages_ = [Message("system", text) for text in texts if isinstance(text, str)]
    for message in as_objects(body.get("messages")):
        content = message.get("content")
        if message.get("role") == "assistant":
            messages_.append(build_assistant_message([*_iter_items(content)]))
        else:
            role = "system" if message.get("role") == "system" else "user"
            messages_ += _parse_user_content(role, content)
    return messages_


def parse_response_message(response: Mapping[str, Any]) -> Message:
    """Return the message of a complete response."""
    return build_assistant_message([*_iter_items(response.get("content"))])


def _parse_user_content(role: Any, content: object) -> Iterator[Message]:
    """Yield results as tool messages, and the blocks between them as one message each."""
    if isinstance(content, str):
        yield Message(role, content)
        return
    parts: list[Part] = []
    for block in as_objects(content):
        if block.get("type") != "tool_result":
            parts += [part for part in _iter_items([block]) if not isinstance(part, ToolCall)]
            continue
        if parts:
            yield Message(role, normalize_content(parts))
            parts = []
        yield _parse_result(block)
    if parts:
        yield Message(role, normalize_content(parts))


def _parse_result(block: Block) -> Message:
    content = block.get("content")
    parts: list[Part] = [p for p in _iter_items(content) if not isinstance(p, ToolCall)]
    has_error_note = parts[:1] == [TextPart(ERROR_NOTE)] and not all(
        isinstance(p, TextPart) for p in parts
    )
    return Message(
        "tool",
        content
        if isinstance(content, str)
        else normalize_content(parts[1:] if has_error_note else parts),
        tool_call_id=str(block.get("tool_use_id", "")),
        is_error=has_error_note or block.get("is_error") is True,
    )


def _iter_items(content: object) -> Iterator[Part | ToolCall]:
    if isinstance(content, str):
        yield TextPart(content)
    for block in as_objects(content):
        yield parse_block(block)


def parse_block(block: Block) -> Part | ToolCall:
    """Parse a block of a request or a response as a part or a call.

    Members that the part has no field for, such as citations, are in its `extra`.
    """
    item = _parse_known_block(block)
    names = _BLOCK_MEMBERS.get(str(block.get("type")), frozenset())
    unknown = {
        name: value
        for name, value in block.items()
        if name not in names and name not in OCCURRENCE_MEMBERS and is_stated(name, value)
    }
    if item is None or not MESSAGE_KEYS.isdisjoint(unknown):
        return _parse_verbatim(block)
    extra: Any = encode_extra(unknown)  # Each kind of part has another type of it.
    return structs.replace(item, extra=extra) if unknown else item


def is_stated(name: str, value: object) -> bool:
    """Whether a member of a block has a value.

    A streamed text begins with empty citations where a complete one has null.
    """
    return value is not None and not (name == CITATIONS and value == [])


def _parse_verbatim(block: Block) -> UnknownPart:
    verbatim = {name: value for name, value in block.items() if name != "cache_control"}
    return UnknownPart(str(block.get("type", "")), canonical.to_json_line(verbatim).decode())


def _parse_known_block(block: Block) -> Part | ToolCall | None:
    """Parse a block of a known type. Return None for any other block."""
    match block:
        case {"type": "text", "text": str(text)}:
            return TextPart(text)
        case {"type": "thinking", "thinking": str(text)}:
            signature = block.get("signature")
            return ThinkingPart(text, {"signature": signature} if signature else None)
        case {"type": "tool_use", "id": str(id_), "name": str(name)}:
            arguments = canonical.to_json_line(block.get("input") or {}).decode()
            return ToolCall(id_, FunctionCall(name, arguments))
        case {"type": "image", "source": {"type": "base64", "data": str(data), **rest}}:
            kind = rest.pop("media_type", None)
            return None if rest or not isinstance(kind, str) else ImagePart(kind, data)
        case {"type": "image", "source": {"type": "url", "url": str(url), **rest}}:
            return None if rest else ImagePart(url=url)
    return None
