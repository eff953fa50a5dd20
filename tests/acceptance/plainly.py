"""Transcripts read plainly: small readers that share nothing with those under test.

Each returns what the model would read at the end of a file, as a flat list of items: what a role
said, a call, a result. They know of each format only what the documents say, take a whole file
into memory, and leave out what is no JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

from harken.core.messages import (
    ImagePart,
    Message,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolCallSlot,
    UnknownPart,
)

Record: TypeAlias = dict[str, Any]
Item: TypeAlias = tuple[Any, ...]
"""`(role, text)`, `("image",)`, `("call", id, name, arguments)`, `("result", id, text)`."""


def items_of(messages: Iterable[Message]) -> list[Item]:
    """Return messages as items, in their order; thoughts are left out."""
    return [item for message in messages for item in _of_message(message)]


def _of_message(message: Message) -> Iterator[Item]:
    content, calls = message.content, {call.id: call for call in message.tool_calls or ()}
    parts = [TextPart(content)] if isinstance(content, str) else content or []
    if message.role == "tool":
        texts = [part.text for part in parts if isinstance(part, TextPart)]
        yield "result", message.tool_call_id, "\n\n".join(texts)
        return
    for part in parts:
        match part:
            case TextPart():
                yield message.role, part.text
            case ImagePart():
                yield ("image",)
            case UnknownPart():
                yield "other", part.kind
            case ToolCallSlot():
                yield _called(calls.pop(part.id))
            case ThinkingPart():
                pass
    yield from map(_called, calls.values())


def _called(call: ToolCall) -> Item:
    return "call", call.id, call.function.name, _json(call.function.arguments)


def _json(text: Any) -> Any:
    """Return what a text says as JSON; what is no JSON, or no text, as it is."""
    try:
        return json.loads(text)
    except (TypeError, ValueError):
        return text


def _lines(data: bytes) -> list[Record]:
    return [record for record in map(_json, data.splitlines()) if isinstance(record, dict)]


def _blocks(content: Any) -> list[Record]:
    """Return a content as blocks."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [block for block in content or () if isinstance(block, dict)]


def _texts(content: Any) -> str:
    texts = (block["text"] for block in _blocks(content) if isinstance(block.get("text"), str))
    return "\n\n".join(texts)


def claude(data: bytes) -> list[Item]:
    """Claude Code: from the last record up; all of a response, and the results of its calls."""
    records: dict[str, Record] = {}
    above: str | None = None
    for index, record in enumerate(_lines(data)):
        uuid = record.get("uuid") or (f"line {index}" if "message" in record else None)
        if uuid is not None and uuid not in records:
            records[uuid] = {"parentUuid": above, **record}
            above = uuid
    messages = {uuid: record_ for uuid, record_ in records.items() if _is_said(record_)}
    main = {
        u: record_ for u, record_ in messages.items() if record_.get("isSidechain") is not True
    } or messages
    at_: str | None = [*main][-1] if main else None
    path: dict[str, None] = {}
    while at_ is not None and at_ not in path:
        path[at_] = None
        at_ = records.get(at_, {}).get("parentUuid")
    return [
        *_claude_items([message for uuid, message in messages.items() if uuid in path], messages)
    ]


def _is_said(record: Record) -> bool:
    if record.get("type") == "attachment":
        return record["attachment"].get("type") == "queued_command" or bool(_hook_text(record))
    if record.get("type") == "system":
        return record.get("subtype") in ("local_command", "compact_boundary")
    return record.get("type") in ("user", "assistant") and isinstance(record.get("message"), dict)


def _claude_items(path: list[Record], messages: dict[str, Record]) -> Iterator[Item]:
    responses: dict[str, list[Record]] = {}
    results: dict[str, Record] = {}
    for message in messages.values():
        if message["type"] == "assistant":
            responses.setdefault(_response(message), []).append(message)
        for block in _blocks((message.get("message") or {}).get("content")):
            if block.get("type") == "tool_result":
                results.setdefault(block["tool_use_id"], block)
    done_ids: set[str] = set()
    preserved_ids: list[str] = []
    for message in path:
        if message.get("subtype") == "compact_boundary":
            preserved = (message.get("compactMetadata") or {}).get("preservedMessages") or {}
            preserved_ids = preserved.get("uuids", [])
        elif message["type"] == "assistant":
            if _response(message) not in done_ids:
                done_ids.add(_response(message))
                yield from _answer(responses[_response(message)], results, done_ids)
        else:
            yield from _heard(message, done_ids)
        if message.get("isCompactSummary") is True:
            for uuid in preserved_ids:
                if uuid in messages:
                    repeated = messages[uuid]
                    is_answer = repeated["type"] == "assistant"
                    yield from (
                        _answer([repeated], {}, done_ids)
                        if is_answer
                        else _heard(repeated, done_ids)
                    )


def _response(record: Record) -> str:
    return str(record["message"].get("id") or record.get("uuid"))


def _answer(
    records: list[Record], results: dict[str, Record], done_ids: set[str]
) -> Iterator[Item]:
    calls = []
    for record in records:
        for block in _blocks(record["message"].get("content")):
            if block["type"] == "text":
                yield "assistant", block["text"]
            elif block["type"] == "tool_use":
                calls.append(block["id"])
                yield "call", block["id"], block["name"], block["input"]
    for id_ in sorted(calls, key=[*results].index) if set(calls) <= results.keys() else calls:
        if id_ in results:
            done_ids.add(id_)
            yield "result", id_, _texts(results[id_].get("content"))


def _heard(record: Record, done_ids: set[str]) -> Iterator[Item]:
    if record["type"] == "attachment":
        content = _hook_text(record) or record["attachment"]["prompt"]
    elif record["type"] == "system":
        content = record["content"]
    else:
        content = record["message"].get("content")
    for block in _blocks(content):
        if block["type"] == "tool_result":
            if block["tool_use_id"] not in done_ids:
                yield "result", block["tool_use_id"], _texts(block.get("content"))
        elif block["type"] == "text":
            yield "user" if _is_of_user(record) else "system", block["text"]
        else:
            yield ("image",) if block["type"] == "image" else ("other", block["type"])


def _hook_text(record: Record) -> str:
    """Return the output of a hook that the model read."""
    attachment = record.get("attachment") or {}
    content = attachment.get("content") or ""
    if attachment.get("type") == "hook_additional_context":
        return "\n".join(content)
    is_read = attachment.get("hookEvent") in ("SessionStart", "UserPromptSubmit")
    return content if attachment.get("type") == "hook_success" and is_read else ""


def _is_of_user(record: Record) -> bool:
    attachment = record.get("attachment") or {}
    if _hook_text(record):
        return False
    kind = (attachment.get("origin") or record.get("origin") or {}).get("kind")
    return attachment.get("commandMode", "prompt") == "prompt" and kind in (None, "human")


def codex(data: bytes) -> list[Item]:
    """Codex: the items since the last compaction, which says again what it keeps."""
    items: list[Item] = []
    prompts: list[Item] = []
    is_begun = False
    for record in _lines(data):
        payload = record.get("payload", record)
        kind = record.get("type")
        if kind == "session_meta" and not is_begun:
            is_begun = True
            base = (payload.get("base_instructions") or {}).get("text")
            prompts = [("system", base)] if base else []
        elif kind == "compacted":
            items = [item for entry in payload["replacement_history"] for item in _codex(entry)]
        elif kind == "response_item" or ("payload" not in record and kind in _CODEX):
            items += _codex(payload)
    return [*prompts, *items] if items else []


_CODEX = ("message", "reasoning", "function_call", "function_call_output")


def _codex(item: Record) -> Iterator[Item]:
    match item.get("type", "message"):
        case "message":
            role = {"developer": "system"}.get(item["role"], item["role"])
            yield from ((role, block["text"]) for block in _blocks(item["content"]))
        case "function_call":
            raw_arguments = item.get("arguments") or item.get("input") or "{}"
            yield "call", item["call_id"], item["name"], _json(raw_arguments)
        case "custom_tool_call":
            yield "call", item["call_id"], item["name"], _json(item["input"])
        case "tool_search_call":
            yield "call", item["call_id"], "tool_search", item["arguments"]
        case "function_call_output" | "custom_tool_call_output":
            output = item["output"]
            text = output["content"] if isinstance(output, dict) else _texts(output)
            yield "result", item["call_id"], text
        case "tool_search_output":
            yield "result", item["call_id"], ""
        case "reasoning":
            pass
        case kind:
            yield "other", kind


def copilot(data: bytes) -> list[Item]:
    """Copilot CLI: its events in their order."""
    items: list[Item] = []
    last_prompt = None
    for record in _lines(data):
        event = record.get("data") or {}
        match record.get("type"):
            case "system.message" if event["content"] != last_prompt:
                last_prompt = event["content"]
                items.append(("system", last_prompt))
            case "user.message":
                items.append(("user", event.get("transformedContent") or event["content"]))
            case "system.notification":
                items.append(("user", event["content"]))
            case "assistant.message":
                items += [("assistant", event["content"])] if event.get("content") else []
                for call in event.get("toolRequests") or ():
                    raw_arguments = _json(call.get("arguments"))
                    items.append(("call", call["toolCallId"], call["name"], raw_arguments))
            case "tool.execution_complete":
                result, error = event.get("result") or {}, event.get("error") or {}
                text = result.get("content") or result.get("text_result_for_llm")
                text = text or error.get("message") or ""
                items.append(("result", event["toolCallId"], text))
    return items


def gemini(data: bytes) -> list[Item]:
    """Gemini CLI: one document, or lines of which the last with an id counts."""
    try:
        messages = json.loads(data)["messages"]
    except ValueError:
        messages = [*{line["id"]: line for line in _lines(data) if "id" in line}.values()]
    items: list[Item] = []
    for message in messages:
        role = {"user": "user", "gemini": "assistant"}.get(message["type"])
        if role is None:
            continue
        content = message["content"]
        texts = [content] if isinstance(content, str) else [part["text"] for part in content]
        items += [(role, text) for text in texts if text]
        calls = message.get("toolCalls") or []
        for index, call in enumerate(calls):
            call.setdefault("id", f"{message['id']}/{index}")  # old ones pair by position
        items += [("call", call["id"], call["name"], call["args"]) for call in calls]
        for call in calls:
            for part in call.get("result") or ():
                output = part["functionResponse"]["response"]
                items.append(("result", call["id"], output.get("output") or output.get("error")))
    return items


def pi(data: bytes) -> list[Item]:
    """Pi: from the last entry up to the last compaction, which says what it keeps before it."""
    header, *entries = _lines(data)
    is_tree = header.get("version", 1) > 1
    by_id = {
        (entry_.get("id") if is_tree else number): entry_
        for number, entry_ in enumerate(entries, start=1)
    }
    path = [*by_id]
    if is_tree:
        id_, path = [*by_id][-1], []
        while id_ in by_id:
            path.insert(0, id_)
            id_ = by_id[id_].get("parentId")
    items: list[Item] = []
    for place, id_ in enumerate(path):
        entry = by_id[id_]
        if entry["type"] == "compaction":
            first = entry.get("firstKeptEntryId") or entry.get("firstKeptEntryIndex")
            kept_ids = path[path.index(first) : place] if first in path else []
            items = [("user", _PI_SUMMARY.format(entry["summary"]))]
            items += [item for id_ in kept_ids for item in _pi(by_id[id_])]
        else:
            items += _pi(entry)
    return items


_PI_SUMMARY = (
    "The conversation history before this point was compacted into the following summary:\n\n"
    "<summary>\n{}\n</summary>"
)


def _pi(entry: Record) -> Iterator[Item]:
    message = entry.get("message") or {}
    if entry["type"] != "message" or "role" not in message:
        return
    if message["role"] == "toolResult":
        yield "result", message["toolCallId"], _texts(message["content"])
        return
    if message["role"] == "bashExecution":
        path = message.get("truncated") and message.get("fullOutputPath")
        notice = f"\n\n[Output truncated. Full output: {path}]" if path else ""
        yield "user", f"Ran `{message['command']}`\n```\n{message['output']}\n```{notice}"
        return
    for block in _blocks(message["content"]):
        if block["type"] == "text":
            yield message["role"], block["text"]
        elif block["type"] == "toolCall":
            yield "call", block["id"], block["name"], block["arguments"]
        elif block["type"] == "image":
            yield ("image",)


READERS: dict[str, Callable[[bytes], list[Item]]] = {
    "claude-code-v1": claude,
    "codex-v1": codex,
    "copilot-cli-v1": copilot,
    "gemini-cli-v1": gemini,
    "pi-v3": pi,
}
"""Format -> its plain reader."""
