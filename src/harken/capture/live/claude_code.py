"""Claude Code, running: a line of `--output-format stream-json` as events.

One idea: a line holds a message of the API, one block mostly, or the block alone as older wrappers
have it; either way each block is an event. Both spellings are read wherever they stand.

Source: [S2] "Capture by Runtime"; observed with 2.1.329 (docs/how-to/capture-live.md).
"""

from __future__ import annotations

from typing import Any

from harken.capture.live.stream_event import StreamEvent, record_in, said, unknown
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
from harken.formats.hub import readable
from harken.formats.json_records import Record, get_count, get_object, get_text
from harken.formats.runtimes.claude_code.records import blocks_in
from harken.formats.runtimes.json_lines import time_of

_INIT = ("session_id", "tools", "model", "cwd", "claude_code_version")
"""What is kept of the first line; the rest of it is about the terminal."""
_BOUNDARY = ("trigger", "pre_tokens", "post_tokens")
_CALLS = frozenset({"tool_use", "server_tool_use"})
_RESULT = "tool_result"


def heard(line: bytes) -> StreamEvent:
    """Read a line. See `harken.capture.live.stream_event.Listen`."""
    record = record_in(line)
    if record is None:
        return unknown(line)
    found = _heard(record, line)
    called = get_text(record, "parent_tool_use_id")
    return StreamEvent(
        events=found.events,
        session=get_text(record, "session_id") or get_text(record, "sessionId"),
        agent=get_text(record, "agent_id") or called,
        call=called,
        uuid=get_text(record, "uuid"),
        message=found.message,
        source=found.source,
        preserved=found.preserved,
    )


def _heard(record: Record, line: bytes) -> StreamEvent:
    time = time_of(record.get("timestamp"))
    match get_text(record, "type"):
        case "system":
            return _system(record, time)
        case "assistant":
            return _answer(record, time)
        case "user":
            return said(*_told(record), time=time)
        case "tool" if get_text(record, "subtype") == "result":
            return said(_result(record), time=time)
        case "result":
            return said(_metric(record), time=time)
        case "stream_event":
            return StreamEvent()  # a piece of what comes whole, too
    return unknown(line, time)


def _system(record: Record, time: str | None) -> StreamEvent:
    subtype = get_text(record, "subtype")
    if subtype == "init":
        return said(SystemEvent(subtype, metadata=_only(record, _INIT)), time=time)
    if subtype == "compact_boundary":
        about = (
            get_object(record, "compact_metadata")
            or get_object(record, "compactMetadata")
            or get_object(record, "metadata")
            or record
        )
        about = {**about, "pre_tokens": about.get("pre_tokens", about.get("preTokens"))}
        kept = get_object(about, "preserved_messages") or get_object(about, "preservedMessages")
        listed = kept.get("uuids")
        uuids = listed if isinstance(listed, list) else []
        event = SystemEvent(subtype, metadata=_only(about, _BOUNDARY))
        return said(event, time=time, preserved=tuple(u for u in uuids if isinstance(u, str)))
    rest = {name: value for name, value in record.items() if name not in ("type", "subtype")}
    return said(SystemEvent(subtype, metadata=rest), time=time)


def _only(record: Record, names: tuple[str, ...]) -> Record:
    return {name: record[name] for name in names if record.get(name) is not None}


def _answer(record: Record, time: str | None) -> StreamEvent:
    body = record.get("message")
    if not isinstance(body, dict):
        return said(*_said(_lone(record)), time=time)
    payloads = [one for block in blocks_in(body.get("content")) for one in _said(block)]
    facts = {name: body[name] for name in ("model", "usage") if body.get(name) is not None}
    return said(*payloads, time=time, message=get_text(body, "id"), source=facts or None)


def _lone(record: Record) -> Record:
    """Return a block that stands in a line without a message: its subtype says what it is."""
    kind = get_text(record, "subtype")
    given = get_text(record, "thinking" if kind == "thinking" else "text") or get_text(
        record, "content"
    )
    id_ = get_text(record, "id") or get_text(record, "tool_use_id")
    return {**record, "type": kind, "text": given, "thinking": given, "id": id_}


def _said(block: Record) -> list[Payload]:
    """Return what a block of an answer says; one that nobody knows stays as it is."""
    kind = get_text(block, "type")
    if kind == "text":
        return [ResponseEvent(get_text(block, "text"))]
    if kind == "thinking":
        return [ThinkingEvent(get_text(block, "thinking"), get_text(block, "signature") or None)]
    if kind in _CALLS:
        return [
            ToolCallEvent(
                get_text(block, "id") or get_text(block, "tool_use_id"),
                get_text(block, "name"),
                block.get("input") or {},
                server_tool=kind == "server_tool_use",
            )
        ]
    return [OutputEvent(canonical.to_json_line(block).decode())]


def _told(record: Record) -> list[Payload]:
    """Return what is said to the model: results, each by itself, and what else there is."""
    body = record.get("message")
    content = body.get("content") if isinstance(body, dict) else record.get("content")
    if content is None:
        content = record.get("text")
    blocks = [*blocks_in(content)]
    found: list[Payload] = [_result(one) for one in blocks if get_text(one, "type") == _RESULT]
    rest = [one for one in blocks if get_text(one, "type") != _RESULT]
    if rest or not found:
        found.append(PromptEvent(_readable(rest)))
    return found


def _result(block: Record) -> ToolResultEvent:
    content = _readable([*blocks_in(block.get("content"))])
    return ToolResultEvent(content, get_text(block, "tool_use_id"), block.get("is_error") is True)


def _readable(blocks: list[Record]) -> str:
    """Return the texts of blocks, and marks for what is none."""
    return readable(_pure(block) for block in blocks)


def _pure(block: Record) -> dict[str, Any]:
    if get_text(block, "type") == "image":
        return {"type": "image", "media_type": get_text(get_object(block, "source"), "media_type")}
    said_ = block.get("text")
    if isinstance(said_, str):
        return {"type": "text", "text": said_}
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
    found = _number(record, "duration_ms")
    return None if found is None else found / 1000


def _number(record: Record, *names: str) -> float | None:
    for name in names:
        value = record.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
    return None
