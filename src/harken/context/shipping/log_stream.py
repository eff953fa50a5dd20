"""A log on its way out: its whole lines, each as it may be seen elsewhere, and where it belongs.

One idea: what becomes of a line follows from the lines up to it, and from nothing that was shipped
before. So whoever begins again at the first line comes to the same bytes at the same place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from harken.core import events as ev
from harken.core.commits import CommitId
from harken.core.replace import Replace
from harken.errors import InvalidLog, LogCorrupted
from harken.session.fold import Resolver
from harken.session.log.checksum import BODY, CLOSE, DIGITS_AT, has_sum, seems_sealed, verifies
from harken.session.log.reader import open_log
from harken.session.rewrite import PartOfStructure, Rewriting

AT_ONCE_BYTES = 512 * 1024
"""So much is sent at once; a line is never cut."""
_NAMING = (b'"context_committed"', b'"context_loaded"')


@dataclass(frozen=True, slots=True)
class Lines:
    """Some lines of a log, as they are here."""

    lines: Sequence[bytes]
    committed: frozenset[CommitId]
    """The commits that they name."""
    loaded: frozenset[CommitId] = frozenset()
    """Those of them that an agent started from: what is redacted there changes a hash here."""


class LogStream:
    """A log that is read from its beginning, further each time.

    `replace` takes out what must not leave; None: all goes as it is. `resolver` gives messages of
    commits as they will be seen elsewhere. After an error it is used no more.
    """

    def __init__(self, path: Path, replace: Replace | None, resolver: Resolver) -> None:
        self.path = path
        self.read_bytes = 0
        self.count = 0
        self.there_bytes = 0
        """How long the log is as it may be seen, as far as it was read."""
        self.sum_there = ""
        """Of the last of these lines."""
        self._own_sum = b""
        self._rewriting = None if replace is None else Rewriting(replace, replace, resolver)

    def pieces(self) -> Iterator[Lines]:
        """Yield what is new: whole lines, in pieces of some size.

        Raises LogNotFound, InvalidLog; LogCorrupted after the lines before the damage.
        """
        with open_log(self.path) as file:
            self._check_same(file)
            file.seek(self.read_bytes)
            waiting: list[bytes] = []
            size = 0
            for line in file:
                if not line.endswith(b"\n"):
                    break  # half a line: it is being written, or never was
                if not verifies(self._own_sum, line) or not has_sum(line):
                    if waiting:
                        yield _named(waiting)
                    raise self._damaged(line)
                self._own_sum = line[DIGITS_AT]
                self.count += 1
                self.read_bytes += len(line)
                size += len(line)
                waiting.append(line)
                if size >= AT_ONCE_BYTES:
                    yield _named(waiting)
                    waiting, size = [], 0
            if waiting:
                yield _named(waiting)

    def seen(self, piece: Lines) -> bytes:
        """Return lines as they may be seen elsewhere: each piece once, in order.

        Raises InvalidLog where the log would be none without what must not leave.
        """
        try:
            lines = piece.lines if self._rewriting is None else self._rewriting.lines(piece.lines)
            data = b"".join(lines)
        except PartOfStructure:
            text = "a credential is part of what holds it together: --no-redact ships it as it is"
            raise InvalidLog(self.path, text) from None
        self.there_bytes += len(data)
        self.sum_there = data[DIGITS_AT].decode()
        return data

    def _check_same(self, file: BinaryIO) -> None:
        """Raise InvalidLog if the log is not the one that was read so far, such as a purged one."""
        if not self.read_bytes:
            return
        size = len(self._own_sum + CLOSE)
        file.seek(self.read_bytes - size)
        if file.read(size) != self._own_sum + CLOSE:
            raise InvalidLog(self.path, "was written anew while it was followed")

    def _damaged(self, line: bytes) -> LogCorrupted | InvalidLog:
        if not self.count and not seems_sealed(line):
            return InvalidLog(self.path, "has no sums: such older logs are not shipped")
        reason = "its sum does not fit" if has_sum(line) else "it has no sum"
        return LogCorrupted(self.path, line=self.count + 1, byte=self.read_bytes, reason=reason)


def _named(lines: list[bytes]) -> Lines:
    committed: set[CommitId] = set()
    loaded: set[CommitId] = set()
    for line in lines:
        if any(kind in line for kind in _NAMING):
            _add_named(line, committed, loaded)
    return Lines(lines, frozenset(committed), frozenset(loaded))


def _add_named(line: bytes, committed: set[CommitId], loaded: set[CommitId]) -> None:
    try:
        event = ev.decode_event(line[BODY] + b"}")
    except ValueError:
        return
    match event:
        case ev.ContextLoaded():
            loaded.add(CommitId(event.ctx))
            committed.add(CommitId(event.ctx))
        case ev.ContextCommitted():
            committed.add(CommitId(event.ctx))
        case _:
            pass
