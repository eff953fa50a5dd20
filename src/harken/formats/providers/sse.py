"""A parser of server-sent events, the streaming format of both providers.

Source: https://html.spec.whatwg.org/multipage/server-sent-events.html ("Parsing an event stream");
a lone carriage return, which no provider sends, ends no line here.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

MAX_EVENT_BYTES = 64 * 1024 * 1024
"""The maximum size of one event in bytes. A longer event is an attack or an error."""


class ServerEvent(msgspec.Struct, frozen=True):
    """An event with its data, and its name or an empty string."""

    name: str
    data: bytes


class EventReader(msgspec.Struct):
    """Parses events from chunks of bytes."""

    _partial_line: list[bytes] = msgspec.field(default_factory=list)
    """The pieces of an incomplete line."""
    _name: str = ""
    _data: list[bytes] = msgspec.field(default_factory=list)
    _size: int = 0
    """The number of bytes of the current event."""

    def feed(self, piece: bytes) -> Iterator[ServerEvent]:
        """Yield the events that the next bytes complete.

        Raises ValueError if an event is too long.
        """
        self._size += len(piece)
        first, *lines = piece.split(b"\n")
        self._partial_line.append(first)
        if lines:
            lines.insert(0, b"".join(self._partial_line))
            self._partial_line = [lines.pop()]
        for line in lines:
            line = line.removesuffix(b"\r")
            if line:
                self._add_line(line)
            else:
                yield from self._finish_event()
                self._size = 0
        if self._size > MAX_EVENT_BYTES:
            raise ValueError(f"an event of more than {MAX_EVENT_BYTES} bytes")

    def end(self) -> Iterator[ServerEvent]:
        """Yield an event that lacks only the empty line after it. An incomplete line is dropped."""
        last = b"".join(self._partial_line).rstrip()
        if last == b"data: [DONE]":
            self._add_line(last)
        yield from self._finish_event()

    def _add_line(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
        elif name == b"event":
            self._name = value.decode("utf-8", "replace")

    def _finish_event(self) -> Iterator[ServerEvent]:
        name, data = self._name, b"\n".join(self._data)
        self._name = ""
        self._data.clear()
        if data:
            yield ServerEvent(name, data)
