"""OpenAI Chat Completions: requests and answers as messages, and messages as a request.

One idea: all that a request may not be is dealt with in `turns`; here is how a part is written
and read. Many servers speak this protocol, each a little differently: what is written is what all
of them take, what is read may be what any of them says.

Source: docs/formats/openai-chat.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from harken.core import canonical
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
from harken.formats.images import sendable
from harken.formats.providers.alternation import AlternatingContext, Block, Place, Turn
from harken.formats.tool_calls import (
    CallIds,
    EncodedToolCall,
    ShortIds,
    as_object,
    clean,
    content_of,
    spoken,
)

ID_LENGTH, NAME_LENGTH = 40, 64
REASONING = "reasoning_content"
"""The member that some servers stream thinking in and want it back in; in the `meta` of such
thinking, the model that it goes back to."""
EXTRA = "extra_content"
"""The member of a call in which Google signs it and wants it back; in the `meta` of such a call,
what it holds, by the model that it goes back to."""
DETAILS = "reasoning_details"
"""The member in which OpenRouter gives what a model thought, signed or encrypted, and wants it
back; in the `meta` of the last part of such an answer, the list, by the model that gets it."""
ERROR = "[error]: "
"""Before a result that is an error and does not say so: the protocol has no member for that."""
_NATIVE = frozenset({"input_audio", "file"})
"""The kinds of a user's blocks that go back as they came."""


def build_request_body(
    messages: Iterable[ChatMessage],
    tools: Iterable[Mapping[str, Any]] = (),
    *,
    model: str | None = None,
    short_ids: bool = False,
) -> dict[str, Any]:
    """Return `messages` and `tools` of a request that the provider takes.

    messages: a context, oldest first. tools: `name`, `description`, `parameters` of each.
    model: whom the request goes to; thinking that its server wants back goes back to it alone.
    short_ids: whether it takes no ids of calls but such of nine letters and digits.
    """
    ids = ShortIds() if short_ids else CallIds(ID_LENGTH)
    conversation = AlternatingContext(partial(_write, model), ids, NAME_LENGTH)
    conversation.take(messages)
    conversation.close()
    written: list[Block] = [{"role": "system", "content": text} for text in conversation.system]
    has_reasoned = False
    for turn in conversation.turns:
        if turn.speaker == "user":
            written += _heard(turn)
        else:
            has_reasoned = has_reasoned or any(b["type"] == REASONING for b in turn.blocks)
            written.append(_said(turn, has_reasoned=has_reasoned))
    defined = [_tool(tool) for tool in tools]
    return {"messages": written, **({"tools": defined} if defined else {})}


def _tool(tool: Mapping[str, Any]) -> Block:
    function: Block = {"name": tool["name"]}
    if tool.get("description"):
        function["description"] = tool["description"]
    schema = {"type": "object", "properties": {}}  # without properties it is refused
    function["parameters"] = {**schema, **(tool.get("parameters") or {})}
    return {"type": "function", "function": function}


def _write(model: str | None, item: Part | EncodedToolCall, place: Place) -> Block | None:
    match item:
        case EncodedToolCall():
            return _call(model, item)
        case TextPart():
            details = _details(model, item) if place == "assistant" else {}
            return {"type": "text", "text": item.text, **details}
        case ThinkingPart():
            wanted = model is not None and (item.meta or {}).get(REASONING) == model
            block = {"type": REASONING, "text": clean(item.text)} if wanted else {}
            details = _details(model, item)
            return {"type": DETAILS, **block, **details} if block or details else None
        case ImagePart():
            return _image(sendable(item)) if place != "assistant" else None
        case UnknownPart():
            return _other(item, place)


def _details(model: str | None, part: TextPart | ThinkingPart) -> Block:
    """Return what a part holds of `reasoning_details` for this model; `_said` takes it out."""
    known = (part.meta or {}).get(DETAILS)
    details = _dicts(known.get(model)) if isinstance(known, dict) else []
    return {DETAILS: details} if details else {}


def _call(model: str | None, call: EncodedToolCall) -> Block:
    function = {"name": call.name, "arguments": call.text}
    extra = call.meta.get(EXTRA)
    signed = extra if isinstance(extra, dict) and model in extra else {}
    return {
        "type": "function",
        "id": call.id,
        "function": function,
        **({EXTRA: signed[model]} if signed else {}),
    }


def _image(image: ImagePart | TextPart) -> Block:
    if isinstance(image, TextPart):
        return {"type": "text", "text": image.text}
    inline = image.data is not None
    url = f"data:{image.media_type};base64,{image.data}" if inline else image.url
    return {"type": "image_url", "image_url": {"url": url}}


def _other(part: UnknownPart, place: Place) -> Block | None:
    """Return a block of OpenAI's as it came; of any other a note, if it is not the model's."""
    if place == "assistant":
        return None
    if place == "user" and part.kind in _NATIVE:
        block = as_object(part.data)
        if block is not None and block.get("type") == part.kind:
            return block
    return {"type": "text", "text": f"[a block of the kind {part.kind!a} that cannot be shown]"}


def _said(turn: Turn, *, has_reasoned: bool) -> Block:
    """Return the message of an assistant; its calls stand after its text.

    Who has thought in a member of its own wants that in each message with calls from then on,
    also where it thought nothing.
    """
    message: Block = {"role": "assistant", "content": _texts(turn.blocks) or None}
    calls = [block for block in turn.blocks if block["type"] == "function"]
    if calls:
        message["tool_calls"] = calls
        if has_reasoned:
            message[REASONING] = _texts(turn.blocks, REASONING)
    details = [detail for block in turn.blocks for detail in block.get(DETAILS, ())]
    return {**message, DETAILS: details} if details else message


def _heard(turn: Turn) -> Iterator[Block]:
    """Yield the results of a turn, then one message of the user, with the results' images."""
    images: list[Block] = []
    for result in turn.results:
        shown = [block for block in result.blocks if block["type"] == "image_url"]
        text = _texts(result.blocks)
        if shown:
            says = f"[{len(shown)} images, shown after the results]"
            text = f"{text}\n\n{says}" if text else says
            images += [{"type": "text", "text": f"[images of the result of {result.id}]:"}, *shown]
        if result.is_error and not text.lower().startswith(("error", "[error", "[no result")):
            text = ERROR + text
        yield {"role": "tool", "tool_call_id": result.id, "content": text}
    blocks = images + turn.blocks
    if all(block["type"] == "text" for block in blocks):
        if blocks:
            yield {"role": "user", "content": _texts(blocks)}
    else:
        yield {"role": "user", "content": blocks}


def _texts(blocks: Sequence[Block], kind: str = "text") -> str:
    return "\n\n".join(block["text"] for block in blocks if block["type"] == kind)


def messages_of(body: Mapping[str, Any]) -> list[Message]:
    """Return the messages that the body of a request holds, also of one that others wrote.

    The inverse of `body_of`, as far as that keeps things apart. What has no shape that the format
    knows is passed over, and a block of another kind becomes an "other" part.
    """
    return [_message(message) for message in _dicts(body.get("messages"))]


def message_of(response: Mapping[str, Any]) -> Message:
    """Return what a whole answer says, also one that was not streamed; of several, the first."""
    choice = next(iter(_dicts(response.get("choices"))), {})
    message = choice.get("message")
    return _assistant(message if isinstance(message, dict) else {})


def _message(message: Block) -> Message:
    content = message.get("content")
    match message.get("role"):
        case "assistant":
            return _assistant(message)
        case "tool" | "function":
            is_error = isinstance(content, str) and content.startswith(ERROR)
            content = content.removeprefix(ERROR) if isinstance(content, str) else content
            id_ = str(message.get("tool_call_id") or "")
            return Message("tool", _content(content), tool_call_id=id_, is_error=is_error)
        case "system" | "developer":
            return Message("system", _content(content))
    return Message("user", _content(content))


def _assistant(message: Block) -> Message:
    items: list[Part | ToolCall] = []
    for name in (REASONING, "reasoning"):
        thought = message.get(name)
        if isinstance(thought, str) and thought:
            items.append(ThinkingPart(thought))
            break
    for text in (message.get("content"), message.get("refusal")):
        items += _parts(text)
    items += map(read_call, _dicts(message.get("tool_calls")))
    if isinstance(message.get("function_call"), dict):
        items.append(read_call({"function": message["function_call"]}))
    return spoken(items)


def read_call(call: Block) -> ToolCall:
    """Return a call of an answer or a request; a call of a custom tool takes free text."""
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


def _content(content: object) -> str | list[ContentPart] | None:
    return content if isinstance(content, str) else content_of(_parts(content))


def _parts(content: object) -> list[Part]:
    if isinstance(content, str):
        return [TextPart(content)] if content else []
    return [_part(block) for block in _dicts(content)]


def _part(block: Block) -> Part:
    match block:
        case {"type": "text", "text": str(text)} | {"type": "refusal", "refusal": str(text)}:
            return TextPart(text)
        case {"type": "thinking", "thinking": thinking}:  # Mistral
            return ThinkingPart("".join(str(b.get("text", "")) for b in _dicts(thinking)))
        case {"type": "image_url", "image_url": {"url": str(url)}}:
            head, comma, data = url.partition(";base64,")
            if comma and head.startswith("data:"):
                return ImagePart(head.removeprefix("data:"), data)
            return ImagePart(url=url)
    return UnknownPart(str(block.get("type", "")), canonical.to_json_line(block).decode())


def _dicts(value: object) -> list[Block]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
