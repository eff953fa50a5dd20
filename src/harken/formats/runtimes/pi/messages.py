"""Conversion between Pi messages and entries, and the messages that Pi sends.

An entry carries a message like any other, and remaining data is stored below `pi`. Messages that Pi
writes in the user's name (the output of a command, a summary) are user messages, as for the model.

Source: docs/formats/pi.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from harken.core import canonical, structs
from harken.core.messages import (
    FunctionCall,
    ImagePart,
    Message,
    Part,
    TextPart,
    ThinkingPart,
    ToolCall,
    UnknownPart,
)
from harken.formats.base import ConversationEntry
from harken.formats.json_records import (
    Record,
    extra_members,
    get_count,
    get_object,
    get_objects,
    get_text,
)
from harken.formats.runtimes.base import INCOMPLETE_STOP_REASONS, PI_MEMBER
from harken.formats.runtimes.steps import PROMPT, SYSTEM
from harken.formats.tool_calls import (
    build_assistant_message,
    iter_items,
    normalize_content,
    parse_json_object,
)

NO_RESULT = "No result provided"
IMAGES = "Attached image(s) from tool result:"
IMAGE_ONLY = "(see attached image)"
_SUMMARY_TEMPLATE = (
    "The conversation history before this point was compacted into the following summary:"
    "\n\n<summary>\n{}\n</summary>"
)
_BRANCH_TEMPLATE = (
    "The following is a summary of a branch that this conversation came back from:"
    "\n\n<summary>\n{}</summary>"
)
_MAX_ID_CHARS = 40


def parse_entry(message: Record, time: str | None) -> ConversationEntry | None:
    """Return the entry of a message.

    Return None if the model does not read it or its role is unknown.
    """
    match get_text(message, "role"):
        case "user":
            return _input_entry(
                message, Message("user", _parse_content(message.get("content"))), time
            )
        case "toolResult":
            result = Message(
                "tool",
                _parse_content(message.get("content")),
                tool_call_id=get_text(message, "toolCallId"),
                is_error=message.get("isError") is True,
            )
            return _input_entry({n: v for n, v in message.items() if n != "details"}, result, time)
        case "assistant":
            return _answer_entry(message, time)
        case "bashExecution" if message.get("excludeFromContext") is not True:
            return build_injected_entry("bashExecution", _format_command(message), time)
        case "custom" | "hookMessage":
            return build_injected_entry(
                get_text(message, "customType"), message.get("content"), time
            )
    return None


def build_injected_entry(kind: str, content: object, time: str | None) -> ConversationEntry:
    """Return the entry of a message that Pi, or an extension, writes in the user's name."""
    return ConversationEntry(
        Message("user", _parse_content(content)), time, {"kind": SYSTEM, "subkind": kind}
    )


def build_summary_entry(text: str, time: str | None) -> ConversationEntry:
    """Return the entry that replaces the compacted ones."""
    return build_injected_entry("compaction", _SUMMARY_TEMPLATE.format(text), time)


def build_branch_summary_entry(text: str, time: str | None) -> ConversationEntry:
    """Return the entry with the summary of an abandoned branch."""
    return build_injected_entry("branch_summary", _BRANCH_TEMPLATE.format(text), time)


def to_pi_messages(entries: Iterable[ConversationEntry]) -> list[Record]:
    """Return the messages that Pi stores for entries, also for entries of other formats."""
    messages = []
    for entry in entries:
        members = (entry.source or {}).get(PI_MEMBER)
        pi_members = members if isinstance(members, dict) else {}
        messages.append({**_to_native(entry.message), **pi_members})
    return messages


def build_resume_request(entries: Sequence[ConversationEntry]) -> list[Record]:
    """Return the `messages` that Pi sends when it resumes there.

    In the protocol of OpenAI's Chat Completions, to another model than the one of the conversation,
    as in the recordings.
    """
    messages = [*_close_calls(filter(_is_replayed, to_pi_messages(entries)))]
    return [*_iter_request_messages(messages)]


def _input_entry(message: Record, converted: Message, time: str | None) -> ConversationEntry:
    source: Record = {"kind": PROMPT} if converted.role == "user" else {}
    remaining = extra_members(message, _to_native(converted))
    if remaining:
        source[PI_MEMBER] = remaining
    return ConversationEntry(converted, time, source or None)


def _answer_entry(message: Record, time: str | None) -> ConversationEntry:
    converted = build_assistant_message(
        [_parse_part(block) for block in get_objects(message, "content")]
    )
    source: Record = {}
    if get_text(message, "model"):
        source["model"] = get_text(message, "model")
    usage = _parse_usage(get_object(message, "usage"))
    if usage:
        source["usage"] = usage
    remaining = extra_members(message, _to_native(converted))
    if remaining:
        source[PI_MEMBER] = remaining
    return ConversationEntry(converted, time, source or None)


def _parse_usage(counts: Record) -> dict[str, int]:
    """Return Harken's token counts of an answer. The input is the total."""
    cache_read, cache_write = (
        get_count(counts, "cacheRead") or 0,
        get_count(counts, "cacheWrite") or 0,
    )
    input_tokens = (get_count(counts, "input") or 0) + cache_read + cache_write
    usage = {
        "input_tokens": input_tokens,
        "output_tokens": get_count(counts, "output") or 0,
        "cache_read_tokens": cache_read,
        "cache_write_tokens": cache_write,
    }
    return {name: tokens for name, tokens in usage.items() if tokens}


def _format_command(message: Record) -> str:
    """Return the model's text of a command that the user ran."""
    output = get_text(message, "output")
    text = f"Ran `{get_text(message, 'command')}`\n"
    text += f"```\n{output}\n```" if output else "(no output)"
    code = message.get("exitCode")
    if message.get("cancelled"):
        text += "\n\n(command cancelled)"
    elif isinstance(code, int) and code:
        text += f"\n\nCommand exited with code {code}"
    path = get_text(message, "fullOutputPath")
    if message.get("truncated") and path:
        text += f"\n\n[Output truncated. Full output: {path}]"
    return text


def _parse_content(content: object) -> Any:
    if isinstance(content, str):
        return content
    parts = [_parse_part(block) for block in get_objects({"": content}, "")]
    return normalize_content([part for part in parts if not isinstance(part, ToolCall)])


def _parse_part(block: Record) -> Part | ToolCall:
    part: Part | ToolCall
    match block:
        case {"type": "text", "text": str(text)}:
            part = TextPart(text)
        case {"type": "thinking", "thinking": str(text)}:
            part = ThinkingPart(text)
        case {"type": "image", "data": str(data), "mimeType": str(kind)}:
            part = ImagePart(kind, data)
        case {"type": "toolCall", "id": str(id_), "name": str(name)}:
            arguments = canonical.to_json_line(block.get("arguments") or {}).decode()
            part = ToolCall(id_, FunctionCall(name, arguments))
        case _:
            return UnknownPart(get_text(block, "type"), canonical.to_json_line(block).decode())
    remaining = extra_members(block, _build_block(part))
    return structs.replace(part, meta={PI_MEMBER: remaining}) if remaining else part


def _build_block(part: Part | ToolCall) -> Record:
    match part:
        case TextPart():
            block: Record = {"type": "text", "text": part.text}
        case ThinkingPart():
            block = {"type": "thinking", "thinking": part.text}
        case ImagePart():
            block = {"type": "image", "data": part.data or "", "mimeType": part.media_type or ""}
        case ToolCall():
            raw = part.function.arguments
            arguments = parse_json_object(raw)
            block = {"type": "toolCall", "id": part.id, "name": part.function.name}
            block["arguments"] = {"input": raw} if arguments is None else arguments
        case UnknownPart():
            value = parse_json_object(part.data)
            return value if value is not None and value.get("type") == part.kind else {}
    meta = part.meta if isinstance(part.meta, dict) else {}
    pi_members = meta.get(PI_MEMBER)
    return {**block, **pi_members} if isinstance(pi_members, dict) else block


def _to_native(message: Message) -> Record:
    """Return a message in Pi's form, without the data that is stored in its entry."""
    blocks = [block for block in map(_build_block, iter_items(message)) if block]
    if message.role == "assistant":
        return {"role": "assistant", "content": blocks}
    if message.role == "tool":
        return {
            "role": "toolResult",
            "toolCallId": message.tool_call_id or "",
            "content": blocks,
            "isError": message.is_error,
        }
    return {"role": "user", "content": blocks}


def _is_replayed(message: Record) -> bool:
    """Whether a message is sent again: not an answer that broke off."""
    return get_text(message, "stopReason") not in INCOMPLETE_STOP_REASONS


def _close_calls(messages: Iterable[Record]) -> Iterator[Record]:
    """Yield messages, with a result for each call before the next message of another role."""
    open_calls: list[Record] = []
    for message in messages:
        if message["role"] == "toolResult":
            id_ = get_text(message, "toolCallId")
            open_calls = [call for call in open_calls if get_text(call, "id") != id_]
        else:
            yield from map(_build_missing_result, open_calls)
            open_calls = []
        if message["role"] == "assistant":
            open_calls = [
                b for b in get_objects(message, "content") if get_text(b, "type") == "toolCall"
            ]
        yield message
    yield from map(_build_missing_result, open_calls)


def _build_missing_result(call: Record) -> Record:
    content = [{"type": "text", "text": NO_RESULT}]
    id_ = get_text(call, "id")
    return {"role": "toolResult", "toolCallId": id_, "content": content, "isError": True}


def _iter_request_messages(messages: Iterable[Record]) -> Iterator[Record]:
    images: list[Record] = []
    for message in messages:
        blocks = get_objects(message, "content")
        if message["role"] == "toolResult":
            text = "\n".join(get_text(b, "text") for b in blocks if get_text(b, "type") == "text")
            id_ = truncate_call_id(get_text(message, "toolCallId"))
            yield {
                "role": "tool",
                "content": _drop_surrogates(text) or IMAGE_ONLY,
                "tool_call_id": id_,
            }
            images += [
                _request_block(block) for block in blocks if get_text(block, "type") == "image"
            ]
            continue
        if images:
            yield {"role": "user", "content": [{"type": "text", "text": IMAGES}, *images]}
            images = []
        if message["role"] == "assistant":
            yield from _iter_answer(blocks)
        elif isinstance(message.get("content"), str):
            yield {"role": "user", "content": _drop_surrogates(message["content"])}
        elif blocks:
            yield {"role": "user", "content": [_request_block(block) for block in blocks]}
    if images:
        yield {"role": "user", "content": [{"type": "text", "text": IMAGES}, *images]}


def _request_block(block: Record) -> Record:
    if get_text(block, "type") == "image":
        url = f"data:{get_text(block, 'mimeType')};base64,{get_text(block, 'data')}"
        return {"type": "image_url", "image_url": {"url": url}}
    return {"type": "text", "text": _drop_surrogates(get_text(block, "text"))}


def _iter_answer(blocks: list[Record]) -> Iterator[Record]:
    """Yield an answer, unless it is empty. For another model, thoughts are texts."""
    texts, calls = [], []
    for block in blocks:
        match get_text(block, "type"):
            case "text":
                texts.append(get_text(block, "text"))
            case "thinking" if block.get("redacted") is not True:
                texts.append(get_text(block, "thinking"))
            case "toolCall":
                arguments = canonical.to_json_line(
                    _with_js_numbers(block.get("arguments"))
                ).decode()
                function = {"name": get_text(block, "name"), "arguments": arguments}
                id_ = truncate_call_id(get_text(block, "id"))
                calls.append({"id": id_, "type": "function", "function": function})
    text = "".join(_drop_surrogates(part_text) for part_text in texts if part_text.strip()) or None
    if text or calls:
        answer: Record = {"role": "assistant", "content": text}
        yield {**answer, "tool_calls": calls} if calls else answer


def truncate_call_id(id_: str) -> str:
    """Return the call's part of an id. Ids of OpenAI's Responses include an item id."""
    if "|" not in id_:
        return id_
    return re.sub(r"[^a-zA-Z0-9_-]", "_", id_.partition("|")[0])[:_MAX_ID_CHARS]


def _drop_surrogates(text: str) -> str:
    """Return a text without lone surrogates, which Pi drops."""
    return text if text.isascii() else text.encode("utf-8", "ignore").decode()


def _with_js_numbers(value: Any) -> Any:
    """Return a value with numbers as in JavaScript: `1`, never `1.0`."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e21:
        return int(value)
    if isinstance(value, list):
        return [_with_js_numbers(item) for item in value]
    if isinstance(value, dict):
        return {name: _with_js_numbers(item) for name, item in value.items()}
    return value
