"""Conversion between Gemini CLI messages and entries, and the contents that it sends.

Versions wrote messages in several shapes: thoughts and calls beside the content or in it, results
in the calls or in a user message. All shapes give the same entries.

Source: docs/formats/gemini-cli.md.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from harken.core import canonical
from harken.core.messages import (
    Content,
    FunctionCall,
    ImagePart,
    Message,
    Part,
    TextPart,
    ThinkingPart,
    ToolCall,
    UnknownPart,
    parts_of,
    text_of,
)
from harken.formats.base import ConversationEntry
from harken.formats.json_records import (
    Record,
    get_count,
    get_object,
    get_objects,
    get_text,
    to_safe_json,
)
from harken.formats.providers.alternation import SYSTEM_PREFIX
from harken.formats.runtimes.json_lines import normalize_time
from harken.formats.runtimes.steps import PROMPT, SYSTEM
from harken.formats.tool_calls import (
    build_assistant_message,
    iter_items,
    normalize_content,
    parse_json_object,
)

METADATA_KEY = "gemini"
INTERRUPTED = "[The previous response was interrupted before it completed.]"
ANY_SIGNATURE = "skip_thought_signature_validator"
"""The placeholder signature of a call whose thoughts Gemini CLI omits."""
ENVIRONMENT_PREFIXES = ("<session_context>", "<hook_context>")
"""Prefixes of user texts about the current environment, which are created anew."""
_UNSENT_PREFIXES = ("/", "?", *ENVIRONMENT_PREFIXES)
"""Prefixes of user texts that are no part of the conversation."""
_ERROR_STATUSES = ("error", "cancelled")


@dataclass(slots=True)
class AnsweredCalls:
    """The ids of calls with results. A later user message may repeat such a result."""

    ids: set[str] = field(default_factory=set)


def entries_from_message(message: Record, answered_calls: AnsweredCalls) -> list[ConversationEntry]:
    """Return the entries of a message, oldest first: an answer, and the results of its calls."""
    time = normalize_time(message.get("timestamp"))
    match get_text(message, "type"):
        case "user":
            return _user_entries(message, time, answered_calls)
        case "gemini":
            calls = get_objects(message, "toolCalls")
            answer = _answer_entry(message, calls, time)
            results = [
                _parse_result(message, index, call, time) for index, call in enumerate(calls)
            ]
            entries = [entry for entry in results if entry is not None]
            answered_calls.ids.update(entry.message.tool_call_id or "" for entry in entries)
            return [answer, *entries] if answer is not None else entries
    return []


def build_resume_request(entries: Sequence[ConversationEntry]) -> list[Record]:
    """Return the `contents` that Gemini CLI sends when it resumes there."""
    turns: list[Record] = []
    assigned_ids: dict[str, str] = {}
    position, previous_role = 0, ""  # The first turn describes the environment.
    for entry in entries:
        role = entry.message.role
        for turn in _iter_turns(entry, position + 1, assigned_ids):
            position += not role == previous_role == "tool"
            previous_role = role
            if turns and turns[-1]["role"] == turn["role"]:
                turns[-1]["parts"] += turn["parts"]
            else:
                turns.append(turn)
    if previous_role == "tool":
        turns.append({"role": "model", "parts": [{"text": INTERRUPTED}]})
    if turns and turns[-1]["role"] == "user" and _has_response(turns[-1]):
        _sign_calls(turns)  # The prompt is merged with results, so the last loop continues.
    for turn in turns:
        turn["parts"] = [_restore_call_id(part) for part in turn["parts"]]
    return turns


def _restore_call_id(part: Record) -> Record:
    """Restore the provider's id of a call, which the client prefixes with the tool's name.

    Of such a call or result, members that the client does not know are dropped.
    """
    for kind, payload_name in (("functionCall", "args"), ("functionResponse", "response")):
        function = get_object(part, kind)
        prefix = f"{get_text(function, 'name').strip() or 'generic_tool'}__"
        id_ = get_text(function, "id")
        if id_.startswith(prefix):
            members = {name: function[name] for name in ("name", payload_name) if name in function}
            part = {**part, kind: {**members, "id": id_.removeprefix(prefix)}}
    return part


def _has_response(turn: Record) -> bool:
    return any(map(_is_response, turn["parts"]))


def _sign_calls(turns: list[Record]) -> None:
    """Sign the first call of each answer since the last prompt without results."""
    for turn in reversed(turns):
        has_text = any(part.get("text") for part in turn["parts"])
        if turn["role"] == "user" and has_text and not _has_response(turn):
            return
        call = next((part for part in turn["parts"] if "functionCall" in part), None)
        if turn["role"] == "model" and call is not None:
            call.setdefault("thoughtSignature", ANY_SIGNATURE)


def _user_entries(
    message: Record, time: str | None, answered_calls: AnsweredCalls
) -> list[ConversationEntry]:
    blocks = _as_blocks(message.get("content"))
    responses = [get_object(block, "functionResponse") for block in blocks if _is_response(block)]
    entries = [
        _result_entry(get_text(response, "id"), get_text(response, "name"), response, (), time)
        for response in responses
        if get_text(response, "id") not in answered_calls.ids
    ]
    answered_calls.ids.update(get_text(response, "id") for response in responses)
    parts = [_parse_part(block) for block in blocks if not _is_response(block)]
    content = normalize_content([part for part in parts if not isinstance(part, ToolCall)])
    if content is not None:
        text = text_of(content).strip()
        kind = SYSTEM if text.startswith((*ENVIRONMENT_PREFIXES, SYSTEM_PREFIX)) else PROMPT
        source = {"kind": kind, **_id_source(message)}
        entries.append(ConversationEntry(Message("user", content), time, source))
    return entries


def _answer_entry(
    message: Record, calls: list[Record], time: str | None
) -> ConversationEntry | None:
    blocks = _as_blocks(message.get("content"))
    items = [_parse_part(block) for block in blocks if block.get("text") != "" or len(block) > 1]
    if not any(isinstance(part, ThinkingPart) for part in items):
        items = [*map(_parse_thought, get_objects(message, "thoughts")), *items]
    if not any(isinstance(part, ToolCall) for part in items):
        items += [_parse_call(message, index, call) for index, call in enumerate(calls)]
    if not items:
        return None
    source = _id_source(message)
    if get_text(message, "model"):
        source["model"] = get_text(message, "model")
    usage = _parse_usage(get_object(message, "tokens"))
    if usage:
        source["usage"] = usage
    return ConversationEntry(build_assistant_message(items), time, source or None)


def _id_source(message: Record) -> Record:
    return {"id": get_text(message, "id")} if get_text(message, "id") else {}


def _parse_usage(tokens: Record) -> dict[str, int]:
    """Return Harken's token counts of an answer. Thoughts are output, too."""
    counts = {
        "input_tokens": (get_count(tokens, "input") or 0) + (get_count(tokens, "tool") or 0),
        "output_tokens": (get_count(tokens, "output") or 0) + (get_count(tokens, "thoughts") or 0),
        "cache_read_tokens": get_count(tokens, "cached") or 0,
        "reasoning_tokens": get_count(tokens, "thoughts") or 0,
    }
    return {name: number for name, number in counts.items() if number}


def _as_blocks(content: object) -> list[Record]:
    """Return a content, which may be a text, a part or a list of both, as parts."""
    values = content if isinstance(content, list) else [content]
    blocks = [{"text": value} if isinstance(value, str) else value for value in values]
    return [value for value in blocks if isinstance(value, dict)]


def _is_response(block: Record) -> bool:
    return isinstance(block.get("functionResponse"), dict)


def _parse_thought(thought: Record) -> ThinkingPart:
    subject, description = get_text(thought, "subject"), get_text(thought, "description")
    return ThinkingPart(
        f"**{subject}** {description}" if subject else description, {METADATA_KEY: {}}
    )


def _parse_part(block: Record) -> Part | ToolCall:
    part: Part | ToolCall
    match block:
        case {"functionCall": {"name": str(name)}}:
            call = get_object(block, "functionCall")
            arguments = canonical.to_json_line(call.get("args") or {}).decode()
            part = ToolCall(get_text(call, "id"), FunctionCall(name, arguments))
        case {"text": str(text), "thought": thought} if thought:
            part = ThinkingPart(text, {METADATA_KEY: {}})
        case {"text": str(text)}:
            part = TextPart(text)
        case {"inlineData": {"mimeType": str(kind), "data": str(data)}} if kind[:6] == "image/":
            part = ImagePart(kind, data)
        case _:
            return UnknownPart(next(iter(block), ""), canonical.to_json_line(block).decode())
    known_names = ("text", "thought", "functionCall", "inlineData")
    remaining = {
        name: to_safe_json(value) for name, value in block.items() if name not in known_names
    }
    return msgspec.structs.replace(part, meta={METADATA_KEY: remaining}) if remaining else part


def _call_id(message: Record, index: int, call: Record) -> str:
    """Return the id of a call. Old versions wrote none, and pair by position."""
    return get_text(call, "id") or f"{get_text(message, 'id')}/{index}"


def _parse_call(message: Record, index: int, call: Record) -> ToolCall:
    arguments = canonical.to_json_line(call.get("args") or {}).decode()
    function = FunctionCall(get_text(call, "name"), arguments)
    tool_call = ToolCall(_call_id(message, index, call), function)
    unnamed_meta = {METADATA_KEY: {"unnamed": get_text(message, "id")}}
    return (
        tool_call if get_text(call, "id") else msgspec.structs.replace(tool_call, meta=unnamed_meta)
    )


def _parse_result(
    message: Record, index: int, call: Record, time: str | None
) -> ConversationEntry | None:
    """Return the result of a call. Return None if it has none."""
    result, id_, name = call.get("result"), _call_id(message, index, call), get_text(call, "name")
    if isinstance(result, str):
        response = {"response": {"output": result}}
        return _result_entry(
            id_, name, response, (), time, is_failed=get_text(call, "status") in _ERROR_STATUSES
        )
    blocks = _as_blocks(result) if result else []
    if not blocks:
        return None
    response = next((get_object(b, "functionResponse") for b in blocks if _is_response(b)), {})
    other_blocks = [block for block in blocks if not _is_response(block)]
    time = normalize_time(call.get("timestamp")) or time
    return _result_entry(
        id_,
        name,
        response,
        other_blocks,
        time,
        is_failed=get_text(call, "status") in _ERROR_STATUSES,
    )


def _result_entry(
    id_: str,
    name: str,
    response: Record,
    blocks: Iterable[Record],
    time: str | None,
    *,
    is_failed: bool = False,
) -> ConversationEntry:
    payload = get_object(response, "response")
    output = payload.get("output", payload.get("error"))
    is_plain = isinstance(output, str) and len(payload) == 1
    text = (
        output
        if isinstance(output, str)
        else canonical.to_json_line(payload).decode()
        if payload
        else ""
    )
    parts = [TextPart(text), *(_parse_part(block) for block in blocks)]
    content = normalize_content([part for part in parts if not isinstance(part, ToolCall)])
    is_error = is_failed or "error" in payload
    message = Message("tool", content, tool_call_id=id_, name=name or None, is_error=is_error)
    remaining: Record = (
        {} if is_plain and ("error" in payload) == is_error else {"response": to_safe_json(payload)}
    )
    nested = {
        n: to_safe_json(v) for n, v in response.items() if n not in ("id", "name", "response")
    }
    remaining |= nested
    return ConversationEntry(message, time, {METADATA_KEY: remaining} if remaining else None)


def _iter_turns(
    entry: ConversationEntry, position: int, assigned_ids: dict[str, str]
) -> Iterator[Record]:
    """Yield the content of an entry at the position `position`, if it is sent.

    assigned_ids: ids of calls without an id; new ones are added.
    """
    message = entry.message
    if message.role == "assistant":
        parts = _build_answer(message, position, assigned_ids)
        if parts is not None:
            yield {"role": "model", "parts": parts}
        return
    if message.role == "tool":
        id_ = message.tool_call_id or ""
        parts = build_response_parts(entry, assigned_ids.get(id_, id_), message.name or "unknown")
        yield {"role": "user", "parts": parts}
    elif not is_unsent(message):
        yield {"role": "user", "parts": _build_blocks(message.content)}


def is_unsent(message: Message) -> bool:
    """Whether a user message is not sent: it is empty, a command, or about the environment."""
    blocks = _build_blocks(message.content)
    text = "".join(get_text(block, "text") if "text" in block else "[]" for block in blocks).strip()
    return not text or text.startswith(_UNSENT_PREFIXES)


def get_metadata(meta: Any) -> Record:
    """Return Gemini's metadata of a part, a call or an entry."""
    metadata = meta.get(METADATA_KEY) if isinstance(meta, dict) else None
    return metadata if isinstance(metadata, dict) else {}


def _build_blocks(content: Content) -> list[Record]:
    return [block for part in parts_of(content) if (block := build_block(part)) is not None]


def build_block(part: Part) -> Record | None:
    """Return a part in Gemini's form. Return None if it has no such form."""
    match part:
        case TextPart():
            return {"text": part.text, **get_metadata(part.meta)}
        case ImagePart(data=str(data), media_type=kind):
            return {"inlineData": {"mimeType": kind or "", "data": data}, **get_metadata(part.meta)}
        case UnknownPart():
            value = parse_json_object(part.data)
            if value is not None and next(iter(value), "") == part.kind:
                return value
    return None


def _build_answer(
    message: Message, turn_index: int, assigned_ids: dict[str, str]
) -> list[Record] | None:
    """Return the parts of an answer without its thoughts. Return None for an empty answer."""
    parts: list[Record] = []
    has_thinking, position = False, -1
    for position, item in enumerate(iter_items(message)):
        if isinstance(item, ThinkingPart):
            has_thinking = True
        elif isinstance(item, ToolCall):
            parts.append(_build_call(item, turn_index, position, assigned_ids))
        elif (block := build_block(item)) is not None:
            parts.append(block)
    first = next((part for part in parts if "functionCall" in part), None)
    if has_thinking and first is not None:
        first.setdefault("thoughtSignature", ANY_SIGNATURE)
    return parts if position >= 0 else None


def _build_call(call: ToolCall, turn: int, part: int, assigned_ids: dict[str, str]) -> Record:
    meta = get_metadata(call.meta)
    arguments = parse_json_object(call.function.arguments)
    function = {"id": call.id, "name": call.function.name, "args": arguments or {}}
    if not isinstance(meta.get("unnamed"), str):
        return {"functionCall": function, **meta}
    name = "|".join(sorted([meta["unnamed"], str(turn), str(part)]))
    digest = hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:32]
    assigned_ids[call.id] = f"synth_{call.function.name}_{digest}"
    return {"functionCall": {**function, "id": assigned_ids[call.id]}}


def build_response_parts(entry: ConversationEntry, id_: str | None, name: str) -> list[Record]:
    """Return the parts of a result. `id_` and `name` are those of its call."""
    message = entry.message
    remaining = dict(get_metadata(entry.source))
    first, *other_parts = parts_of(message.content) or [TextPart("")]
    text = first.text if isinstance(first, TextPart) else ""
    response = remaining.pop("response", {"error" if message.is_error else "output": text})
    call_members = {"name": name} if id_ is None else {"id": id_, "name": name}
    blocks: list[Record] = [
        {"functionResponse": {**call_members, "response": response, **remaining}}
    ]
    appended = other_parts if isinstance(first, TextPart) else [first, *other_parts]
    return blocks + [block for part in appended if (block := build_block(part)) is not None]
