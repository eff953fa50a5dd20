"""OpenAI Chat Completions: request and response bodies to messages, and messages to a request body.

`harken.formats.providers.alternation` normalizes the conversation; this module writes and parses
parts. Many servers implement this protocol with small differences: the writer uses only what all of
them accept, and the reader accepts the variants of all of them.

Source: docs/formats/openai-chat.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from harken.core import canonical
from harken.core.event_types.message_parser import MESSAGE_KEY
from harken.core.messages import (
    ChatMessage,
    ContentPart,
    FunctionCall,
    ImagePart,
    Message,
    Part,
    TextPart,
    ThinkingPart,
    ToolCall,
    UnknownPart,
)
from harken.formats.first_part import add_leftover
from harken.formats.images import to_sendable_image
from harken.formats.json_records import as_objects, get_object
from harken.formats.providers.alternation import AlternatingContext, Block, PartSpeaker, Turn
from harken.formats.tool_calls import (
    CallIds,
    EncodedToolCall,
    ShortIds,
    build_assistant_message,
    normalize_content,
    parse_json_object,
    replace_surrogates,
)

ID_LENGTH, NAME_LENGTH = 40, 64
REASONING = "reasoning_content"
"""The member in which some servers stream thinking and require it back; in the `meta` of such
thinking, the model that it is sent back to."""
EXTRA_MEMBER = "extra_content"
"""The member of a call in which Google signs it and requires the signature back; in the `meta` of
such a call, its value by the model that it is sent back to."""
DETAILS_MEMBER = "reasoning_details"
"""The member in which OpenRouter returns thinking, signed or encrypted, and requires it back; in
the `meta` of the last part of such an answer, the list by the model that it is sent back to."""
ERROR_PREFIX = "[error]: "
"""The prefix of an error result without such text: the protocol has no member for errors."""
_REASONING = "reasoning"
_ANSWER_MEMBERS = frozenset(
    {"role", "content", "refusal", "tool_calls", "function_call", "id"}
    | {REASONING, _REASONING, DETAILS_MEMBER}
)
_EMPTY: tuple[Any, ...] = (None, [])
_NATIVE_TYPES = frozenset({"input_audio", "file"})
"""The types of user blocks that are sent back unchanged."""


def build_request_body(
    messages: Iterable[ChatMessage],
    tools: Iterable[Mapping[str, Any]] = (),
    *,
    model: str | None = None,
    short_ids: bool = False,
) -> dict[str, Any]:
    """Return `messages` and `tools` of a request that the provider accepts.

    messages: a context, oldest first. tools: `name`, `description`, `parameters` of each.
    model: the model of the request; thinking that its server requires back is sent to it alone.
    short_ids: whether the server accepts only call ids of nine letters and digits.
    """
    ids = ShortIds() if short_ids else CallIds(ID_LENGTH)
    conversation = AlternatingContext(partial(_write, model), ids, NAME_LENGTH)
    conversation.add(messages)
    conversation.close()
    body_messages: list[Block] = [
        {"role": "system", "content": text} for text in conversation.system
    ]
    has_reasoned = False
    for turn in conversation.turns:
        if turn.speaker == "user":
            body_messages += _iter_user_messages(turn)
        else:
            has_reasoned = has_reasoned or any(b["type"] == REASONING for b in turn.blocks)
            body_messages.append(_assistant_message(turn, has_reasoned=has_reasoned))
    tool_objects = [_tool(tool) for tool in tools]
    return {"messages": body_messages, **({"tools": tool_objects} if tool_objects else {})}


def _tool(tool: Mapping[str, Any]) -> Block:
    function: Block = {"name": tool["name"]}
    if tool.get("description"):
        function["description"] = tool["description"]
    schema = {"type": "object", "properties": {}}  # A schema without properties is refused.
    function["parameters"] = {**schema, **(tool.get("parameters") or {})}
    return {"type": "function", "function": function}


def _write(model: str | None, item: Part | EncodedToolCall, place: PartSpeaker) -> Block | None:
    match item:
        case EncodedToolCall():
            return _call(model, item)
        case TextPart():
            details = _details_member(model, item) if place == "assistant" else {}
            return {"type": "text", "text": item.text, **details}
        case ThinkingPart():
            is_required = model is not None and (item.meta or {}).get(REASONING) == model
            block = (
                {"type": REASONING, "text": replace_surrogates(item.text)} if is_required else {}
            )
            details = _details_member(model, item)
            return {"type": DETAILS_MEMBER, **block, **details} if block or details else None
        case ImagePart():
            return _image(to_sendable_image(item)) if place != "assistant" else None
        case UnknownPart():
            return _unknown_block(item, place)


def _details_member(model: str | None, part: TextPart | ThinkingPart) -> Block:
    """Return the `reasoning_details` of a part for this model.

    `_assistant_message` moves them to the message.
    """
    details_by_model = (part.meta or {}).get(DETAILS_MEMBER)
    details = as_objects(details_by_model.get(model)) if isinstance(details_by_model, dict) else []
    return {DETAILS_MEMBER: details} if details else {}


def _call(model: str | None, call: EncodedToolCall) -> Block:
    function = {"name": call.name, "arguments": call.text}
    extra = call.meta.get(EXTRA_MEMBER)
    signature = extra if isinstance(extra, dict) and model in extra else {}
    return {
        "type": "function",
        "id": call.id,
        "function": function,
        **({EXTRA_MEMBER: signature[model]} if signature else {}),
    }


def _image(image: ImagePart | TextPart) -> Block:
    if isinstance(image, TextPart):
        return {"type": "text", "text": image.text}
    inline = image.data is not None
    url = f"data:{image.media_type};base64,{image.data}" if inline else image.url
    return {"type": "image_url", "image_url": {"url": url}}


def _unknown_block(part: UnknownPart, place: PartSpeaker) -> Block | None:
    """Return an OpenAI block unchanged, or a note. Return None for blocks of the model."""
    if place == "assistant":
        return None
    if place == "user" and part.kind in _NATIVE_TYPES:
        block = parse_json_object(part.data)
        if block is not None and block.get("type") == part.kind:
            return block
    return {"type": "text", "text": f"[a block of the kind {part.kind!a} that cannot be shown]"}


def _assistant_message(turn: Turn, *, has_reasoned: bool) -> Block:
    """Return the message of an assistant. Its calls follow its text.

    A server with a separate thinking member requires that member in each later message with calls,
    even if it is empty.
    """
    message: Block = {"role": "assistant", "content": _join_texts(turn.blocks) or None}
    calls = [block for block in turn.blocks if block["type"] == "function"]
    if calls:
        message["tool_calls"] = calls
        if has_reasoned:
            message[REASONING] = _join_texts(turn.blocks, REASONING)
    details = [detail for block in turn.blocks for detail in block.get(DETAILS_MEMBER, ())]
    return {**message, DETAILS_MEMBER: details} if details else message


def _iter_user_messages(turn: Turn) -> Iterator[Block]:
    """Yield the results of a turn, then one user message with the images of the results."""
    images: list[Block] = []
    for result in turn.results:
        result_images = [block for block in result.blocks if block["type"] == "image_url"]
        text = _join_texts(result.blocks)
        if result_images:
            note = f"[{len(result_images)} images, shown after the results]"
            text = f"{text}\n\n{note}" if text else note
            images += [
                {"type": "text", "text": f"[images of the result of {result.id}]:"},
                *result_images,
            ]
        if result.is_error and not text.lower().startswith(("error", "[error", "[no result")):
            text = ERROR_PREFIX + text
        yield {"role": "tool", "tool_call_id": result.id, "content": text}
    blocks = images + turn.blocks
    if all(block["type"] == "text" for block in blocks):
        if blocks:
            yield {"role": "user", "content": _join_texts(blocks)}
    else:
        yield {"role": "user", "content": blocks}


def _join_texts(blocks: Sequence[Block], kind: str = "text") -> str:
    return "\n\n".join(block["text"] for block in blocks if block["type"] == kind)


def parse_request_messages(body: Mapping[str, Any]) -> list[Message]:
    """Return the messages of a request body, also of one that another program wrote.

    The inverse of `build_request_body`, as far as that is lossless. Blocks of an unexpected shape
    are skipped, and a block of another type becomes an "other" part.
    """
    return [_parse_message(message) for message in as_objects(body.get("messages"))]


def parse_response_message(response: Mapping[str, Any]) -> Message:
    """Return the message of a complete response, the first of several choices."""
    choice = next(iter(as_objects(response.get("choices"))), {})
    message = get_object(choice, "message")
    members = unknown_members(message)
    parsed = _parse_assistant(message)
    return add_leftover(parsed, {MESSAGE_KEY: members}) if members else parsed


def unknown_members(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members of an answer, or of a piece of it, that no part carries."""
    members = {n: v for n, v in message.items() if n not in _ANSWER_MEMBERS and v not in _EMPTY}
    if message.get(REASONING) and message.get(_REASONING):
        members[_REASONING] = message[_REASONING]  # The first one is the thinking.
    return members


def _parse_message(message: Block) -> Message:
    content = message.get("content")
    match message.get("role"):
        case "assistant":
            return _parse_assistant(message)
        case "tool" | "function":
            is_error = isinstance(content, str) and content.startswith(ERROR_PREFIX)
            content = content.removeprefix(ERROR_PREFIX) if isinstance(content, str) else content
            id_ = str(message.get("tool_call_id") or "")
            name = message.get("name")
            return Message(
                "tool",
                _parse_content(content),
                tool_call_id=id_,
                name=name if isinstance(name, str) and name else None,
                is_error=is_error,
            )
        case "system" | "developer":
            return Message("system", _parse_content(content))
    return Message("user", _parse_content(content))


def _parse_assistant(message: Block) -> Message:
    items: list[Part | ToolCall] = []
    for name in (REASONING, _REASONING):
        thinking = message.get(name)
        if isinstance(thinking, str) and thinking:
            items.append(ThinkingPart(thinking))
            break
    for text in (message.get("content"), message.get("refusal")):
        items += _parse_parts(text)
    items += map(parse_call, as_objects(message.get("tool_calls")))
    if isinstance(message.get("function_call"), dict):
        items.append(parse_call({"function": message["function_call"]}))
    return build_assistant_message(items)


def parse_call(call: Block) -> ToolCall:
    """Parse a call of a response or a request. A call of a custom tool has free text."""
    kind = "custom" if call.get("type") == "custom" else "function"
    function = call.get(kind)
    function = function if isinstance(function, dict) else {}
    text = function.get("input" if kind == "custom" else "arguments")
    arguments = text if isinstance(text, str) else canonical.to_json_line(text or {}).decode()
    name = function.get("name")
    return ToolCall(
        str(call.get("id") or ""),
        FunctionCall(name if isinstance(name, str) else "", arguments),
        kind,
    )


def _parse_content(content: object) -> str | list[ContentPart] | None:
    return content if isinstance(content, str) else normalize_content(_parse_parts(content))


def _parse_parts(content: object) -> list[Part]:
    if isinstance(content, str):
        return [TextPart(content)] if content else []
    return [parse_part(block) for block in as_objects(content)]


def parse_part(block: Block) -> Part:
    """Parse a block of a content."""
    match block:
        case {"type": "text", "text": str(text)} | {"type": "refusal", "refusal": str(text)}:
            return TextPart(text)
        case {"type": "thinking", "thinking": thinking}:  # The form of Mistral.
            return ThinkingPart("".join(str(b.get("text", "")) for b in as_objects(thinking)))
        case {"type": "image_url", "image_url": {"url": str(url)}}:
            head, comma, data = url.partition(";base64,")
            if comma and head.startswith("data:"):
                return ImagePart(head.removeprefix("data:"), data)
            return ImagePart(url=url)
    return UnknownPart(str(block.get("type", "")), canonical.to_json_line(block).decode())
