"""Messages of Pi as entries, entries as messages of Pi, and what Pi sends of them.

One idea: as for the items of Codex, an entry says a message as any message would be said, and
keeps beside it, below `pi`, what that leaves unsaid. What Pi itself said in the user's name (the
output of a command, a summary) is a user message, as it is for the model.

Source: docs/formats/pi.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from harken.core import canonical
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
    get_count,
    get_object,
    get_objects,
    get_text,
    members_not_in,
)
from harken.formats.runtimes.base import BROKEN_OFF, PI_MEMBER
from harken.formats.runtimes.steps import PROMPT, SYSTEM
from harken.formats.tool_calls import as_object, content_of, in_order, spoken

NO_RESULT = "No result provided"
IMAGES = "Attached image(s) from tool result:"
IMAGE_ONLY = "(see attached image)"
_SUMMARY = (
    "The conversation history before this point was compacted into the following summary:"
    "\n\n<summary>\n{}\n</summary>"
)
_BRANCH = (
    "The following is a summary of a branch that this conversation came back from:"
    "\n\n<summary>\n{}</summary>"
)
_ID_LENGTH = 40


def entry_of(message: Record, time: str | None) -> ConversationEntry | None:
    """Return the entry of a message; None: the model does not see it, or nobody knows its role."""
    match get_text(message, "role"):
        case "user":
            return _heard(message, Message("user", _content(message.get("content"))), time)
        case "toolResult":
            result = Message(
                "tool",
                _content(message.get("content")),
                tool_call_id=get_text(message, "toolCallId"),
                is_error=message.get("isError") is True,
            )
            return _heard({n: v for n, v in message.items() if n != "details"}, result, time)
        case "assistant":
            return _answer(message, time)
        case "bashExecution" if message.get("excludeFromContext") is not True:
            return injected("bashExecution", _ran(message), time)
        case "custom" | "hookMessage":
            return injected(get_text(message, "customType"), message.get("content"), time)
    return None


def injected(kind: str, content: object, time: str | None) -> ConversationEntry:
    """Return the entry of what Pi, or an extension, says in the user's name."""
    return ConversationEntry(
        Message("user", _content(content)), time, {"kind": SYSTEM, "subkind": kind}
    )


def summary(told: str, time: str | None) -> ConversationEntry:
    """Return the entry that takes the place of what was compacted."""
    return injected("compaction", _SUMMARY.format(told), time)


def branch_summary(told: str, time: str | None) -> ConversationEntry:
    """Return the entry that tells of a branch that was left."""
    return injected("branch_summary", _BRANCH.format(told), time)


def messages_of(entries: Iterable[ConversationEntry]) -> list[Record]:
    """Return what Pi keeps of entries, also of those that others wrote."""
    found = []
    for entry in entries:
        own = (entry.source or {}).get(PI_MEMBER)
        rest = own if isinstance(own, dict) else {}
        found.append({**_native(entry.message), **rest})
    return found


def build_resume_request(entries: Sequence[ConversationEntry]) -> list[Record]:
    """Return the `messages` that Pi sends when it resumes there.

    In the protocol of OpenAI's Chat Completions, to another model than the one that answered so
    far: that is what the recordings show.
    """
    told = [*_closed(filter(_is_replayed, messages_of(entries)))]
    return [*_requested(told)]


def _heard(message: Record, ours: Message, time: str | None) -> ConversationEntry:
    source: Record = {"kind": PROMPT} if ours.role == "user" else {}
    rest = members_not_in(message, _native(ours))
    if rest:
        source[PI_MEMBER] = rest
    return ConversationEntry(ours, time, source or None)


def _answer(message: Record, time: str | None) -> ConversationEntry:
    ours = spoken([_part(block) for block in get_objects(message, "content")])
    source: Record = {}
    if get_text(message, "model"):
        source["model"] = get_text(message, "model")
    usage = _usage(get_object(message, "usage"))
    if usage:
        source["usage"] = usage
    rest = members_not_in(message, _native(ours))
    if rest:
        source[PI_MEMBER] = rest
    return ConversationEntry(ours, time, source or None)


def _usage(counts: Record) -> dict[str, int]:
    """Return the counts of an answer as Harken has them: the input is all of it."""
    read, stored = get_count(counts, "cacheRead") or 0, get_count(counts, "cacheWrite") or 0
    given = (get_count(counts, "input") or 0) + read + stored
    found = {
        "input_tokens": given,
        "output_tokens": get_count(counts, "output") or 0,
        "cache_read_tokens": read,
        "cache_write_tokens": stored,
    }
    return {name: tokens for name, tokens in found.items() if tokens}


def _ran(message: Record) -> str:
    """Return what the model reads of a command that the user ran."""
    output = get_text(message, "output")
    told = f"Ran `{get_text(message, 'command')}`\n"
    told += f"```\n{output}\n```" if output else "(no output)"
    code = message.get("exitCode")
    if message.get("cancelled"):
        told += "\n\n(command cancelled)"
    elif isinstance(code, int) and code:
        told += f"\n\nCommand exited with code {code}"
    path = get_text(message, "fullOutputPath")
    if message.get("truncated") and path:
        told += f"\n\n[Output truncated. Full output: {path}]"
    return told


def _content(content: object) -> Any:
    if isinstance(content, str):
        return content
    parts = [_part(block) for block in get_objects({"": content}, "")]
    return content_of([part for part in parts if not isinstance(part, ToolCall)])


def _part(block: Record) -> Part | ToolCall:
    part: Part | ToolCall
    match block:
        case {"type": "text", "text": str(said)}:
            part = TextPart(said)
        case {"type": "thinking", "thinking": str(said)}:
            part = ThinkingPart(said)
        case {"type": "image", "data": str(data), "mimeType": str(kind)}:
            part = ImagePart(kind, data)
        case {"type": "toolCall", "id": str(id_), "name": str(name)}:
            given = canonical.to_json_line(block.get("arguments") or {}).decode()
            part = ToolCall(id_, FunctionCall(name, given))
        case _:
            return UnknownPart(get_text(block, "type"), canonical.to_json_line(block).decode())
    rest = members_not_in(block, _block(part))
    return msgspec.structs.replace(part, meta={PI_MEMBER: rest}) if rest else part


def _block(part: Part | ToolCall) -> Record:
    match part:
        case TextPart():
            block: Record = {"type": "text", "text": part.text}
        case ThinkingPart():
            block = {"type": "thinking", "thinking": part.text}
        case ImagePart():
            block = {"type": "image", "data": part.data or "", "mimeType": part.media_type or ""}
        case ToolCall():
            given = part.function.arguments
            arguments = as_object(given)
            block = {"type": "toolCall", "id": part.id, "name": part.function.name}
            block["arguments"] = {"input": given} if arguments is None else arguments
        case UnknownPart():
            value = as_object(part.data)
            return value if value is not None and value.get("type") == part.kind else {}
    meta = part.meta if isinstance(part.meta, dict) else {}
    own = meta.get(PI_MEMBER)
    return {**block, **own} if isinstance(own, dict) else block


def _native(message: Message) -> Record:
    """Return a message as Pi would have it, but for what only its entry knows."""
    blocks = [block for block in map(_block, in_order(message)) if block]
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
    """Whether a message is said again: an answer that broke off is not."""
    return get_text(message, "stopReason") not in BROKEN_OFF


def _closed(messages: Iterable[Record]) -> Iterator[Record]:
    """Yield messages such that each call has a result before anybody else speaks."""
    waiting: list[Record] = []
    for message in messages:
        if message["role"] == "toolResult":
            id_ = get_text(message, "toolCallId")
            waiting = [call for call in waiting if get_text(call, "id") != id_]
        else:
            yield from map(_no_result, waiting)
            waiting = []
        if message["role"] == "assistant":
            waiting = [
                b for b in get_objects(message, "content") if get_text(b, "type") == "toolCall"
            ]
        yield message
    yield from map(_no_result, waiting)


def _no_result(call: Record) -> Record:
    told = [{"type": "text", "text": NO_RESULT}]
    id_ = get_text(call, "id")
    return {"role": "toolResult", "toolCallId": id_, "content": told, "isError": True}


def _requested(messages: Iterable[Record]) -> Iterator[Record]:
    images: list[Record] = []
    for message in messages:
        blocks = get_objects(message, "content")
        if message["role"] == "toolResult":
            said = "\n".join(get_text(b, "text") for b in blocks if get_text(b, "type") == "text")
            id_ = short_id(get_text(message, "toolCallId"))
            yield {"role": "tool", "content": _clean(said) or IMAGE_ONLY, "tool_call_id": id_}
            images += [_asked(block) for block in blocks if get_text(block, "type") == "image"]
            continue
        if images:
            yield {"role": "user", "content": [{"type": "text", "text": IMAGES}, *images]}
            images = []
        if message["role"] == "assistant":
            yield from _said(blocks)
        elif isinstance(message.get("content"), str):
            yield {"role": "user", "content": _clean(message["content"])}
        elif blocks:
            yield {"role": "user", "content": [_asked(block) for block in blocks]}
    if images:
        yield {"role": "user", "content": [{"type": "text", "text": IMAGES}, *images]}


def _asked(block: Record) -> Record:
    if get_text(block, "type") == "image":
        url = f"data:{get_text(block, 'mimeType')};base64,{get_text(block, 'data')}"
        return {"type": "image_url", "image_url": {"url": url}}
    return {"type": "text", "text": _clean(get_text(block, "text"))}


def _said(blocks: list[Record]) -> Iterator[Record]:
    """Yield an answer, if there is anything in it: to another model, thoughts are texts."""
    texts, calls = [], []
    for block in blocks:
        match get_text(block, "type"):
            case "text":
                texts.append(get_text(block, "text"))
            case "thinking" if block.get("redacted") is not True:
                texts.append(get_text(block, "thinking"))
            case "toolCall":
                given = canonical.to_json_line(_as_in_js(block.get("arguments"))).decode()
                function = {"name": get_text(block, "name"), "arguments": given}
                id_ = short_id(get_text(block, "id"))
                calls.append({"id": id_, "type": "function", "function": function})
    said = "".join(_clean(one) for one in texts if one.strip()) or None
    if said or calls:
        answer: Record = {"role": "assistant", "content": said}
        yield {**answer, "tool_calls": calls} if calls else answer


def short_id(id_: str) -> str:
    """Return the id of a call: those of OpenAI's Responses come with that of an item."""
    if "|" not in id_:
        return id_
    return re.sub(r"[^a-zA-Z0-9_-]", "_", id_.partition("|")[0])[:_ID_LENGTH]


def _clean(said: str) -> str:
    """Return a text without lone surrogates: Pi drops them."""
    return said if said.isascii() else said.encode("utf-8", "ignore").decode()


def _as_in_js(value: Any) -> Any:
    """Return a value whose numbers are written as JavaScript writes them: `1`, never `1.0`."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e21:
        return int(value)
    if isinstance(value, list):
        return [_as_in_js(item) for item in value]
    if isinstance(value, dict):
        return {name: _as_in_js(item) for name, item in value.items()}
    return value
