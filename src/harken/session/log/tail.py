"""`LogTail`: read the new complete groups of a log that grows.

Each line is verified and read once, so the cost is proportional to the new lines. A group is
returned when it is complete: a crash may still remove the lines of an incomplete one. The log may
be compressed, decompressed or resumed between two reads; its lines stay at their offsets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from harken.core.events import Event, decode_event
from harken.errors import InvalidLog, LogCorrupted
from harken.session.log.checksum import (
    CLOSE,
    DIGITS_AT,
    has_more,
    has_sum,
    is_valid_line,
    read_body,
    seems_sealed,
)
from harken.session.log.compressed import LogStat, stat_log
from harken.session.log.reader import check_schema, open_log


class LogTail:
    """A log that is read incrementally from its beginning. After an error it cannot be used."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.read_bytes = 0
        """The size of all groups that were read."""
        self.line_count = 0
        self._last_sum = b""
        self._stat: LogStat | None = None

    def has_changed(self) -> bool:
        """Whether the log was written since the last call. Raises LogNotFound, InvalidLog.

        The compression of a log does not change it.
        """
        try:
            stat = stat_log(self.path)
        except FileNotFoundError:
            open_log(self.path).close()  # It may have been decompressed just now.
            stat = stat_log(self.path)
        before, self._stat = self._stat, stat
        return before is None or (before.size_bytes, before.modified_ns) != (
            stat.size_bytes,
            stat.modified_ns,
        )

    def iter_groups(self) -> Iterator[list[bytes]]:
        """Yield the lines of each new complete group.

        Raises LogNotFound, InvalidLog; LogCorrupted after the groups before the damage.
        """
        with open_log(self.path) as file:
            self._check_unchanged(file)
            file.seek(self.read_bytes)
            group: list[bytes] = []
            before = self._last_sum
            for line in file:
                if not line.endswith(b"\n"):
                    break  # The line is being written, or was not completed.
                if not is_valid_line(before, line) or not has_sum(line):
                    raise self._damage_error(line, group)
                before = line[DIGITS_AT]
                group.append(line)
                if has_more(line):
                    continue
                self._last_sum = before
                self.line_count += len(group)
                self.read_bytes += sum(map(len, group))
                yield group
                group = []

    def iter_event_groups(self) -> Iterator[list[Event]]:
        """Yield the events of each new complete group.

        Raises LogVersionUnsupported, and as `iter_groups`.
        """
        for lines in self.iter_groups():
            number, byte = self.line_count - len(lines), self.read_bytes - sum(map(len, lines))
            events: list[Event] = []
            for line in lines:
                number += 1
                try:
                    events.append(decode_event(read_body(line)))
                except ValueError as error:
                    reason = f"not an event: {error}"
                    raise LogCorrupted(self.path, line=number, byte=byte, reason=reason) from None
                if number == 1:
                    check_schema(events[0], self.path)
                byte += len(line)
            yield events

    def _check_unchanged(self, file: BinaryIO) -> None:
        """Raise InvalidLog if the log was replaced since it was read, such as by a purge."""
        if not self.read_bytes:
            return
        size = len(self._last_sum + CLOSE)
        file.seek(self.read_bytes - size)
        if file.read(size) != self._last_sum + CLOSE:
            raise InvalidLog(self.path, "was replaced while it was followed")

    def _damage_error(self, line: bytes, group: Sequence[bytes]) -> LogCorrupted | InvalidLog:
        """Return the error for a line after the read lines and the lines of its group."""
        number, byte = self.line_count + len(group), self.read_bytes + sum(map(len, group))
        if not number and not seems_sealed(line):
            reason = "has no checksums: logs of older dialects cannot be followed or pushed"
            return InvalidLog(self.path, reason)
        reason = "checksum mismatch" if has_sum(line) else "no checksum"
        return LogCorrupted(self.path, line=number + 1, byte=byte, reason=reason)
