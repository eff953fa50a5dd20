"""Copies of logs in a folder of sessions: verified, under a free name, and each log once.

A log is known in a folder if a log there begins with all of its lines, whatever its name is. No
existing byte is changed: a copy that the log has outgrown can be continued with its new lines.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import count
from operator import itemgetter
from pathlib import Path
from typing import BinaryIO, Literal

import msgspec
from blake3 import blake3

from harken.core.canonical import from_json
from harken.core.clock import parse_rfc3339
from harken.core.events import SessionStarted
from harken.errors import InvalidLog, LogError, LogVersionUnsupported, LogWriteError
from harken.session.log.checksum import has_more, seems_sealed
from harken.session.log.compressed import is_packed, log_path, stat_log
from harken.session.log.credential_check import check_log_credentials
from harken.session.log.disk import move_durably
from harken.session.log.reader import LogReadReport, iter_records, open_log
from harken.session.log.receive import read_log_end, receive_lines

_CHUNK_BYTES = 1 << 20
_BATCH_BYTES = 1 << 22
_MAX_STEM_CHARS = 100
_RESERVED = "latest"
"""The name that stands for the most recent session on the command line: no log may have it."""


class VerifiedLog(msgspec.Struct, frozen=True):
    """A log that was verified, up to the end of its last complete group."""

    path: Path
    stem: str
    """The name for a copy, without `.jsonl`."""
    size_bytes: int
    blake3: str
    """The hash of these bytes."""
    events: int
    ended_us: int
    """The time of its last event."""
    session_id: str
    is_sealed: bool
    is_torn: bool
    """Whether bytes follow the last complete group."""


class LogCopy(msgspec.Struct, frozen=True):
    """A log in a folder that has all lines of the copied one."""

    path: Path
    change: Literal["added", "continued", "none"]
    new_bytes: int = 0


def sanitize_stem(name: str) -> str:
    """Return the name of a log without `.jsonl`, in characters that every file system allows.

    >>> sanitize_stem("../a:b.jsonl.zst"), sanitize_stem(".jsonl")
    ('_a_b', 'session')
    """
    stem = re.sub(r"\.jsonl(\.zst|\.gz)?$", "", name).encode("utf-8", "replace").decode()
    stem = re.sub(r"[/\\\x00-\x1f\x7f<>:\"|?*]", "_", stem)
    return stem[:_MAX_STEM_CHARS].lstrip(". -") or "session"


def is_session_log(path: Path) -> bool:
    """Whether a file begins as a log, also of an older dialect or an unreleased version.

    Raises LogNotFound, InvalidLog.
    """
    try:
        first = _read_first_line(path)
    except LogVersionUnsupported:
        return True
    if first.startswith(b"{") and seems_sealed(first + b"\n"):
        return True
    try:
        data = from_json(first)
    except ValueError:
        return False
    return isinstance(data, dict) and {"event_type", "message_id"} <= data.keys()


def verify_log(path: Path) -> VerifiedLog:
    """Verify every line of a log, which may be compressed or growing.

    Raises LogNotFound, InvalidLog, LogVersionUnsupported; LogCorrupted at the first damage.
    """
    report = LogReadReport()
    events, ended_us, session_id = 0, 0, ""
    hasher = blake3()
    for event, line in iter_records(path, report):
        if isinstance(event, SessionStarted) and not events:
            session_id = event.session_id
        events += 1
        ended_us = _parse_time(event.time) or ended_us
        if report.sealed:
            hasher.update(line)
    size_bytes = report.end + report.missing_newline
    if not report.sealed:
        with open_log(path) as file:
            for chunk in _iter_chunks(file, size_bytes):
                hasher.update(chunk)
    return VerifiedLog(
        path=path,
        stem=sanitize_stem(path.name),
        size_bytes=size_bytes,
        blake3=hasher.hexdigest(),
        events=events,
        ended_us=ended_us,
        session_id=session_id,
        is_sealed=report.sealed,
        is_torn=bool(report.torn),
    )


def _parse_time(time: str) -> int:
    try:
        return parse_rfc3339(time)
    except ValueError:  # An older format of times.
        return 0


class LogFolder:
    """A folder of logs to which copies are added. Its logs are listed once."""

    def __init__(self, folder: Path, *, refuses_credentials: bool = False) -> None:
        self._folder, self._refuses_credentials = folder, refuses_credentials
        self._by_first_line: dict[bytes, list[Path]] = {}
        self._mtimes_s: list[float] = []
        files = [path for path in folder.glob("*.jsonl*") if log_path(path).suffix == ".jsonl"]
        for path in files:
            if path.is_file():
                self._mtimes_s.append(path.stat().st_mtime)
        for path in sorted(set(map(log_path, files))):
            with suppress(LogError):  # A log that cannot be read is not a copy.
                self._by_first_line.setdefault(_read_first_line(path), []).append(path)

    def add(self, log: VerifiedLog, *, can_continue: bool = False) -> LogCopy:
        """Add a log, unless a log in the folder has all of its lines.

        If its name is used, it gets a similar one. `can_continue`: append the new lines to a copy
        of an earlier state. Raises LogLocked, LogWriteError, and InvalidLog if the source has
        changed; CredentialInLog for a log with a credential in a folder that refuses them.
        """
        if self._refuses_credentials:
            check_log_credentials(log.path)
        copies = self._by_first_line.setdefault(_read_first_line(log.path), [])
        path, size_bytes = _find_copy(log, copies)
        if path is not None and size_bytes >= log.size_bytes:
            return LogCopy(path, "none")
        if path is not None and can_continue:
            mtime_s = stat_log(path).modified_ns / 1e9
            _append_new_lines(log, path, size_bytes)
            os.utime(path, (mtime_s, mtime_s))
            return LogCopy(path, "continued", log.size_bytes - size_bytes)
        path = _write_new(log, self._folder)
        _set_time(path, log, self._mtimes_s)
        copies.append(path)
        return LogCopy(path, "added", log.size_bytes)


def _read_first_line(path: Path) -> bytes:
    with open_log(path) as file:
        return file.readline(_CHUNK_BYTES).removesuffix(b"\n")


def _find_copy(log: VerifiedLog, paths: Iterable[Path]) -> tuple[Path | None, int]:
    """Find the longest log of which this one is the beginning, or the other way round.

    Return it and the size of its complete lines.
    """
    copies: list[tuple[Path | None, int]] = [(None, 0)]
    for path in paths:
        with suppress(LogError), open_log(log.path) as source, open_log(path) as file:
            size_bytes = (read_log_end if log.is_sealed else stat_log)(path).size_bytes
            if _begin_equally(source, file, min(size_bytes, log.size_bytes)):
                copies.append((path, size_bytes))
    return max(copies, key=itemgetter(1))


def _begin_equally(left: BinaryIO, right: BinaryIO, size_bytes: int) -> bool:
    chunks = zip(_iter_chunks(left, size_bytes), _iter_chunks(right, size_bytes), strict=True)
    return all(left_chunk == right_chunk for left_chunk, right_chunk in chunks)


def _iter_chunks(file: BinaryIO, size_bytes: int) -> Iterator[bytes]:
    """Yield the content of a file up to this size."""
    while size_bytes > 0 and (chunk := file.read(min(size_bytes, _CHUNK_BYTES))):
        size_bytes -= len(chunk)
        yield chunk


def _append_new_lines(log: VerifiedLog, path: Path, start: int) -> None:
    """Append the lines from an offset on to a copy. A group is never split."""
    with open_log(log.path) as source:
        source.seek(start)
        lines: list[bytes] = []
        size, offset = 0, start
        for line in source:
            if offset + size >= log.size_bytes:
                break
            line = line if line.endswith(b"\n") else line + b"\n"
            lines.append(line)
            size += len(line)
            if size >= _BATCH_BYTES and not has_more(line):
                receive_lines(path, offset, b"".join(lines))
                offset, size = offset + size, 0
                lines.clear()
        if lines:
            receive_lines(path, offset, b"".join(lines))


def _write_new(log: VerifiedLog, folder: Path) -> Path:
    """Write a new log durably and atomically, under the first free name. Return its path."""
    for number in count(2 if log.stem.casefold() == _RESERVED else 1):
        path = folder / (f"{log.stem}.jsonl" if number == 1 else f"{log.stem}-{number}.jsonl")
        if os.path.lexists(path) or is_packed(path):
            continue
        partial = path.with_name(f".{path.name}.partial")
        partial.unlink(missing_ok=True)
        try:
            _copy_bytes(log, partial)
            move_durably(partial, path)
        except FileExistsError:
            continue
        except OSError as error:
            raise LogWriteError(path, reason=error.strerror or str(error)) from None
        finally:
            partial.unlink(missing_ok=True)
        return path
    raise AssertionError  # count() does not end


def _copy_bytes(log: VerifiedLog, out: Path) -> None:
    """Copy the verified bytes. Raises InvalidLog if they have changed, OSError."""
    hasher = blake3()
    fd = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open_log(log.path) as source, os.fdopen(fd, "wb") as target:
        size_bytes, chunk = 0, b""
        for chunk in _iter_chunks(source, log.size_bytes):
            hasher.update(chunk)
            target.write(chunk)
            size_bytes += len(chunk)
        if size_bytes == log.size_bytes - 1 and not chunk.endswith(b"\n"):
            hasher.update(b"\n")  # Only the newline of the last line was missing.
            target.write(b"\n")
    if hasher.hexdigest() != log.blake3:
        raise InvalidLog(log.path, "was changed while it was copied; copy it again")


def _set_time(path: Path, log: VerifiedLog, mtimes_s: list[float]) -> None:
    """Set the file time of a log to its last event, but older than the existing logs.

    The default session to resume is the one that was written last: it must not be a copied one.
    """
    ended_s = min([log.ended_us / 1e6, *(mtime_s - 1 for mtime_s in mtimes_s)])
    os.utime(path, (ended_s, ended_s))
