"""Conversion of Gemini CLI messages to entries.

Versions wrote messages in several shapes: thoughts and calls beside the content or in it, results
in the calls or in a user message. All shapes give the same entries. A member that the client does
not declare is content: it is in the `extra` of its part or call, or below `message` in that of the
first one.

Source: docs/formats/gemini-cli.md. The client declares its members in
`packages/core/src/services/chatRecordingTypes.ts`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from harken.core import canonical, structs
from harken.core.event_types.message_parser import MESSAGE_KEY
from harken.core.messages import (
    FunctionCall,
    Message,
    Part,
    ThinkingPart,
    ToolCall,
    UnknownPart,
    text_of,
)
from harken.formats.base import ConversationEntry
from harken.formats.first_part import add_leftover
from harken.formats.json_records import (
    Record,
    changed_members,
    equal_json,
    get_count,
    get_object,
    get_objects,
    get_text,
    parse_json_text,
)
from harken.formats.providers.alternation import SYSTEM_PREFIX
from harken.formats.providers.gemini import (
    METADATA_KEY,
    THOUGHTS,
    TOOL_CALLS,
    is_response,
    parse_input_part,
    parse_part,
    parse_result,
    parse_unknown_part,
    response_content,
    with_extra,
)
from harken.formats.runtimes.gemini_cli.earlier_ids import AnsweredCalls
from harken.formats.runtimes.json_lines import normalize_time
from harken.formats.runtimes.steps import PROMPT, SYSTEM
from harken.formats.tool_calls import build_assistant_message, iter_items, normalize_content

ENVIRONMENT_PREFIXES = ("<session_context>", "<hook_context>")
"""Prefixes of user texts about the current environment, which are created anew."""
_MESSAGE_MEMBERS = frozenset({"id", "timestamp", "type", "content", "displayContent"})
"""The declared members of every message. `displayContent` is shown in place of the content."""
_ANSWER_MEMBERS = _MESSAGE_MEMBERS | {THOUGHTS, TOOL_CALLS, "tokens", "model"}
_THOUGHT_BOOKKEEPING = frozenset({"timestamp"})
_CALL_BOOKKEEPING = frozenset(
    {
        "id",
        "result",
        "status",
        "timestamp",
        "agentId",
        "displayName",
        "description",
        "resultDisplay",
        "renderOutputAsMarkdown",
    }
)
"""Declared members of a call that are no content of it: its result is a message of its own, and
the last four are for display."""
_ERROR_STATUSES = ("error", "cancelled")
_SUBJECT_PATTERN = re.compile(r"\*\*(?P<subject>[^*\n]+)\*\* (?P<description>.*)", re.DOTALL)


def entries_from_message(message: Record, answered_calls: AnsweredCalls) -> list[ConversationEntry]:
    """Return the entries of a message, oldest first: an answer, and the results of its calls."""
    time = normalize_time(message.get("timestamp"))
    match get_text(message, "type"):
        case "user":
            return _user_entries(message, time, answered_calls)
        case "gemini":
            answer = _answer_entry(message, time)
            results = _result_entries(message, time, answered_calls)
            return [answer, *results] if answer is not None else results
    return []


def _user_entries(
    message: Record, time: str | None, answered_calls: AnsweredCalls
) -> list[ConversationEntry]:
    """Return the results and the text of a user message.

    A result that repeats that of a call is left out; one that differs from it is an unknown part.
    """
    entries: list[ConversationEntry] = []
    parts: list[Part] = []
    for block in as_blocks(message.get("content")):
        if not is_response(block):
            parts.append(parse_input_part(block))
            continue
        id_, content = get_text(block["functionResponse"], "id"), response_content(block)
        if not id_ or id_ not in answered_calls:
            result = parse_result([block], id_, get_text(block["functionResponse"], "name"))
            entries.append(_build_entry(result, time, {}))
            answered_calls.add(id_, content)
        elif not answered_calls.has_response(id_, content):
            parts.append(parse_unknown_part(block))
    unknown = _unknown_members(message, _MESSAGE_MEMBERS)
    if parts or unknown:
        content = normalize_content(parts)
        user_message = _with_members(Message("user", "" if content is None else content), unknown)
        text = text_of(user_message.content).strip()
        kind = SYSTEM if text.startswith((*ENVIRONMENT_PREFIXES, SYSTEM_PREFIX)) else PROMPT
        source = {"kind": kind, **_id_source(message)}
        entries.append(_build_entry(user_message, time, source))
    return entries


def _answer_entry(message: Record, time: str | None) -> ConversationEntry | None:
    blocks = [block for block in as_blocks(message.get("content")) if block != {"text": ""}]
    items, other_thoughts = _add_thoughts(
        [*map(parse_part, blocks)], get_objects(message, THOUGHTS)
    )
    items = _add_calls(message, items)
    unknown = _unknown_members(message, _ANSWER_MEMBERS)
    for name, elements in ((THOUGHTS, other_thoughts), (TOOL_CALLS, [])):
        elements = [*elements, *_unreadable_elements(message.get(name))]
        if elements:
            unknown[name] = elements
    if not items and not unknown:
        return None
    source = _id_source(message)
    if get_text(message, "model"):
        source["model"] = get_text(message, "model")
    usage = _parse_usage(get_object(message, "tokens"))
    if usage:
        source["usage"] = usage
    return _build_entry(_with_members(build_assistant_message(items), unknown), time, source)


def _unknown_members(message: Record, known_names: frozenset[str]) -> Record:
    """Return the members of a message that the client does not declare."""
    return {n: v for n, v in message.items() if n not in known_names and v is not None}


def _unreadable_elements(value: Any) -> list[Any]:
    """Return the elements of a list of objects that are none, or the value that is no list."""
    elements = value if isinstance(value, list) else [] if value is None else [value]
    return [element for element in elements if not isinstance(element, dict)]


def _with_members(message: Message, members: Record) -> Message:
    """Return a message with members of its record in its first part."""
    return add_leftover(message, {MESSAGE_KEY: members}) if members else message


def _build_entry(message: Message, time: str | None, source: Record) -> ConversationEntry:
    """Return an entry, marked if it has parts that the writer gives to Gemini CLI alone."""
    if any(item.extra or isinstance(item, UnknownPart) for item in iter_items(message)):
        source = {**source, METADATA_KEY: {}}
    return ConversationEntry(message, time, source or None)


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


def as_blocks(content: object) -> list[Any]:
    """Return a content, which may be a text, a part or a list of both, as parts."""
    values = content if isinstance(content, list) else [] if content is None else [content]
    return [{"text": value} if isinstance(value, str) else value for value in values]


def format_thought(thought: Record) -> str:
    """Return the text of a thought."""
    subject, description = get_text(thought, "subject"), get_text(thought, "description")
    return f"**{subject}** {description}" if subject else description


def build_thought(text: str) -> Record:
    """Return the thought with a text: the inverse of `format_thought`."""
    match = _SUBJECT_PATTERN.fullmatch(text)
    return match.groupdict() if match else {"subject": "", "description": text}


def _add_thoughts(
    items: list[Part | ToolCall], thoughts: Sequence[Record]
) -> tuple[list[Part | ToolCall], list[Record]]:
    """Return the items of an answer with its thoughts, and the thoughts that are not in them.

    The content of an answer may have the thoughts, too.
    """
    inline = {i: item for i, item in enumerate(items) if isinstance(item, ThinkingPart)}
    if not inline:
        return [*map(_parse_thought, thoughts), *items], []
    unmatched: list[Record] = []
    for thought in thoughts:
        text = format_thought(thought)
        index = next((i for i, part in inline.items() if part.text == text), None)
        if index is None:
            unmatched.append(_without(thought, _THOUGHT_BOOKKEEPING))
        else:
            items[index] = with_extra(inline.pop(index), _thought_members(thought))
    return items, unmatched


def _parse_thought(thought: Record) -> ThinkingPart:
    part = ThinkingPart(format_thought(thought), {METADATA_KEY: {}})
    return with_extra(part, _thought_members(thought))


def _thought_members(thought: Record) -> Record:
    """Return the members of the `extra` of a thought that its text does not determine."""
    stated = _without(thought, _THOUGHT_BOOKKEEPING)
    changes = changed_members(build_thought(format_thought(thought)), stated)
    return {THOUGHTS: changes} if changes else {}


def _without(record: Record, names: frozenset[str]) -> Record:
    return {n: v for n, v in record.items() if n not in names and v is not None}


def _add_calls(message: Record, items: list[Part | ToolCall]) -> list[Part | ToolCall]:
    """Return the items of an answer with its calls.

    The content of an answer may have some of them. Like the client, compare them by id, or by name
    and arguments if the content has no id.
    """
    inline = {i: item for i, item in enumerate(items) if isinstance(item, ToolCall)}
    for position, record in enumerate(get_objects(message, TOOL_CALLS)):
        call, id_ = _parse_call(message, position, record), get_text(record, "id")
        index = next((i for i, item in inline.items() if _is_same_call(item, id_, call)), None)
        if index is None:
            items.append(call)
        else:
            item = inline.pop(index)
            items[index] = with_extra(item, _call_members(item, record))
    return items


def _is_same_call(inline: ToolCall, id_: str, call: ToolCall) -> bool:
    if inline.id:
        return inline.id == id_
    arguments = (parse_json_text(item.function.arguments) for item in (inline, call))
    return inline.function.name == call.function.name and equal_json(*arguments)


def _call_id(message: Record, index: int, call: Record) -> str:
    """Return the id of a call. Old versions wrote none, and pair by position."""
    return get_text(call, "id") or f"{get_text(message, 'id')}/{index}"


def _parse_call(message: Record, index: int, call: Record) -> ToolCall:
    arguments = canonical.to_json_line(call.get("args") or {}).decode()
    function = FunctionCall(get_text(call, "name"), arguments)
    tool_call = ToolCall(_call_id(message, index, call), function)
    if not get_text(call, "id"):
        unnamed_meta = {METADATA_KEY: {"unnamed": get_text(message, "id")}}
        tool_call = structs.replace(tool_call, meta=unnamed_meta)
    return with_extra(tool_call, _call_members(tool_call, call))


def _call_members(item: ToolCall, call: Record) -> Record:
    """Return the members of the `extra` of a call that its name and arguments do not determine."""
    stated = {"args": {}, **_without(call, _CALL_BOOKKEEPING)}
    arguments = parse_json_text(item.function.arguments, {})
    changes = changed_members({"name": item.function.name, "args": arguments}, stated)
    if changes is None:  # A null in other arguments than those of the content.
        changes = stated
    return {TOOL_CALLS: changes} if changes else {}


def _result_entries(
    message: Record, time: str | None, answered_calls: AnsweredCalls
) -> list[ConversationEntry]:
    """Return the results of the calls of an answer."""
    entries: list[ConversationEntry] = []
    for index, call in enumerate(get_objects(message, TOOL_CALLS)):
        blocks, call_time = _result_blocks(call.get("result")), time
        if not blocks:
            continue
        if not isinstance(call.get("result"), str):
            call_time = normalize_time(call.get("timestamp")) or time
        id_, has_failed = (
            _call_id(message, index, call),
            get_text(call, "status") in _ERROR_STATUSES,
        )
        result = parse_result(blocks, id_, get_text(call, "name"), has_failed=has_failed)
        entries.append(_build_entry(result, call_time, {}))
        response = next((block for block in blocks if is_response(block)), None)
        answered_calls.add(id_, None if response is None else response_content(response))
    return entries


def _result_blocks(result: Any) -> list[Any]:
    """Return the parts of a result, which may be a text."""
    if isinstance(result, str):
        return [{"functionResponse": {"response": {"output": result}}}]
    return as_blocks(result) if result else []
