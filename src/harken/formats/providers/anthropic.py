"""Anthropic Messages: requests and answers as messages, and messages as a request.

One idea: all that a request may not be is dealt with in `turns`; here is how a part is written
and read. Nothing but known members is ever sent: the `meta` of a part is Harken's own, and of it
only the signature of thinking goes back to whom it came from.

Source: docs/formats/anthropic-messages.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from harken.core import canonical
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
from harken.formats.images import sendable
from harken.formats.providers.alternation import (
    AlternatingContext,
    Block,
    Place,
    Turn,
    TurnToolResult,
)
from harken.formats.tool_calls import CallIds, EncodedToolCall, as_object, clean, content_of, spoken

ID_LENGTH, NAME_LENGTH = 64, 128
THINKER = "model"
"""In the `meta` of thinking, the model that thought it: to any other its signature means nothing,
and a request with it is refused."""
ERROR = "[error]"
"""Before the content of a result that is an error and holds more than text, which the API refuses
where `is_error` says so."""
_NATIVE: Mapping[Place, frozenset[str]] = {
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
"""The kinds of blocks that go back as they came."""
_MARK = {"type": "ephemeral"}


def build_request_body(
    messages: Iterable[ChatMessage],
    tools: Iterable[Mapping[str, Any]] = (),
    *,
    model: str | None = None,
) -> dict[str, Any]:
    """Return `system`, `messages` and `tools` of a request that the provider takes.

    messages: a context, oldest first. tools: `name`, `description`, `parameters` of each.
    model: whom the request goes to; what another model is known to have thought is left out.
    """
    conversation = AlternatingContext(partial(_write, model), CallIds(ID_LENGTH), NAME_LENGTH)
    conversation.take(messages)
    conversation.close()
    body: dict[str, Any] = {}
    if conversation.system:
        body["system"] = [{"type": "text", "text": text} for text in conversation.system]
    body["messages"] = [_message(turn) for turn in conversation.turns]
    defined = [_tool(tool) for tool in tools]
    if defined:
        body["tools"] = defined
    return body


def marked(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return a body of `body_of` with its cache breakpoints; nothing else in it changes.

    Four, as many as there may be: after the tools, after the system prompt, and after the last
    two turns of the user. The one before the last is where the request before this one ended, so
    what that request has written into the cache is found, however much was added since.
    """
    marked = dict(body)
    for name in ("tools", "system"):
        if marked.get(name):
            marked[name] = _with_mark(marked[name])
    messages = list(marked["messages"])
    users = [at for at, message in enumerate(messages) if message["role"] == "user"]
    for at in users[-2:]:
        messages[at] = {**messages[at], "content": _with_mark(messages[at]["content"])}
    return {**marked, "messages": messages}


def lacks_thinking(body: Mapping[str, Any]) -> bool:
    """Whether a body of `body_of` goes on with calls before which its model has thought nothing.

    Where thinking has a budget, the API demands that such a turn begins with thinking. It is the
    case where another model has made the calls, whose thinking is left out.
    """
    if not _has(body["messages"][-1], "tool_result"):
        return False
    for message in reversed(body["messages"]):
        if message["role"] == "user":
            if not _has(message, "tool_result"):
                break
        elif message["content"][0]["type"] in ("thinking", "redacted_thinking"):
            return False
    return True


def _has(message: Block, kind: str) -> bool:
    return any(block["type"] == kind for block in message["content"])


def _with_mark(blocks: Sequence[Block]) -> list[Block]:
    return [*blocks[:-1], {**blocks[-1], "cache_control": _MARK}]


def _tool(tool: Mapping[str, Any]) -> Block:
    schema = {"type": "object", **(tool.get("parameters") or {})}
    named: Block = {"name": tool["name"]}
    if tool.get("description"):
        named["description"] = tool["description"]
    return {**named, "input_schema": schema}


def _message(turn: Turn) -> Block:
    return {"role": turn.speaker, "content": [*map(_answered, turn.results), *turn.blocks]}


def _answered(result: TurnToolResult) -> Block:
    block: Block = {"type": "tool_result", "tool_use_id": result.id, "content": result.blocks}
    if not result.is_error:
        return block
    if all(inner["type"] == "text" for inner in result.blocks):
        return {**block, "is_error": True}
    return {**block, "content": [{"type": "text", "text": ERROR}, *result.blocks]}


def _write(model: str | None, item: Part | EncodedToolCall, place: Place) -> Block | None:
    match item:
        case EncodedToolCall():
            return {"type": "tool_use", "id": item.id, "name": item.name, "input": item.arguments}
        case TextPart():
            return {"type": "text", "text": item.text}
        case ThinkingPart():
            return _thinking(model, item) if place == "assistant" else None
        case ImagePart():
            return _image(sendable(item)) if place != "assistant" else None
        case UnknownPart():
            return None if _is_foreign(model, item) else _other(item, place)


def _is_foreign(model: str | None, part: ThinkingPart | UnknownPart) -> bool:
    """Whether another model is known to have thought this."""
    thinker = (part.meta or {}).get(THINKER)
    return thinker is not None and thinker != model


def _thinking(model: str | None, part: ThinkingPart) -> Block | None:
    """Return thinking that has a signature and is unchanged: any other the provider refuses."""
    signature = (part.meta or {}).get("signature")
    if _is_foreign(model, part):
        return None
    if not isinstance(signature, str) or not signature:
        return None
    if (clean(signature), clean(part.text)) != (signature, part.text):
        return None
    return {"type": "thinking", "thinking": part.text, "signature": signature}


def _image(image: ImagePart | TextPart) -> Block:
    if isinstance(image, TextPart):
        return {"type": "text", "text": image.text}
    if image.data is None:
        return {"type": "image", "source": {"type": "url", "url": image.url}}
    source = {"type": "base64", "media_type": image.media_type, "data": image.data}
    return {"type": "image", "source": source}


def _other(part: UnknownPart, place: Place) -> Block | None:
    """Return a block of Anthropic's as it came; of any other a note, if it is not the model's."""
    block = as_object(part.data) if part.kind in _NATIVE[place] else None
    if block is not None and block.get("type") == part.kind:
        block.pop("cache_control", None)  # there may be four marks in all
        return block
    if place == "assistant":
        return None
    return {"type": "text", "text": f"[a block of the kind {part.kind!a} that cannot be shown]"}


def messages_of(body: Mapping[str, Any]) -> list[Message]:
    """Return the messages that the body of a request holds, also of one that others wrote.

    The inverse of `body_of`, as far as that keeps things apart. What has no shape that the format
    knows is passed over, and a block of another kind becomes an "other" part.
    """
    system = body.get("system")
    texts = [system] if isinstance(system, str) else [b.get("text") for b in _blocks(system)]
    read = [Message("system", text) for text in texts if isinstance(text, str)]
    for message in _blocks(body.get("messages")):
        content = message.get("content")
        if message.get("role") == "assistant":
            read.append(spoken([*_items(content)]))
        else:
            role = "system" if message.get("role") == "system" else "user"
            read += _heard(role, content)
    return read


def message_of(response: Mapping[str, Any]) -> Message:
    """Return what a whole answer says, also one that was not streamed."""
    return spoken([*_items(response.get("content"))])


def _heard(role: Any, content: object) -> Iterator[Message]:
    """Yield results as messages of tools, and what stands between them as one message each."""
    if isinstance(content, str):
        yield Message(role, content)
        return
    parts: list[Part] = []
    for block in _blocks(content):
        if block.get("type") != "tool_result":
            parts += [part for part in _items([block]) if not isinstance(part, ToolCall)]
            continue
        if parts:
            yield Message(role, content_of(parts))
            parts = []
        yield _result(block)
    if parts:
        yield Message(role, content_of(parts))


def _result(block: Block) -> Message:
    content = block.get("content")
    parts: list[Part] = [p for p in _items(content) if not isinstance(p, ToolCall)]
    marked = parts[:1] == [TextPart(ERROR)] and not all(isinstance(p, TextPart) for p in parts)
    return Message(
        "tool",
        content if isinstance(content, str) else content_of(parts[1:] if marked else parts),
        tool_call_id=str(block.get("tool_use_id", "")),
        is_error=marked or block.get("is_error") is True,
    )


def _items(content: object) -> Iterator[Part | ToolCall]:
    if isinstance(content, str):
        yield TextPart(content)
    for block in _blocks(content):
        yield read_block(block)


def _blocks(value: object) -> list[Block]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def read_block(block: Block) -> Part | ToolCall:
    """Return a block of a request or an answer as the part or the call that it is."""
    match block:
        case {"type": "text", "text": str(text)}:
            citations = block.get("citations")
            return TextPart(text, {"citations": citations} if citations else None)
        case {"type": "thinking", "thinking": str(text)}:
            signature = block.get("signature")
            return ThinkingPart(text, {"signature": signature} if signature else None)
        case {"type": "tool_use", "id": str(id_), "name": str(name)}:
            arguments = canonical.to_json_line(block.get("input") or {}).decode()
            return ToolCall(id_, FunctionCall(name, arguments))
        case {"type": "image", "source": {"type": "base64", "data": str(data), "media_type": kind}}:
            return ImagePart(kind if isinstance(kind, str) else None, data)
        case {"type": "image", "source": {"type": "url", "url": str(url)}}:
            return ImagePart(url=url)
    verbatim = {name: value for name, value in block.items() if name != "cache_control"}
    return UnknownPart(str(block.get("type", "")), canonical.to_json_line(verbatim).decode())
