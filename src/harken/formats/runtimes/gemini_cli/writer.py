"""The writer of chats that Gemini CLI resumes, for conversations of any runtime.

A message of the model holds the results of its calls. So an answer and its results are one line,
and no result is written twice: the client would send the duplicate user lines of its own files
twice.

Source: docs/formats/gemini-cli.md, "Writing".
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from uuid import UUID, uuid5

import msgspec

from harken.core import structs
from harken.core.event_types.message_parser import MESSAGE_KEY, decode_extra
from harken.core.messages import (
    Part,
    TextPart,
    ThinkingPart,
    ToolCall,
    UnknownPart,
    parts_of,
    text_of,
)
from harken.formats.base import ConversationEntry
from harken.formats.first_part import take_leftover
from harken.formats.json_records import Record, apply_members, get_count, get_object, get_text
from harken.formats.providers.gemini import (
    METADATA_KEY,
    THOUGHTS,
    TOOL_CALLS,
    build_block,
    build_call,
    build_native_block,
    build_result_parts,
    get_metadata,
    part_members,
)
from harken.formats.runtimes.base import NewSessionInfo
from harken.formats.runtimes.gemini_cli.messages import (
    ENVIRONMENT_PREFIXES,
    build_thought,
)
from harken.formats.runtimes.gemini_cli.resume_request import is_unsent
from harken.formats.runtimes.json_lines import to_line
from harken.formats.runtimes.new_session import format_milliseconds, iter_timed
from harken.formats.runtimes.normalize import normalize_entries
from harken.formats.runtimes.steps import SYSTEM
from harken.formats.runtimes.target import Block, TargetRules, has_metadata
from harken.formats.tool_calls import (
    iter_items,
    normalize_content,
    parse_json_object,
    replace_surrogates,
    sanitize_name,
)

USER = "[user]: "
"""The prefix of a user message that Gemini CLI would otherwise take for a command and not send."""
_ID_NAMESPACE = UUID("0d9a8a1e-25a4-4d1f-8b86-0a2f4c53a1d1")
"""The namespace of message ids, which are derived from the session id and the position."""
_MAX_ID_CHARS = 64
_NATIVE_KINDS = frozenset({"executableCode", "codeExecutionResult", "fileData", "inlineData"})
"""Native parts that Gemini accepts back."""


def write_session(entries: Sequence[ConversationEntry], session: NewSessionInfo) -> bytes:
    """Write a conversation as the lines of a chat."""
    fit = TargetRules(
        owns=_owns,
        accepts=_accepts,
        is_aside=_is_aside,
        has_image_urls=False,
        has_answers_in_a_row=True,
    )
    chat = _Chat(session)
    for entry, time in iter_timed(_make_sendable(normalize_entries(entries, fit)), session):
        chat.add(entry, time)
    return b"".join(map(to_line, chat.lines()))


def _owns(entry: ConversationEntry) -> bool:
    return has_metadata(entry, METADATA_KEY)


def _accepts(entry: ConversationEntry, part: Block) -> bool:
    if isinstance(part, UnknownPart):
        return (_owns(entry) or part.kind in _NATIVE_KINDS) and build_block(part) is not None
    return METADATA_KEY in (part.meta or {})


def _is_aside(entry: ConversationEntry) -> bool:
    """Whether an entry describes the environment, which Gemini CLI describes anew."""
    message, kind = entry.message, (entry.source or {}).get("kind")
    is_user = message.role == "user" and kind == SYSTEM
    return is_user and text_of(message.content).strip().startswith(ENVIRONMENT_PREFIXES)


def _make_sendable(entries: Sequence[ConversationEntry]) -> Iterator[ConversationEntry]:
    """Yield entries, with all messages for the model changed so that they are sent."""
    for index, entry in enumerate(entries):
        next_role = entries[index + 1].message.role if index + 1 < len(entries) else "assistant"
        is_read = next_role == "assistant" and not _is_aside(entry)
        message = entry.message
        if message.role == "user" and is_read and is_unsent(message):
            content = normalize_content([TextPart(USER), *parts_of(message.content)])
            if isinstance(message.content, str):
                content = USER + message.content
            message = structs.replace(message, content=content)
        yield structs.replace(entry, message=message)


class _Chat(msgspec.Struct):
    """Builds the lines of a chat."""

    session: NewSessionInfo
    messages: list[Record] = msgspec.field(default_factory=list)
    used_ids: set[str] = msgspec.field(default_factory=set)
    calls: dict[str, Record] = msgspec.field(default_factory=dict)
    """The calls of the last answer, by id."""

    def lines(self) -> list[Record]:
        """Return all lines."""
        times = [get_text(message, "timestamp") for message in self.messages]
        start_time = format_milliseconds(self.session.time)
        folder = replace_surrogates(self.session.folder).encode()
        header = {
            "sessionId": self.session.id,
            "projectHash": hashlib.sha256(folder).hexdigest(),
            "startTime": start_time,
            "lastUpdated": max(times, default=start_time),
            "kind": "main",
        }
        return [header, *self.messages]

    def add(self, entry: ConversationEntry, time: str) -> None:
        """Add a message, or a result to its call in the previous answer."""
        message = entry.message
        if message.role == "tool":
            call = self.calls.get(message.tool_call_id or "", {})
            id_ = get_text(call, "id") or None
            call["result"] = build_result_parts(message, id_, get_text(call, "name"))
            call["status"] = "error" if message.is_error else "success"
            call["timestamp"] = time
            return
        record: Record = {"id": self._choose_id(entry), "timestamp": time}
        if message.role == "assistant":
            record |= {"type": "gemini", **self._build_answer(entry, record["id"])}
        else:
            blocks = [block for part in parts_of(message.content) if (block := build_block(part))]
            record |= {"type": "user", "content": blocks}
        _, leftover = take_leftover(message)
        for name, value in get_object(leftover, MESSAGE_KEY).items():
            is_list = isinstance(value, list) and isinstance(record.get(name), list)
            record[name] = [*record[name], *value] if is_list else value
        self.messages.append(record)

    def _choose_id(self, entry: ConversationEntry) -> str:
        """Return the id of a message: its original one, if it is valid and free."""
        name = get_text(entry.source or {}, "id")
        if not name or name in self.used_ids or sanitize_name(name, _MAX_ID_CHARS) != name:
            name = str(uuid5(_ID_NAMESPACE, f"{self.session.id} {len(self.messages)}"))
        self.used_ids.add(name)
        return name

    def _build_answer(self, entry: ConversationEntry, name: str) -> Record:
        items, source = list(iter_items(entry.message)), entry.source or {}
        tool_calls = [item for item in items if isinstance(item, ToolCall)]
        calls = [_build_call(item, name) for item in tool_calls]
        self.calls = {item.id: call for item, call in zip(tool_calls, calls, strict=True)}
        answer: Record = {}
        is_plain = _is_plain_order(items)
        if is_plain:
            texts = [
                build_block(item) for item in items if isinstance(item, TextPart | UnknownPart)
            ]
            answer["content"] = texts
        else:
            answer["content"] = [_build_inline(item) for item in items]
        thinking = [item for item in items if isinstance(item, ThinkingPart)]
        if thinking and (is_plain or any(THOUGHTS in decode_extra(t.extra) for t in thinking)):
            answer[THOUGHTS] = [*map(_build_thought, thinking)]
        if calls:
            answer[TOOL_CALLS] = calls
        usage = get_object(source, "usage")
        if usage:
            answer["tokens"] = _build_tokens(usage)
        if get_text(source, "model"):
            answer["model"] = get_text(source, "model")
        return answer


def _is_plain_order(items: Sequence[Part | ToolCall]) -> bool:
    """Whether thoughts, texts and calls are in this order, and none is signed or has members."""
    ranks = [_RANKS.get(type(item), 1) for item in items]
    return ranks == sorted(ranks) and not any(
        isinstance(item, ThinkingPart | ToolCall)
        and ({*get_metadata(item.meta)} - {"unnamed"} or part_members(item.extra))
        for item in items
    )


_RANKS: dict[type, int] = {ThinkingPart: 0, ToolCall: 2}


def _build_thought(part: ThinkingPart) -> Record:
    return apply_members(build_thought(part.text), get_object(decode_extra(part.extra), THOUGHTS))


def _build_call(call: ToolCall, message: str) -> Record:
    """Return a call in the form of the message. A call that never had an id has none."""
    record = {
        "id": call.id,
        "name": call.function.name,
        "args": parse_json_object(call.function.arguments),
    }
    if get_metadata(call.meta).get("unnamed") == message:
        del record["id"]
    return apply_members(record, get_object(decode_extra(call.extra), TOOL_CALLS))


def _build_inline(item: Part | ToolCall) -> Record | None:
    if isinstance(item, ToolCall):
        return build_call(item, item.id, parse_json_object(item.function.arguments))
    return build_native_block(item) if isinstance(item, ThinkingPart) else build_block(item)


def _build_tokens(usage: Record) -> Record:
    counts = {name: get_count(usage, f"{name}_tokens") or 0 for name in ("input", "output")}
    cached = get_count(usage, "cache_read_tokens") or 0
    total = sum(counts.values())
    thoughts = min(get_count(usage, "reasoning_tokens") or 0, counts["output"])
    counts["output"] -= thoughts  # Gemini counts thoughts beside the output.
    return {**counts, "cached": cached, "thoughts": thoughts, "tool": 0, "total": total}
