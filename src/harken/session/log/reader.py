"""The reader of logs: it verifies checksums and decodes lines into events.

`iter_records` reads a log in one pass, with memory that does not grow with the file. The first line
decides the mode: if it has a `sum`, every line must have a valid one; otherwise it is an
older log, readable and reported as unverified. A last line without its newline is *torn*: it was
never acknowledged unless it verifies. So are the lines of a last group without its end. They are
kept apart and reported, never dropped. Any other line that does not verify is damage.

`find_mentioned_names` finds the names of commits and artifacts in a log. Named objects are
garbage-collection roots. It searches bytes, not events, so names in a damaged or older log and
in a tool's output count as well; it is better to retain too much.
"""

from __future__ import annotations

import gc
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, TypeAlias

import msgspec
from blake3 import blake3

from harken.core.canonical import from_json
from harken.core.events import SCHEMA_VERSION, Event, SessionStarted, decode_event
from harken.errors import InvalidLog, LogCorrupted, LogNotFound, LogVersionUnsupported
from harken.session.log.checksum import (
    BODY,
    CLOSE,
    DIGITS,
    DIGITS_AT,
    GROUPED_BODY,
    HEAD,
    MORE,
    MORE_AT,
    has_sum,
    is_valid_line,
    seems_sealed,
)
from harken.session.log.compressed import log_path, open_packed
from harken.session.log.dialects import Dialect, dialect_of
from harken.session.log.disk import check_file_type
from harken.session.log.version import check_release

Record: TypeAlias = tuple[Event, bytes]
"""One event and its line (with its newline), including members that this version does not know."""


class LogReadReport(msgspec.Struct):
    """The result of reading a log, complete when `records` is exhausted."""

    sealed: bool = True
    """Whether the lines have sums, all of which were verified."""
    dialect: str | None = None
    """The older dialect of the log; None for the current one."""
    last_sum: bytes = b""
    end: int = 0
    """The offset of the next line: the length of all complete lines."""
    torn: bytes = b""
    """Bytes after `end`: a line or a group that was never finished."""
    missing_newline: bool = False
    """Whether the last line verifies and only its newline is missing."""


@contextmanager
def paused_gc() -> Iterator[None]:
    """Disable the garbage collector while many events are created, none of them in a cycle."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def open_log(path: Path) -> BinaryIO:
    """Open a log for reading, plain or compressed.

    Raises LogNotFound, InvalidLog, or LogVersionUnsupported for an unreleased version.
    """
    file = _open_any_version(path)
    try:
        check_release(file, path)
    except BaseException:
        file.close()
        raise
    return file


def _open_any_version(path: Path) -> BinaryIO:
    try:
        check_file_type(path)
        file = open_packed(path) if log_path(path) != path else _open_plain_or_packed(path)
    except FileNotFoundError:
        raise LogNotFound(path) from None
    except OSError as error:
        raise InvalidLog(path, f"cannot be read: {error.strerror or error}") from None
    if file is None:
        raise LogNotFound(path)
    return file


def _open_plain_or_packed(path: Path) -> BinaryIO | None:
    """Open a plain or compressed log. Try twice, since it may be decompressed meanwhile."""
    for _ in range(2):
        with suppress(FileNotFoundError):
            return path.open("rb")
        with suppress(FileNotFoundError):
            if (file := open_packed(path)) is not None:
                return file
    return None


def iter_records(path: Path, reading: LogReadReport) -> Iterator[Record]:
    """Return the events of a log in order, with their lines.

    Raises LogNotFound, InvalidLog, LogVersionUnsupported, or LogCorrupted at the first line that
    does not verify.
    """
    file = open_log(path)
    try:
        first = file.readline()
        _check_first(first, path)
        file.seek(0)
    except BaseException:
        file.close()
        raise
    reading.sealed = seems_sealed(first)
    return (
        _iter_sealed(file, path, reading) if reading.sealed else _iter_unsealed(file, path, reading)
    )


def iter_events(path: Path, reading: LogReadReport | None = None) -> Iterator[Event]:
    """Yield the events of a log in order; errors as `records`."""
    for event, _ in iter_records(path, reading or LogReadReport()):
        yield event


def is_unstarted(path: Path) -> bool:
    """Whether a log has no event because its start was interrupted: empty, zeros, a torn line.

    Raises LogNotFound, InvalidLog.
    """
    with open_log(path) as file:
        first = file.readline()
    if not first.strip(b"\x00\n"):
        return True
    if first.endswith(b"\n"):
        return False
    try:
        from_json(first)  # It is complete except for its newline.
    except ValueError:
        return first.startswith(b"{")
    return False


def _check_first(first: bytes, path: Path) -> None:
    if not first.strip(b"\x00"):  # A file may contain zeros after a power cut.
        raise InvalidLog(path, "is empty: it has no event; start a new session")
    if not first.startswith(b"{") and first.strip():
        raise InvalidLog(path, "not a session log: the first line is not a JSON object")


def _newer_version_note(line: bytes) -> str:
    """Return a note for the error about a line with a newer schema version, else "".

    Either the version itself is damaged, or the log is newer and has another kind of checksum.
    """
    try:
        data = from_json(line)
    except ValueError:
        return ""
    version = data.get("schema_version") if isinstance(data, dict) else None
    if not isinstance(version, int) or version <= SCHEMA_VERSION:
        return ""
    return f" (the line has schema version {version}, newer than this Harken: upgrade Harken)"


def _iter_sealed(file: BinaryIO, path: Path, reading: LogReadReport) -> Iterator[Record]:
    """Read a log with sums. A group is returned when it is complete.

    This loop dominates the cost of a resume, so the sum is computed inline (as in
    `checksum.is_valid_line`) with one hasher for all lines.
    """
    before, hasher, offset = b"", blake3(), 0
    group: list[_VerifiedLine] = []
    with file:
        for number, raw in enumerate(file, 1):
            hasher.reset()
            hasher.update(before + raw[HEAD])
            last_sum, before, line = before, raw[DIGITS_AT], raw
            if hasher.hexdigest(DIGITS // 2).encode() != before or not raw.endswith(CLOSE):
                line = _classify_unverified(last_sum, raw, file, reading)
                if not line:
                    break
                if not reading.missing_newline:
                    reason = "checksum mismatch" if has_sum(raw) else "no checksum"
                    reason += _newer_version_note(raw)
                    raise LogCorrupted(path, line=number, byte=offset, reason=reason)
                before = line[DIGITS_AT]
            is_continued = line[MORE_AT] == MORE  # as in `checksum.has_more` and `read_body`
            try:
                event = decode_event(line[GROUPED_BODY if is_continued else BODY] + b"}")
            except ValueError as error:
                reason = f"not an event: {error}"
                raise LogCorrupted(path, line=number, byte=offset, reason=reason) from None
            if number == 1:
                check_schema(event, path)
            offset += len(raw)
            if is_continued:
                group.append((event, line, raw, before))
                continue
            if group:
                yield from _iter_group(group, reading)
                group.clear()
            reading.last_sum = before
            reading.end = offset
            yield event, line
    if group:
        reading.torn = b"".join([*(raw for _, _, raw, _ in group), reading.torn])
        reading.missing_newline = False
    _check_not_empty(reading, path)


_VerifiedLine: TypeAlias = tuple[Event, bytes, bytes, bytes]
"""A line of an incomplete group: its event, the line, the bytes in the file, and its checksum."""


def _iter_group(group: Iterable[_VerifiedLine], reading: LogReadReport) -> Iterator[Record]:
    for event, line, raw, checksum in group:
        reading.last_sum = checksum
        reading.end += len(raw)
        yield event, line


def _classify_unverified(
    before: bytes, raw: bytes, file: BinaryIO, reading: LogReadReport
) -> bytes:
    """Classify a line that does not verify.

    Return b"" if it is torn, the completed line if only its newline is missing, and the unchanged
    line if it is damaged.
    """
    at_end = raw[-1:] != b"\n" or not file.read(1)
    if raw[-1:] != b"\n" and is_valid_line(before, raw + b"\n"):
        reading.missing_newline = True
        return raw + b"\n"
    if raw[-1:] != b"\n" and is_valid_line(before, raw[:-1] + b"\n"):
        return raw  # A complete line with a changed newline is damage, not a torn write.
    if raw[-1:] != b"\n" or (at_end and not raw.strip(b"\x00\n")):
        reading.torn = raw
        return b""
    return raw


def _iter_unsealed(file: BinaryIO, path: Path, reading: LogReadReport) -> Iterator[Record]:
    """Read a log without sums: current members, or an older dialect. Blank lines are allowed."""
    dialect: Dialect | None = None
    offset = 0
    with file:
        for number, raw in enumerate(file, 1):
            line = raw.strip()
            if line:
                if has_sum(line):
                    reason = f"no checksum, but line {number} has one"
                    raise LogCorrupted(path, line=1, byte=0, reason=reason)
                try:
                    dialect = dialect or dialect_of(line)
                    translated = list(dialect.read(line))
                except ValueError as error:
                    if raw[-1:] != b"\n":
                        reading.torn = raw
                        break
                    raise LogCorrupted(path, line=number, byte=offset, reason=str(error)) from None
                reading.dialect = dialect.name
                for event in translated:
                    if number == 1:
                        check_schema(event, path)
                    yield event, line
            offset += len(raw)
            reading.end = offset if dialect is not None else 0
    _check_not_empty(reading, path)


def _check_not_empty(reading: LogReadReport, path: Path) -> None:
    if reading.end == 0:
        raise InvalidLog(path, "has no complete event; start a new session")


def check_schema(event: Event, path: Path) -> None:
    """Raise LogVersionUnsupported if the first event is of a newer schema version."""
    if isinstance(event, SessionStarted) and event.schema_version > SCHEMA_VERSION:
        raise LogVersionUnsupported(path, found=event.schema_version, known=SCHEMA_VERSION)


_NAME_PATTERN = re.compile(rb"(?:ctx|art)-[0-9a-f]{64}(?![0-9a-f])")


def find_mentioned_names(path: Path) -> set[str]:
    """Return the full names of commits and artifacts in a log of any version.

    Raises LogNotFound, InvalidLog.
    """
    with _open_any_version(path) as file:
        return {name.decode() for line in file for name in _NAME_PATTERN.findall(line)}
