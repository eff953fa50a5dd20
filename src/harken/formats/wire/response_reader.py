"""`ResponseReader`: splits the bytes of a response into events or a complete body for an assembler.

The first byte and the status decide about the framing (a stream of events, a list of them, one
object, an error of a proxy in between); the protocol's assembler interprets the content.

Source: docs/formats/wire.md, "Responses".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import msgspec

from harken.core import canonical, structs
from harken.formats.providers.sse import EventReader, ServerEvent
from harken.formats.wire.base import ParsedResponse

MAX_RESPONSE_BYTES = 256 * 1024 * 1024
"""A longer body is not accepted as a response."""
_MIN_ERROR_STATUS = 400
_MAX_LINE_CHARS = 500
_DONE = b"[DONE]"
_ASSEMBLY_ERRORS = (ValueError, LookupError, TypeError, AttributeError, RecursionError)
"""Errors of an assembler for a malformed response."""


class ResponseAssembler(Protocol):
    """Assembles a response. Its exceptions, such as ValueError, become the response's error."""

    def add_event(self, event: Any) -> None:
        """Add the next event of a stream, including the text `[DONE]`."""
        ...

    def add_body(self, body: dict[str, Any]) -> None:
        """Add a complete response."""
        ...

    def finish(self) -> ParsedResponse:
        """Return the parsed response."""
        ...


class ResponseReader(msgspec.Struct):
    """Reads one response."""

    status: int
    assembler: ResponseAssembler
    _reader: EventReader | None = None
    """None if the response is no stream of events, or if nothing was received yet."""
    _buffer: bytearray = msgspec.field(default_factory=bytearray)
    """The received bytes of a response that is no stream."""
    _error: str = ""

    def feed(self, data: bytes) -> None:
        """Process the next bytes."""
        if self._error:
            return
        if self._reader is not None:
            self._add_events(self._reader.feed(data))
            return
        self._buffer += data
        if len(self._buffer) > MAX_RESPONSE_BYTES:
            self._error = f"an answer of more than {MAX_RESPONSE_BYTES} bytes"
        elif self.status < _MIN_ERROR_STATUS and bytes(self._buffer[:64]).lstrip()[:1] not in b"{[":
            self._reader, buffered = EventReader(), bytes(self._buffer)
            self._buffer.clear()
            self._add_events(self._reader.feed(buffered))

    def end(self) -> ParsedResponse:
        """Return the parsed response."""
        if self._reader is not None:
            self._add_events(self._reader.end())
        elif not self._error and self._buffer.strip():
            self._add_body(bytes(self._buffer))
        try:
            response = self.assembler.finish()
        except _ASSEMBLY_ERRORS as error:
            response = ParsedResponse(error=self._format_error(error))
        if self.status >= _MIN_ERROR_STATUS:
            suffix = f": {self._error}" if self._error else ""
            return structs.replace(response, error=f"HTTP {self.status}{suffix}")
        return structs.replace(response, pieces=(), error=self._error) if self._error else response

    def _format_error(self, error: Exception) -> str:
        return truncate_to_line(f"an answer without sense: {error}")

    def _add_events(self, events: Iterator[ServerEvent]) -> None:
        try:
            for event in events:
                self._add_event(
                    _DONE.decode() if event.data.strip() == _DONE else _parse_event(event.data)
                )
                if self._error:
                    return
        except _ASSEMBLY_ERRORS as error:
            self._error = self._format_error(error)

    def _add_body(self, data: bytes) -> None:
        try:
            value = canonical.from_json(data)
        except ValueError:
            line = truncate_to_line(data[: 4 * _MAX_LINE_CHARS].decode("utf-8", "replace"))
            self._error = (
                line if self.status >= _MIN_ERROR_STATUS else f"an answer that is not JSON: {line}"
            )
            return
        try:
            if self.status >= _MIN_ERROR_STATUS or (isinstance(value, dict) and value.get("error")):
                self._error = format_error(value)
            elif isinstance(value, list):
                for event in value:
                    self._add_event(event)
            else:
                self.assembler.add_body(value)
        except _ASSEMBLY_ERRORS as error:
            self._error = self._format_error(error)

    def _add_event(self, event: Any) -> None:
        is_error = isinstance(event, dict) and (event.get("type") == "error" or event.get("error"))
        if is_error:
            self._error = format_error(event)
        else:
            self.assembler.add_event(event)


def format_error(value: Any) -> str:
    """Return the message of a provider's error object, on one line.

    >>> format_error({"type": "error", "error": {"type": "overloaded_error", "message": "Busy"}})
    'overloaded_error: Busy'
    """
    if isinstance(value, list) and value:
        value = value[0]
    error = value.get("error") or value if isinstance(value, dict) else value
    if not isinstance(error, dict):
        return truncate_to_line(str(error))
    names = (error.get(name) for name in ("code", "status", "type"))
    kind = next((name for name in names if isinstance(name, str) and name != "error"), "")
    message = error.get("message") or error.get("detail") or ""
    if not isinstance(message, str) or not message:
        message = canonical.to_json_line(error).decode("utf-8", "replace")
    return truncate_to_line(f"{kind}: {message}" if kind else message)


def truncate_to_line(text: str) -> str:
    """Return a text on one line, truncated."""
    line = " ".join(text[: 4 * _MAX_LINE_CHARS].split())
    return line if len(line) <= _MAX_LINE_CHARS else line[:_MAX_LINE_CHARS] + "..."


def _parse_event(data: bytes) -> Any:
    try:
        return canonical.from_json(data)
    except ValueError:
        raise ValueError("an event that is not JSON") from None
