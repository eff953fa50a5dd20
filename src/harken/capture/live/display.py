"""Format the output of a client for its user, from the events it writes.

A formatter takes bytes and returns bytes, without side effects. If the user asked for events, the
same bytes are returned at once. If the user asked for text or JSON, the events are converted to
what the client itself would have printed. Lines that are not events are returned unchanged.

Source: what Claude Code 2.1.329 prints with `--output-format text` and `json`, compared with the
real client in tests/clients.
"""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from harken.capture.live.invocation import Invocation
from harken.formats.json_records import Record, get_text
from harken.formats.tool_calls import parse_json_object


class LineSplitter:
    r"""Split chunks of bytes into lines.

    >>> cut = LineSplitter()
    >>> cut.feed(b"one\ntw"), cut.feed(b"o\n\nthree"), cut.end()
    ([b'one'], [b'two', b''], b'three')
    """

    def __init__(self) -> None:
        """Start at the beginning of a line."""
        self._pending: list[bytes] = []

    def feed(self, data: bytes) -> list[bytes]:
        """Add a chunk. Return the lines that end in it, without line ends."""
        first, *other_parts = data.split(b"\n")
        if not other_parts:
            self._pending.append(data)
            return []
        lines = [b"".join([*self._pending, first]), *other_parts[:-1]]
        self._pending = [other_parts[-1]] if other_parts[-1] else []
        return lines

    def end(self) -> bytes:
        """Return the last line if it has no line end, else empty bytes."""
        last_line, self._pending = b"".join(self._pending), []
        return last_line


_STREAM_ONLY_MEMBERS = frozenset({"model_usage_since_last_result"})
"""Members that the client adds only in the stream of events."""
_NO_ANSWER = "Failed to provide valid structured output after maximum retries"


class OutputFormatter(Protocol):
    """Format the output for the user."""

    def feed(self, data: bytes) -> bytes:
        """Process bytes of the client. Return the bytes to print now."""
        ...

    def end(self) -> bytes:
        """Return the bytes to print at the end."""
        ...


def make_formatter(invocation: Invocation) -> OutputFormatter:
    """Return the formatter for the output that the user asked for."""
    match invocation.output:
        case "text":
            return _TextFormatter(invocation.max_turns, invocation.max_usd)
        case "json":
            return _JsonFormatter(is_list=False)
        case "jsons":
            return _JsonFormatter(is_list=True)
    return _VerbatimFormatter()


class _VerbatimFormatter:
    """Return the bytes unchanged."""

    def feed(self, data: bytes) -> bytes:
        return data

    def end(self) -> bytes:
        return b""


class _LineFormatter:
    """The base of formatters that work on complete lines."""

    def __init__(self) -> None:
        self._splitter = LineSplitter()

    def feed(self, data: bytes) -> bytes:
        return b"".join(self._line(line) for line in self._splitter.feed(data))

    def end(self) -> bytes:
        last_line = self._splitter.end()
        return self._line(last_line, b"") if last_line else b""

    def _line(self, line: bytes, end: bytes = b"\n") -> bytes:
        """Format a line. A line that is not an event is returned unchanged."""
        is_object = line.startswith(b"{") and line.rstrip().endswith(b"}")
        is_event = is_object and b'"type"' in line
        return self._event(line) if is_event else line + end

    def _event(self, line: bytes) -> bytes:
        raise NotImplementedError


class _TextFormatter(_LineFormatter):
    """Print the result text of each turn when it is complete."""

    def __init__(self, most_turns: str, most_usd: str) -> None:
        super().__init__()
        self._limits = {"error_max_turns": most_turns, "error_max_budget_usd": most_usd}
        self._has_begun = False
        self._last: Record | None = None
        """The last result, if it was empty and not printed."""
        self._is_first = True
        self._is_line = True
        """Whether the printed output ends with a line end."""

    def _event(self, line: bytes) -> bytes:
        if b'"result"' not in line and b'"init"' not in line:
            return b""
        record = parse_json_object(line.decode("utf-8", "replace")) or {}
        self._has_begun = self._has_begun or get_text(record, "subtype") == "init"
        if get_text(record, "type") != "result":
            return b""
        if get_text(record, "subtype") == "success" and not get_text(record, "result").strip():
            self._last = record
            return b""
        self._last = None
        return self._format_turn(record)

    def end(self) -> bytes:
        output = super().end()
        if self._last is not None and self._is_first:
            output += self._format_turn(self._last)
        return output

    def _format_turn(self, record: Record) -> bytes:
        text = self._format_result(record)
        if text is None:
            return b""
        separator = "" if self._is_first else "\n" if self._is_line else "\n\n"
        self._is_first, self._is_line = False, text.endswith("\n")
        return (separator + text).encode("utf-8", "replace")

    def _format_result(self, record: Record) -> str | None:
        """Return the text that the client prints for a result. Return None for an error message."""
        subtype = get_text(record, "subtype")
        match subtype:
            case "success":
                result = get_text(record, "result")
                return result if result.endswith("\n") else f"{result}\n"
            case "error_during_execution":
                return "Execution error" if self._has_begun else None
            case "error_max_turns":
                return f"Error: Reached max turns ({self._limits[subtype]})"
            case "error_max_budget_usd":
                return f"Error: Exceeded USD budget ({self._limits[subtype]})"
        errors = record.get("errors")
        first = errors[0] if isinstance(errors, list) and errors else None
        return f"Error: {first if isinstance(first, str) else _NO_ANSWER}"


class _JsonFormatter(_LineFormatter):
    """Print the last result, or all events in one list."""

    def __init__(self, *, is_list: bool) -> None:
        super().__init__()
        self._is_list = is_list
        self._events: list[bytes] = []
        self._result: bytes | None = None
        self._has_begun = False

    def _event(self, line: bytes) -> bytes:
        self._has_begun = self._has_begun or b'"init"' in line
        try:
            record: dict[str, Any] = msgspec.json.decode(line, type=dict[str, msgspec.Raw])
        except (msgspec.DecodeError, RecursionError):
            return line + b"\n"
        if bytes(record.get("type", b"")) == b'"result"':
            line = _without_stream_members(record)
            self._result = line
        if self._is_list:
            self._events.append(line)
        return b""

    def end(self) -> bytes:
        output = super().end()
        if self._result is None or not self._has_begun:
            return output
        if self._is_list:
            return output + b"[" + b",".join(self._events) + b"]\n"
        return output + self._result + b"\n"


def _without_stream_members(record: dict[str, Any]) -> bytes:
    """Return an event without the members that occur only in the stream."""
    members = {name: value for name, value in record.items() if name not in _STREAM_ONLY_MEMBERS}
    return msgspec.json.encode(members)
