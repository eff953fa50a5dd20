"""Parse the output of Codex: a line of `codex exec --json` as events.

Codex reports an item when it starts and when it ends. A call is read from its start, its result
from its end. If only the end is reported, it gives both. All other items are read when they are
complete.

The lines contain less than the model sees: no prompt, no native ids, no compaction. So if Codex
keeps a session file, the messages are read from it, and these lines only give the times.

Source: observed with 0.169.0 (docs/how-to/record-claude-code-and-codex.md).
"""

from __future__ import annotations

from harken.capture.live.stream_event import (
    StreamEvent,
    parse_record,
    payload_event,
    unknown_line_event,
)
from harken.core import canonical
from harken.formats.events import (
    ErrorEvent,
    MetricEvent,
    Payload,
    ResponseEvent,
    SystemEvent,
    ThinkingEvent,
    ToolCallEvent,
    ToolResultEvent,
)
from harken.formats.json_records import Record, get_count, get_object, get_objects, get_text
from harken.formats.runtimes.json_lines import normalize_time

_CALL_TYPES = frozenset(
    {"command_execution", "mcp_tool_call", "collab_tool_call", "web_search", "file_change"}
)
_NON_ARGUMENTS = frozenset(
    {"id", "type", "status", "aggregated_output", "exit_code", "result", "error", "agents_states"}
    | {"server", "tool", "arguments"}
)
"""Members of a call that are not arguments of the tool."""
_FAILED_STATUSES = frozenset({"failed", "declined"})


class CodexLines:
    """Parse lines of Codex, and remember which calls have started."""

    def __init__(self) -> None:
        """Start without calls."""
        self._started_calls: set[str] = set()

    def parse_line(self, line: bytes) -> StreamEvent:
        """Parse a line. See `harken.capture.live.stream_event.LineParser`."""
        record = parse_record(line)
        if record is None:
            return unknown_line_event(line)
        time = normalize_time(record.get("timestamp"))
        match get_text(record, "type"):
            case "thread.started":
                id_ = get_text(record, "thread_id")
                return payload_event(SystemEvent("init", metadata={"session_id": id_}), session=id_)
            case "turn.started":
                return payload_event(SystemEvent("turn_started"), time=time)
            case "turn.completed":
                return payload_event(_metric(get_object(record, "usage"), "success"), time=time)
            case "turn.failed":
                error = ErrorEvent(get_text(get_object(record, "error"), "message"))
                return payload_event(error, _metric({}, "error_during_execution"), time=time)
            case "error":
                return payload_event(ErrorEvent(get_text(record, "message")), time=time)
            case "item.started" | "item.completed" as kind:
                payloads = self._parse_item(
                    get_object(record, "item"), is_end=kind == "item.completed"
                )
                return (
                    unknown_line_event(line, time)
                    if payloads is None
                    else payload_event(*payloads, time=time)
                )
        return unknown_line_event(line, time)

    def _parse_item(self, item: Record, *, is_end: bool) -> list[Payload] | None:
        """Return the payloads of an item. Return None if its type is unknown."""
        kind, id_ = get_text(item, "type"), get_text(item, "id")
        if kind in _CALL_TYPES:
            payloads: list[Payload] = []
            if id_ not in self._started_calls:
                self._started_calls.add(id_)
                payloads.append(_call(item, kind, id_))
            return [*payloads, _result(item, id_)] if is_end else payloads
        if not is_end:
            return []
        match kind:
            case "agent_message":
                return [ResponseEvent(get_text(item, "text"))]
            case "reasoning":
                return [ThinkingEvent(get_text(item, "text"))]
            case "error":
                return [ErrorEvent(get_text(item, "message"))]
        return None


def _call(item: Record, kind: str, id_: str) -> ToolCallEvent:
    name = ".".join(filter(None, (get_text(item, "server"), get_text(item, "tool")))) or kind
    arguments = item.get("arguments")
    if not isinstance(arguments, dict):
        arguments = {key: value for key, value in item.items() if key not in _NON_ARGUMENTS}
    return ToolCallEvent(id_, name, arguments)


def _result(item: Record, id_: str) -> ToolResultEvent:
    code = item.get("exit_code")
    error = get_text(get_object(item, "error"), "message") or get_text(item, "error")
    has_failed = (
        get_text(item, "status") in _FAILED_STATUSES or bool(error) or code not in (None, 0)
    )
    contents = get_objects(get_object(item, "result"), "content")
    texts = [
        get_text(item, "aggregated_output"),
        *(get_text(content, "text") for content in contents),
        error,
    ]
    output = "\n".join(filter(None, texts))
    states = get_object(item, "agents_states")
    if not output and states:
        output = canonical.to_json_line(states).decode()
    return ToolResultEvent(output or get_text(item, "status"), id_, has_failed)


def _metric(usage: Record, status: str) -> MetricEvent:
    return MetricEvent(
        input_tokens=get_count(usage, "input_tokens"),
        output_tokens=get_count(usage, "output_tokens"),
        cache_read_tokens=get_count(usage, "cached_input_tokens"),
        cache_write_tokens=get_count(usage, "cache_write_input_tokens"),
        status=status,
    )
