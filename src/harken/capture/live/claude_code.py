"""Parse the output of Claude Code: a line of `--output-format stream-json` as events.

A line holds an API message, mostly with one block, or the block alone as in older wrappers. Each
block becomes an event. Both camelCase and snake_case members are accepted.

Source: [S2] "Capture by Runtime"; observed with 2.1.329
(docs/how-to/record-claude-code-and-codex.md).
"""

from __future__ import annotations

from typing import Any

from harken.capture.live.stream_event import (
    StreamEvent,
    parse_record,
    payload_event,
    unknown_line_event,
)
from harken.core import canonical
from harken.formats.events import (
    MetricEvent,
    OutputEvent,
    Payload,
    PromptEvent,
    ResponseEvent,
    SystemEvent,
    ThinkingEvent,
    ToolCallEvent,
    ToolResultEvent,
)
from harken.formats.hub import format_parts
from harken.formats.json_records import Record, get_count, get_object, get_text
from harken.formats.runtimes.claude_code.records import iter_blocks
from harken.formats.runtimes.json_lines import normalize_time

_INIT_MEMBERS = ("session_id", "tools", "model", "cwd", "claude_code_version")
"""The members of the first line that are recorded. The others describe the terminal."""
_BOUNDARY_MEMBERS = ("trigger", "pre_tokens", "post_tokens")
_CALL_TYPES = frozenset({"tool_use", "server_tool_use"})
_RESULT_TYPE = "tool_result"


def parse_claude_line(line: bytes) -> StreamEvent:
    """Parse a line. See `harken.capture.live.stream_event.LineParser`."""
    record = parse_record(line)
    if record is None:
        return unknown_line_event(line)
    event = _parse_record(record, line)
    parent_call = get_text(record, "parent_tool_use_id")
    return StreamEvent(
        events=event.events,
        session=get_text(record, "session_id") or get_text(record, "sessionId"),
        agent=get_text(record, "agent_id") or parent_call,
        call=parent_call,
        uuid=get_text(record, "uuid"),
        message=event.message,
        source=event.source,
        preserved=event.preserved,
    )


def _parse_record(record: Record, line: bytes) -> StreamEvent:
    time = normalize_time(record.get("timestamp"))
    match get_text(record, "type"):
        case "system":
            return _parse_system(record, time)
        case "assistant":
            return _parse_answer(record, time)
        case "user":
            return payload_event(*_user_payloads(record), time=time)
        case "tool" if get_text(record, "subtype") == "result":
            return payload_event(_result(record), time=time)
        case "result":
            return payload_event(_metric(record), time=time)
        case "stream_event":
            return StreamEvent()  # The complete message follows on a line of its own.
    return unknown_line_event(line, time)


def _parse_system(record: Record, time: str | None) -> StreamEvent:
    subtype = get_text(record, "subtype")
    if subtype == "init":
        return payload_event(
            SystemEvent(subtype, metadata=_select_members(record, _INIT_MEMBERS)), time=time
        )
    if subtype == "compact_boundary":
        details = (
            get_object(record, "compact_metadata")
            or get_object(record, "compactMetadata")
            or get_object(record, "metadata")
            or record
        )
        details = {**details, "pre_tokens": details.get("pre_tokens", details.get("preTokens"))}
        preserved = get_object(details, "preserved_messages") or get_object(
            details, "preservedMessages"
        )
        listed_uuids = preserved.get("uuids")
        uuids = listed_uuids if isinstance(listed_uuids, list) else []
        event = SystemEvent(subtype, metadata=_select_members(details, _BOUNDARY_MEMBERS))
        return payload_event(
            event, time=time, preserved=tuple(u for u in uuids if isinstance(u, str))
        )
    metadata = {name: value for name, value in record.items() if name not in ("type", "subtype")}
    return payload_event(SystemEvent(subtype, metadata=metadata), time=time)


def _select_members(record: Record, names: tuple[str, ...]) -> Record:
    return {name: record[name] for name in names if record.get(name) is not None}


def _parse_answer(record: Record, time: str | None) -> StreamEvent:
    body = record.get("message")
    if not isinstance(body, dict):
        return payload_event(*_answer_payloads(_lone_block(record)), time=time)
    payloads = [
        payload for block in iter_blocks(body.get("content")) for payload in _answer_payloads(block)
    ]
    response_metadata = {
        name: body[name] for name in ("model", "usage") if body.get(name) is not None
    }
    return payload_event(
        *payloads, time=time, message=get_text(body, "id"), source=response_metadata or None
    )


def _lone_block(record: Record) -> Record:
    """Return the block of a line without a message. Its subtype gives the type."""
    kind = get_text(record, "subtype")
    text = get_text(record, "thinking" if kind == "thinking" else "text") or get_text(
        record, "content"
    )
    id_ = get_text(record, "id") or get_text(record, "tool_use_id")
    return {**record, "type": kind, "text": text, "thinking": text, "id": id_}


def _answer_payloads(block: Record) -> list[Payload]:
    """Return the payloads of an answer block. A block of unknown type is passed on as output."""
    kind = get_text(block, "type")
    if kind == "text":
        return [ResponseEvent(get_text(block, "text"))]
    if kind == "thinking":
        return [ThinkingEvent(get_text(block, "thinking"), get_text(block, "signature") or None)]
    if kind in _CALL_TYPES:
        return [
            ToolCallEvent(
                get_text(block, "id") or get_text(block, "tool_use_id"),
                get_text(block, "name"),
                block.get("input") or {},
                server_tool=kind == "server_tool_use",
            )
        ]
    return [OutputEvent(canonical.to_json_line(block).decode())]


def _user_payloads(record: Record) -> list[Payload]:
    """Return the payloads of a user line: each tool result, then the remaining content."""
    body = record.get("message")
    content = body.get("content") if isinstance(body, dict) else record.get("content")
    if content is None:
        content = record.get("text")
    blocks = [*iter_blocks(content)]
    payloads: list[Payload] = [
        _result(block) for block in blocks if get_text(block, "type") == _RESULT_TYPE
    ]
    other_blocks = [block for block in blocks if get_text(block, "type") != _RESULT_TYPE]
    if other_blocks or not payloads:
        payloads.append(PromptEvent(_readable(other_blocks)))
    return payloads


def _result(block: Record) -> ToolResultEvent:
    content = _readable([*iter_blocks(block.get("content"))])
    return ToolResultEvent(content, get_text(block, "tool_use_id"), block.get("is_error") is True)


def _readable(blocks: list[Record]) -> str:
    """Return the texts of blocks, with placeholders for other content."""
    return format_parts(_to_part(block) for block in blocks)


def _to_part(block: Record) -> dict[str, Any]:
    if get_text(block, "type") == "image":
        return {"type": "image", "media_type": get_text(get_object(block, "source"), "media_type")}
    text = block.get("text")
    if isinstance(text, str):
        return {"type": "text", "text": text}
    return {"type": "other", "kind": get_text(block, "type") or "block"}


def _metric(record: Record) -> MetricEvent:
    usage = get_object(record, "usage") or record
    status = get_text(record, "subtype")
    return MetricEvent(
        input_tokens=get_count(usage, "input_tokens"),
        output_tokens=get_count(usage, "output_tokens"),
        cache_read_tokens=get_count(usage, "cache_read_input_tokens"),
        cache_write_tokens=get_count(usage, "cache_creation_input_tokens"),
        cost_usd=_number(record, "total_cost_usd", "cost_usd"),
        duration_seconds=_seconds(record),
        turn_count=get_count(record, "num_turns"),
        status=status or ("error_during_execution" if record.get("is_error") is True else None),
    )


def _seconds(record: Record) -> float | None:
    duration_ms = _number(record, "duration_ms")
    return None if duration_ms is None else duration_ms / 1000


def _number(record: Record, *names: str) -> float | None:
    for name in names:
        value = record.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
    return None
