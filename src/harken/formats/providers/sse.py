"""Server-sent events: how both providers stream, as bytes and as events.

Source: https://html.spec.whatwg.org/multipage/server-sent-events.html ("Parsing an event stream");
a lone carriage return, which no provider sends, ends no line here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

MAX_EVENT = 64 * 1024 * 1024
"""How many bytes one event may have: what is longer is no answer, but an attack or a mistake."""


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """One event: its name, empty where it has none, and its data."""

    name: str
    data: bytes


@dataclass(slots=True)
class EventReader:
    """Puts events together from the pieces in which they arrive."""

    _begun: list[bytes] = field(default_factory=list)
    """The beginning of a line whose end is still to come, as it arrived."""
    _name: str = ""
    _data: list[bytes] = field(default_factory=list)
    _size: int = 0
    """How many bytes of an event there are so far."""

    def feed(self, piece: bytes) -> Iterator[ServerEvent]:
        """Yield the events that the next bytes complete. Raises ValueError for an endless one."""
        self._size += len(piece)
        first, *lines = piece.split(b"\n")
        self._begun.append(first)
        if lines:
            lines.insert(0, b"".join(self._begun))
            self._begun = [lines.pop()]
        for line in lines:
            line = line.removesuffix(b"\r")
            if line:
                self._take(line)
            else:
                yield from self._event()
                self._size = 0
        if self._size > MAX_EVENT:
            raise ValueError(f"an event of more than {MAX_EVENT} bytes")

    def end(self) -> Iterator[ServerEvent]:
        """Yield an event that lacks only the empty line after it. Half a line is nothing."""
        last = b"".join(self._begun).rstrip()
        if last == b"data: [DONE]":
            self._take(last)
        yield from self._event()

    def _take(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
        elif name == b"event":
            self._name = value.decode("utf-8", "replace")

    def _event(self) -> Iterator[ServerEvent]:
        name, data = self._name, b"\n".join(self._data)
        self._name = ""
        self._data.clear()
        if data:
            yield ServerEvent(name, data)
