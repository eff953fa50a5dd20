"""`Cut`: bytes that come in pieces, cut into lines."""

from __future__ import annotations


class Cut:
    r"""Cuts bytes into lines, wherever the pieces end.

    >>> cut = Cut()
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
