"""Codex, running: a line of `codex exec --json` as events.

One idea: an item is told when it begins and when it has ended. A call is heard at its beginning,
its result at its end; what is told only at its end is both. All else is heard when it is whole.

The lines say less than the model sees: no prompt, no native ids, no compaction. So where Codex
keeps the session in a file, that is read, and these lines only say when.

Source: observed with 0.169.0 (docs/how-to/capture-live.md).
"""

from __future__ import annotations

from harken.capture.live.stream_event import StreamEvent, record_in, said, unknown
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
from harken.formats.runtimes.json_lines import time_of

_CALLS = frozenset(
    {"command_execution", "mcp_tool_call", "collab_tool_call", "web_search", "file_change"}
)
_NO_ARGUMENT = frozenset(
    {"id", "type", "status", "aggregated_output", "exit_code", "result", "error", "agents_states"}
    | {"server", "tool", "arguments"}
)
"""Members of a call that are no arguments of it, or stand in its name."""
_FAILED = frozenset({"failed", "declined"})


class CodexLines:
    """Reads lines; it remembers which calls have begun."""

    def __init__(self) -> None:
        """Begin with no call."""
        self._begun: set[str] = set()

    def heard(self, line: bytes) -> StreamEvent:
        """Read a line. See `harken.capture.live.stream_event.Listen`."""
        record = record_in(line)
        if record is None:
            return unknown(line)
        time = time_of(record.get("timestamp"))
        match get_text(record, "type"):
            case "thread.started":
                id_ = get_text(record, "thread_id")
                return said(SystemEvent("init", metadata={"session_id": id_}), session=id_)
            case "turn.started":
                return said(SystemEvent("turn_started"), time=time)
            case "turn.completed":
                return said(_metric(get_object(record, "usage"), "success"), time=time)
            case "turn.failed":
                error = ErrorEvent(get_text(get_object(record, "error"), "message"))
                return said(error, _metric({}, "error_during_execution"), time=time)
            case "error":
                return said(ErrorEvent(get_text(record, "message")), time=time)
            case "item.started" | "item.completed" as kind:
                found = self._item(get_object(record, "item"), is_end=kind == "item.completed")
                return unknown(line, time) if found is None else said(*found, time=time)
        return unknown(line, time)

    def _item(self, item: Record, *, is_end: bool) -> list[Payload] | None:
        """Return what an item says; None: nobody here knows it."""
        kind, id_ = get_text(item, "type"), get_text(item, "id")
        if kind in _CALLS:
            found: list[Payload] = []
            if id_ not in self._begun:
                self._begun.add(id_)
                found.append(_call(item, kind, id_))
            return [*found, _result(item, id_)] if is_end else found
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
    given = item.get("arguments")
    if not isinstance(given, dict):
        given = {key: value for key, value in item.items() if key not in _NO_ARGUMENT}
    return ToolCallEvent(id_, name, given)


def _result(item: Record, id_: str) -> ToolResultEvent:
    code = item.get("exit_code")
    error = get_text(get_object(item, "error"), "message") or get_text(item, "error")
    has_failed = get_text(item, "status") in _FAILED or bool(error) or code not in (None, 0)
    shown = get_objects(get_object(item, "result"), "content")
    texts = [get_text(item, "aggregated_output"), *(get_text(one, "text") for one in shown), error]
    told = "\n".join(filter(None, texts))
    states = get_object(item, "agents_states")
    if not told and states:
        told = canonical.to_json_line(states).decode()
    return ToolResultEvent(told or get_text(item, "status"), id_, has_failed)


def _metric(usage: Record, status: str) -> MetricEvent:
    return MetricEvent(
        input_tokens=get_count(usage, "input_tokens"),
        output_tokens=get_count(usage, "output_tokens"),
        cache_read_tokens=get_count(usage, "cached_input_tokens"),
        cache_write_tokens=get_count(usage, "cache_write_input_tokens"),
        status=status,
    )
