"""Reception of logs from other machines: complete sealed lines, appended idempotently.

The position of lines is an offset in bytes from the start of the log, and the sum of each line
covers the sum of the previous one. So repeated lines are recognized, other lines at their position
are refused, and an interrupted client asks for the size and continues. Appended lines are durable
on return.

Source: docs/formats/service.md, "Logs".
"""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from typing import BinaryIO

import msgspec

from harken.core import canonical
from harken.errors import InvalidLog, LogDiverged, LogNotFound, LogWriteError
from harken.session.log.checksum import DIGITS_AT, has_more, has_sum, is_valid_line
from harken.session.log.disk import Disk
from harken.session.log.file import LogFile
from harken.session.log.reader import open_log
from harken.session.log.version import check_first_line

_LOOK_BACK_BYTES = 64 * 1024


class LogEnd(msgspec.Struct, frozen=True):
    """The end of a log: the size of its complete lines, and the sum of the last one."""

    size_bytes: int = 0
    last_sum: bytes = b""


def read_log_end(path: Path, limit_bytes: int | None = None) -> LogEnd:
    """Return the end of a log, or of its first bytes. The end of a missing log is 0.

    Raises InvalidLog.
    """
    try:
        with open_log(path) as file:
            return _read_end(file, path, limit_bytes)
    except LogNotFound:
        return LogEnd()


def read_lines(path: Path, start: int, stop: int, *, batch_bytes: int) -> bytes:
    """Return the complete lines between two offsets, about `batch_bytes`, and no split group.

    A group that is not complete before `stop` is left out. Raises LogNotFound, InvalidLog.
    """
    lines: list[bytes] = []
    complete, size = 0, start
    with open_log(path) as file:
        file.seek(start)
        for line in file:
            size += len(line)
            if size > stop or not line.endswith(b"\n"):
                break
            lines.append(line)
            if not has_more(line):
                complete = len(lines)
                if size - start >= batch_bytes:
                    break
    return b"".join(lines[:complete])


def receive_lines(path: Path, at: int, lines: bytes, *, disk: Disk | None = None) -> LogEnd:
    """Append complete lines at the offset `at` of a log. Return its new end.

    Lines that the log already has are skipped. A missing file is created, readable by its owner
    only. Raises ValueError for lines that are invalid or do not follow each other, LogDiverged if
    the log has other lines there or lines between are missing, LogLocked if another process writes
    it, InvalidLog, LogVersionUnsupported, LogWriteError; nothing was appended then.
    """
    if not lines.endswith(b"\n"):
        raise ValueError("the last line has no newline: send complete lines")
    if at:
        _check_reaches(path, at)
    else:  # No file is created for invalid lines.
        check_first_line(lines[: lines.index(b"\n") + 1], path)
        _check_lines(LogEnd(), lines)
    log = LogFile(path, disk=disk, create=True)
    with closing(log), open(log.fd, "rb", closefd=False) as file:
        end = _read_end(file, path)
        new = _new_lines(file, path, end, at, lines)
        if not new:
            return end
        last_sum = _check_lines(end, new)
        _remove_torn(log, file, end, new)
        log.append(new)
        log.sync()
        if not end.size_bytes:
            log.sync_name()
        return LogEnd(end.size_bytes + len(new), last_sum)


def _check_reaches(path: Path, offset: int) -> None:
    size = read_log_end(path).size_bytes
    if size < offset:
        raise LogDiverged(path, f"has {size} bytes: send the lines after them first")


def _new_lines(file: BinaryIO, path: Path, end: LogEnd, offset: int, lines: bytes) -> bytes:
    """Return the lines that the log does not have yet. Raises LogDiverged."""
    if offset > end.size_bytes:
        _check_reaches(path, offset)
    file.seek(offset)
    existing = file.read(min(end.size_bytes - offset, len(lines)))
    if lines[: len(existing)] != existing:
        raise LogDiverged(path, "has other lines: it is another session, or it was changed")
    return lines[len(existing) :]


def _check_lines(end: LogEnd, lines: bytes) -> bytes:
    """Check that lines continue the end of a log. Return their last sum. Raises ValueError."""
    before, offset = end.last_sum, end.size_bytes
    for line in map(_with_newline, lines.split(b"\n")[:-1]):
        if not is_valid_line(before, line) or not has_sum(line):
            raise ValueError(
                f"the line at byte {offset} does not continue the previous line: checksum mismatch"
            )
        if not isinstance(canonical.from_json(line), dict):
            raise ValueError(f"the line at byte {offset} is not an event")
        before = line[DIGITS_AT]
        offset += len(line)
    return before


def _with_newline(line: bytes) -> bytes:
    return line + b"\n"


def _remove_torn(log: LogFile, file: BinaryIO, end: LogEnd, new: bytes) -> None:
    """Remove a torn line that a crash left: it was never acknowledged, and is part of `new`.

    Any other torn bytes are moved to a sidecar file.
    """
    file.seek(end.size_bytes)
    torn = file.read()
    if not torn:
        return
    if not new.startswith(torn):
        log.set_aside(end.size_bytes, torn)
        return
    try:
        os.ftruncate(log.fd, end.size_bytes)
    except OSError as error:
        raise LogWriteError(log.path, reason=error.strerror or str(error)) from error


def _read_end(file: BinaryIO, path: Path, limit_bytes: int | None = None) -> LogEnd:
    """Return the end of the complete lines of an open log, or of its first bytes.

    Raises InvalidLog if the last line has no sum.
    """
    size = file.seek(0, os.SEEK_END)
    size = size if limit_bytes is None else min(size, limit_bytes)
    look = _LOOK_BACK_BYTES
    while True:
        begin = max(size - look, 0)
        file.seek(begin)
        tail = file.read(size - begin)
        stop = tail.rfind(b"\n") + 1
        start = tail.rfind(b"\n", 0, max(stop - 1, 0)) + 1
        if begin == 0 or (stop and start):
            break
        look *= 8
    last = tail[start:stop]
    if last and not has_sum(last):
        raise InvalidLog(path, "is a log without checksums: no line can be appended")
    return LogEnd(begin + stop, last[DIGITS_AT])
