"""What the user of a client is shown, made of what the client says to us.

One idea: bytes come in and bytes go out, and nothing else happens. Where the user asked for events,
they are the same bytes at once; where the user asked for words, the events are read for these, as
the client itself would have said them. What is no event is passed on as it is: nothing the client
says is swallowed.

Source: what Claude Code 2.1.329 prints with `--output-format text` and `json`, compared with the
real client in tests/clients.

`LineSplitter`: bytes that come in pieces, cut into lines.
"""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from harken.capture.live.invocation import Invocation
from harken.formats.json_records import Record, get_text
from harken.formats.tool_calls import as_object


class LineSplitter:
    r"""Cuts bytes into lines, wherever the pieces end.

    >>> cut = LineSplitter()
    >>> cut.take(b"one\ntw"), cut.take(b"o\n\nthree"), cut.end()
    ([b'one'], [b'two', b''], b'three')
    """

    def __init__(self) -> None:
        """Begin at the beginning of a line."""
        self._waiting: list[bytes] = []

    def take(self, data: bytes) -> list[bytes]:
        """Take a piece; return the lines that end in it, without their ends."""
        first, *more = data.split(b"\n")
        if not more:
            self._waiting.append(data)
            return []
        lines = [b"".join([*self._waiting, first]), *more[:-1]]
        self._waiting = [more[-1]] if more[-1] else []
        return lines

    def end(self) -> bytes:
        """Return the last line, where it lacks its end; else nothing."""
        rest, self._waiting = b"".join(self._waiting), []
        return rest


_ONLY_IN_STREAM = frozenset({"model_usage_since_last_result"})
"""Members that the client adds where it writes events, and only there."""
_NO_ANSWER = "Failed to provide valid structured output after maximum retries"


class OutputFormatter(Protocol):
    """Makes what is shown."""

    def take(self, data: bytes) -> bytes:
        """Take what the client wrote; return what is shown now."""
        ...

    def end(self) -> bytes:
        """Return what is shown at the end."""
        ...


def shown_for(invocation: Invocation) -> OutputFormatter:
    """Return what makes the output that a user has asked for."""
    match invocation.output:
        case "text":
            return _Words(invocation.most_turns, invocation.most_usd)
        case "json":
            return _Json(is_list=False)
        case "jsons":
            return _Json(is_list=True)
    return _Verbatim()


class _Verbatim:
    """The same bytes."""

    def take(self, data: bytes) -> bytes:
        return data

    def end(self) -> bytes:
        return b""


class _Lines:
    """What is made of whole lines."""

    def __init__(self) -> None:
        self._cut = LineSplitter()

    def take(self, data: bytes) -> bytes:
        return b"".join(self._line(line) for line in self._cut.take(data))

    def end(self) -> bytes:
        rest = self._cut.end()
        return self._line(rest, b"") if rest else b""

    def _line(self, line: bytes, end: bytes = b"\n") -> bytes:
        """Take a line; what is no event is shown as it is."""
        is_object = line.startswith(b"{") and line.rstrip().endswith(b"}")
        is_event = is_object and b'"type"' in line
        return self._event(line) if is_event else line + end

    def _event(self, line: bytes) -> bytes:
        raise NotImplementedError


class _Words(_Lines):
    """The last words of each turn, as they come."""

    def __init__(self, most_turns: str, most_usd: str) -> None:
        super().__init__()
        self._limits = {"error_max_turns": most_turns, "error_max_budget_usd": most_usd}
        self._has_begun = False
        self._last: Record | None = None
        """The last result, where nothing of it was shown."""
        self._is_first = True
        self._is_line = True
        """Whether what was shown ends with a line."""

    def _event(self, line: bytes) -> bytes:
        if b'"result"' not in line and b'"init"' not in line:
            return b""
        record = as_object(line.decode("utf-8", "replace")) or {}
        self._has_begun = self._has_begun or get_text(record, "subtype") == "init"
        if get_text(record, "type") != "result":
            return b""
        if get_text(record, "subtype") == "success" and not get_text(record, "result").strip():
            self._last = record
            return b""
        self._last = None
        return self._turn(record)

    def end(self) -> bytes:
        rest = super().end()
        if self._last is not None and self._is_first:
            rest += self._turn(self._last)
        return rest

    def _turn(self, record: Record) -> bytes:
        words = self._words(record)
        if words is None:
            return b""
        before = "" if self._is_first else "\n" if self._is_line else "\n\n"
        self._is_first, self._is_line = False, words.endswith("\n")
        return (before + words).encode("utf-8", "replace")

    def _words(self, record: Record) -> str | None:
        """Return what the client says at the end of a turn; None: what it says as an error."""
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


class _Json(_Lines):
    """The last result, or all events in one list."""

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
            line = _without(record)
            self._result = line
        if self._is_list:
            self._events.append(line)
        return b""

    def end(self) -> bytes:
        rest = super().end()
        if self._result is None or not self._has_begun:
            return rest
        if self._is_list:
            return rest + b"[" + b",".join(self._events) + b"]\n"
        return rest + self._result + b"\n"


def _without(record: dict[str, Any]) -> bytes:
    """Return an event without what stands in it only among events."""
    kept = {name: value for name, value in record.items() if name not in _ONLY_IN_STREAM}
    return msgspec.json.encode(kept)
