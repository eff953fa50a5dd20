"""`ResponseReader`: the bytes of an answer as events, or as one value, for who puts it together.

One idea: how an answer is framed (a stream of events, a list of them, one object, an error of a
proxy in between) shows in its first byte and its status; what it says is the protocol's business.

Source: docs/formats/wire.md, "Answers".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from harken.core import canonical
from harken.formats.providers.sse import EventReader, ServerEvent
from harken.formats.wire.base import ParsedResponse

MOST_BYTES = 256 * 1024 * 1024
"""What is longer is no answer."""
_FAILED = 400
_LINE_CHARACTERS = 500
_DONE = b"[DONE]"
_SENSELESS = (ValueError, LookupError, TypeError, AttributeError, RecursionError)
"""What it may end in to put together what is no answer."""


class ResponseAssembler(Protocol):
    """Puts an answer together. What it raises is said to be its error: ValueError and such."""

    def event(self, event: Any) -> None:
        """Take the next event of a stream; the text `[DONE]` is one, too."""
        ...

    def whole(self, body: dict[str, Any]) -> None:
        """Take an answer that came at once."""
        ...

    def answered(self) -> ParsedResponse:
        """Return what has come."""
        ...


@dataclass(slots=True)
class ResponseReader:
    """Hears one answer."""

    status: int
    answer: ResponseAssembler
    _reader: EventReader | None = None
    """None: it is no stream of events, or nothing came yet."""
    _held: bytearray = field(default_factory=bytearray)
    """What came of an answer that is no stream."""
    _error: str = ""

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        if self._error:
            return
        if self._reader is not None:
            self._hear(self._reader.feed(data))
            return
        self._held += data
        if len(self._held) > MOST_BYTES:
            self._error = f"an answer of more than {MOST_BYTES} bytes"
        elif self.status < _FAILED and bytes(self._held[:64]).lstrip()[:1] not in b"{[":
            self._reader, held = EventReader(), bytes(self._held)
            self._held.clear()
            self._hear(self._reader.feed(held))

    def end(self) -> ParsedResponse:
        """Return what was heard."""
        if self._reader is not None:
            self._hear(self._reader.end())
        elif not self._error and self._held.strip():
            self._take_whole(bytes(self._held))
        try:
            answered = self.answer.answered()
        except _SENSELESS as error:
            answered = ParsedResponse(error=self._without_sense(error))
        if self.status >= _FAILED:
            told = f": {self._error}" if self._error else ""
            return replace(answered, error=f"HTTP {self.status}{told}")
        return replace(answered, pieces=(), error=self._error) if self._error else answered

    def _without_sense(self, error: Exception) -> str:
        return one_line(f"an answer without sense: {error}")

    def _hear(self, events: Iterator[ServerEvent]) -> None:
        try:
            for event in events:
                self._take(_DONE.decode() if event.data.strip() == _DONE else _value(event.data))
                if self._error:
                    return
        except _SENSELESS as error:
            self._error = self._without_sense(error)

    def _take_whole(self, data: bytes) -> None:
        try:
            value = canonical.from_json(data)
        except ValueError:
            said = one_line(data[: 4 * _LINE_CHARACTERS].decode("utf-8", "replace"))
            self._error = said if self.status >= _FAILED else f"an answer that is no JSON: {said}"
            return
        try:
            if self.status >= _FAILED or (isinstance(value, dict) and value.get("error")):
                self._error = error_line(value)
            elif isinstance(value, list):
                for event in value:
                    self._take(event)
            else:
                self.answer.whole(value)
        except _SENSELESS as error:
            self._error = self._without_sense(error)

    def _take(self, event: Any) -> None:
        failed = isinstance(event, dict) and (event.get("type") == "error" or event.get("error"))
        if failed:
            self._error = error_line(event)
        else:
            self.answer.event(event)


def error_line(value: Any) -> str:
    """Return what an error says, on one line, in the words of any provider.

    >>> error_line({"type": "error", "error": {"type": "overloaded_error", "message": "Busy"}})
    'overloaded_error: Busy'
    """
    if isinstance(value, list) and value:
        value = value[0]
    error = value.get("error") or value if isinstance(value, dict) else value
    if not isinstance(error, dict):
        return one_line(str(error))
    names = (error.get(name) for name in ("code", "status", "type"))
    kind = next((name for name in names if isinstance(name, str) and name != "error"), "")
    told = error.get("message") or error.get("detail") or ""
    if not isinstance(told, str) or not told:
        told = canonical.to_json_line(error).decode("utf-8", "replace")
    return one_line(f"{kind}: {told}" if kind else told)


def one_line(text: str) -> str:
    """Return a text on one line that is not too long."""
    line = " ".join(text[: 4 * _LINE_CHARACTERS].split())
    return line if len(line) <= _LINE_CHARACTERS else line[:_LINE_CHARACTERS] + "..."


def _value(data: bytes) -> Any:
    try:
        return canonical.from_json(data)
    except ValueError:
        raise ValueError("an event that is no JSON") from None
