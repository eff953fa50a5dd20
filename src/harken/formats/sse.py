"""Server-sent events: how both providers stream, as bytes and as events.

Source: https://html.spec.whatwg.org/multipage/server-sent-events.html ("Parsing an event stream");
a lone carriage return, which no provider sends, ends no line here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

MAX_LINE = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """One event: its name, empty where it has none, and its data."""

    name: str
    data: bytes


@dataclass(slots=True)
class EventReader:
    """Puts events together from the pieces in which they arrive."""

    _begun: bytes = b""
    """The beginning of a line whose end is still to come."""
    _name: str = ""
    _data: list[bytes] = field(default_factory=list)

    def feed(self, piece: bytes) -> Iterator[ServerEvent]:
        """Yield the events that the next bytes complete. Raises ValueError for an endless line."""
        *lines, self._begun = (self._begun + piece).split(b"\n")
        if len(self._begun) > MAX_LINE:
            raise ValueError(f"a line of more than {MAX_LINE} bytes")
        for line in lines:
            line = line.removesuffix(b"\r")
            if line:
                self._take(line)
            else:
                yield from self._event()

    def end(self) -> Iterator[ServerEvent]:
        """Yield an event that lacks only the empty line after it. Half a line is nothing."""
        if self._begun.rstrip() == b"data: [DONE]":
            self._take(self._begun.rstrip())
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
