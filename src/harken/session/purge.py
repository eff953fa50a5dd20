"""Purging of logs: remove text from a log, which stays valid and resumable.

A new log is written beside the old one and replaces it atomically. So a reader finds the old log
or the new one, also after a crash, and the sums of the new log are valid. Its last line records
that text was removed, but not the text.

Source: docs/formats/session-log.md, "content_purged".
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from harken.core import events as ev
from harken.core.clock import Clock, system_clock
from harken.core.ids import MessageId
from harken.core.messages import Message
from harken.core.secrets.removal import Replace, in_json, replace_in_bytes
from harken.errors import LogWriteError
from harken.session.fold import Resolver, fold
from harken.session.log.checksum import has_sum, read_body
from harken.session.log.file import LogFile, RealDisk, free_name
from harken.session.log.reader import iter_events, open_log
from harken.session.rewrite import LogRewriter, PartOfStructure
from harken.session.state import SessionState

__all__ = [
    "LogPlace",
    "PartOfStructure",
    "PurgeOptions",
    "check_log",
    "find_log_places",
    "purge_log",
    "write_purged_copy",
]

_CHUNK_BYTES = 1 << 20


class LogPlace(msgspec.Struct, frozen=True):
    """A line of a log that contains text to replace. `line` counts from 1."""

    line: int
    event_type: str
    """Empty if the line cannot be decoded."""
    message_id: MessageId


class PurgeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The text to remove from logs, and the members of the `content_purged` event."""

    replace: Replace
    tail: Replace | None = None
    """For the end of a torn line, which may contain truncated text; None: the same as `replace`."""
    by: str = ""
    reason: str = ""
    resolver: Resolver | None = None
    """Returns the messages of commits that agents started from, as they are after the purge."""
    clock: Clock = system_clock


def find_log_places(path: Path, replace: Replace) -> Iterator[LogPlace]:
    """Yield the lines of a log that contain text to replace, valid or damaged.

    Raises LogNotFound, InvalidLog.
    """
    with open_log(path) as file:
        for number, raw in enumerate(file, 1):
            body = read_body(raw) if has_sum(raw) else raw
            if replace_in_bytes(in_json(body, replace), replace) == body:
                continue
            event: ev.Event | None = None
            with suppress(ValueError):
                event = ev.decode_event(body)
            kind = "" if event is None else ev.event_type(event)
            yield LogPlace(number, kind, MessageId("") if event is None else event.message_id)


def check_log(path: Path, taking: PurgeOptions) -> None:
    """Check that `purge_log` can process a log. Raises PartOfStructure, InvalidLog."""
    with open_log(path) as file:
        for _ in _rewriting(taking).lines(file):
            pass


def purge_log(log: LogFile, taking: PurgeOptions) -> int:
    """Remove text from a log that this process has locked. Return the number of changed lines.

    Hashes of contexts that depend on the store are computed again even if no line contains the
    text. A torn line at the end is moved to a sidecar file without the text, as when the log is
    opened. A log without sums (of an older dialect) gets no `content_purged` line. On return
    the new log is on disk, and `log` is an unlinked file: close it. Raises
    PartOfStructure, LogWriteError, InvalidLog; the log is unchanged then.
    """
    new = log.path.with_name(f".{log.path.name}.purging")
    rewriting = _rewriting(taking)
    try:
        _write(new, _iter_chunks(log.path, rewriting, taking), log)
        _check_meaning(log.path, new, rewriting)
        if rewriting.has_changed:
            if rewriting.torn and rewriting.is_sealed:
                aside = free_name(log.path.with_name(f"{log.path.name}.torn-{rewriting.end}"))
                _write(aside, [rewriting.torn], log)
            try:
                new.replace(log.path)
                log.disk.sync_folder(log.path.parent)
            except OSError as error:
                raise LogWriteError(log.path, reason=error.strerror or str(error)) from error
    finally:
        new.unlink(missing_ok=True)
    return rewriting.places


def write_purged_copy(path: Path, out: Path, taking: PurgeOptions) -> int:
    """Write a copy of a log without some text. Return the number of changed lines.

    A log that is being written is copied up to its current end. A torn line at its end is omitted.
    Raises PartOfStructure, LogNotFound, InvalidLog; LogWriteError, also if `out` exists.
    """
    rewriting = _rewriting(taking)
    try:
        _write(out, _iter_chunks(path, rewriting, taking), None)
        _check_meaning(path, out, rewriting)
    except PartOfStructure:
        out.unlink()
        raise
    return rewriting.places


def _rewriting(taking: PurgeOptions) -> LogRewriter:
    return LogRewriter(taking.replace, taking.tail or taking.replace, taking.resolver)


def _iter_chunks(path: Path, rewriting: LogRewriter, taking: PurgeOptions) -> Iterator[bytes]:
    """Yield the new log in chunks."""
    with open_log(path) as file:
        lines: list[bytes] = []
        size = 0
        for line in rewriting.lines(file):
            lines.append(line)
            size += len(line)
            if size >= _CHUNK_BYTES:
                yield b"".join(lines)
                lines, size = [], 0
        if rewriting.places and rewriting.is_sealed:
            lines.append(rewriting.purge_line(taking.by, taking.reason, taking.clock()))
        elif not rewriting.is_sealed:
            lines.append(rewriting.torn)
        yield b"".join(lines)


def _check_meaning(old: Path, new: Path, rewriting: LogRewriter) -> None:
    """Raise PartOfStructure if the old log can be folded and the new one cannot."""
    is_sure = rewriting.is_known or not rewriting.places
    if not is_sure and _can_fold(old) and not _can_fold(new):
        raise PartOfStructure


def _can_fold(path: Path) -> bool:
    def as_many(event: ev.ContextLoaded) -> list[Message]:
        return [Message("user", "") for _ in range(event.count)]

    state = SessionState()
    try:
        for event in iter_events(path):
            fold(state, event, as_many)
    except Exception:  # noqa: BLE001 - any failure means that the log cannot be folded
        return False
    return True


def _write(path: Path, pieces: Iterable[bytes], log: LogFile | None) -> None:
    """Write a new file durably, readable by its owner only. Raises LogWriteError."""
    disk = RealDisk() if log is None else log.disk
    with suppress(FileNotFoundError):
        if log is not None:  # An earlier attempt may have left a file, or there may be a link.
            path.unlink()
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            for piece in pieces:
                if disk.write(fd, piece) != len(piece):
                    raise OSError("the disk is full")
            disk.sync(fd)
        finally:
            os.close(fd)
        disk.sync_folder(path.parent)
    except OSError as error:
        raise LogWriteError(path, reason=error.strerror or str(error)) from error
