"""Reading a log: whole lines, checked sums, typed events, and what is wrong with the rest.

One pass, in a size that does not grow with the file (`records`). The first line decides how a
log is read: with a `sum`, every line must have one and each must verify; without one it is an
older log, readable and reported as unverified. A last line without its newline is *torn*: it was
never acknowledged unless it verifies; it is kept apart and reported, never dropped. Anything
else that does not verify is damage.

Names of commits and artifacts that a log mentions, wherever: what is named is not collected.

One idea: the bytes are searched, not the events. So a damaged log, an older one, and a name in a
tool's output count like any other; it is better to keep too much.
"""

from __future__ import annotations

import gc
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, TypeAlias

from blake3 import blake3

from harken.core.canonical import from_json
from harken.core.events import SCHEMA_VERSION, Event, SessionStarted, decode_event
from harken.errors import InvalidLog, LogCorrupted, LogNotFound, LogVersionUnsupported
from harken.session.log.checksum import (
    BODY,
    CLOSE,
    DIGITS,
    DIGITS_AT,
    HEAD,
    has_sum,
    seems_sealed,
    verifies,
)
from harken.session.log.compressed import log_of, open_packed
from harken.session.log.dialects import Dialect, dialect_of

Record: TypeAlias = tuple[Event, bytes]
"""One event and its line (with its newline), with all that this version does not know."""


@dataclass(slots=True)
class LogReadReport:
    """How a log was read; filled in by the time `records` is exhausted."""

    sealed: bool = True
    """Whether the lines carry sums, all of which verified."""
    dialect: str | None = None
    """The older dialect that it is written in; None for the current one."""
    last_sum: bytes = b""
    end: int = 0
    """Where the next line belongs: the length of all whole lines."""
    torn: bytes = b""
    """Bytes after `end`: a line that was never finished."""
    missing_newline: bool = False
    """The last line verifies, only its newline is missing."""


@contextmanager
def paused_gc() -> Iterator[None]:
    """Keep the cycle collector still while a million events are made, none of them in a cycle."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def open_log(path: Path) -> BinaryIO:
    """Open a log for reading, plain or packed. Raises LogNotFound or InvalidLog with what to do."""
    try:
        if path.is_dir():
            raise InvalidLog(path, "is a folder; name a session log (a .jsonl file)")
        file = open_packed(path) if log_of(path) != path else _plain_or_packed(path)
    except FileNotFoundError:
        raise LogNotFound(path) from None
    except OSError as error:
        raise InvalidLog(path, f"cannot be read: {error.strerror or error}") from None
    if file is None:
        raise LogNotFound(path)
    return file


def _plain_or_packed(path: Path) -> BinaryIO | None:
    """Open a log; twice, since it may be unpacked just between two looks."""
    for _ in range(2):
        with suppress(FileNotFoundError):
            return path.open("rb")
        with suppress(FileNotFoundError):
            if (packed := open_packed(path)) is not None:
                return packed
    return None


def records(path: Path, reading: LogReadReport) -> Iterator[Record]:
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
    return _sealed(file, path, reading) if reading.sealed else _plain(file, path, reading)


def events(path: Path, reading: LogReadReport | None = None) -> Iterator[Event]:
    """Yield the events of a log in order; errors as `records`."""
    for event, _ in records(path, reading or LogReadReport()):
        yield event


def is_unstarted(path: Path) -> bool:
    """Whether a log holds no event because its start was cut off: no byte, zeros, half a line.

    Raises LogNotFound, InvalidLog.
    """
    with open_log(path) as file:
        first = file.readline()
    if not first.strip(b"\x00\n"):
        return True
    if first.endswith(b"\n"):
        return False
    try:
        from_json(first)  # only its newline is missing
    except ValueError:
        return first.startswith(b"{")
    return False


def _check_first(first: bytes, path: Path) -> None:
    if not first.strip(b"\x00"):  # after a power cut, a file may hold zeros
        raise InvalidLog(path, "is empty: nothing was recorded in it; start a new session")
    if not first.startswith(b"{") and first.strip():
        raise InvalidLog(path, "is no session log: its first line is no JSON object")


def _if_newer(line: bytes) -> str:
    """Return what to add where a line that does not verify speaks of a newer schema.

    Its version may be what was changed; or it is newer indeed, and has another sum.
    """
    try:
        data = from_json(line)
    except ValueError:
        return ""
    found = data.get("schema_version") if isinstance(data, dict) else None
    if not isinstance(found, int) or found <= SCHEMA_VERSION:
        return ""
    return f" (it says schema version {found}, newer than this Harken: if so, upgrade Harken)"


def _sealed(file: BinaryIO, path: Path, reading: LogReadReport) -> Iterator[Record]:
    """Read a log with sums.

    This loop is the cost of every resume: the sum is worked out in place (as `line.verifies`
    does) with one hasher for all lines, and nothing is called twice.
    """
    before, hasher = b"", blake3()
    with file:
        for number, raw in enumerate(file, 1):
            hasher.reset()
            hasher.update(before + raw[HEAD])
            before, line = raw[DIGITS_AT], raw
            if hasher.hexdigest(DIGITS // 2).encode() != before or not raw.endswith(CLOSE):
                line = _mend(reading.last_sum, raw, file, reading)
                if not line:
                    break
                if not reading.missing_newline:
                    reason = "its sum does not fit" if has_sum(raw) else "it has no sum"
                    reason += _if_newer(raw)
                    raise LogCorrupted(path, line=number, byte=reading.end, reason=reason)
                before = line[DIGITS_AT]
            try:
                event = decode_event(line[BODY] + b"}")
            except ValueError as error:
                reason = f"not an event: {error}"
                raise LogCorrupted(path, line=number, byte=reading.end, reason=reason) from None
            if number == 1:
                _check_schema(event, path)
            reading.last_sum = before
            reading.end += len(raw)
            yield event, line
    _check_any(reading, path)


def _mend(before: bytes, raw: bytes, file: BinaryIO, reading: LogReadReport) -> bytes:
    """Judge a line that does not verify.

    Returns nothing where it is torn, the whole line where only its newline is missing, and the
    line as it is where it is damaged.
    """
    at_end = raw[-1:] != b"\n" or not file.read(1)
    if raw[-1:] != b"\n" and verifies(before, raw + b"\n"):
        reading.missing_newline = True
        return raw + b"\n"
    if raw[-1:] != b"\n" and verifies(before, raw[:-1] + b"\n"):
        return raw  # a whole line whose newline was changed: damage, not a torn write
    if raw[-1:] != b"\n" or (at_end and not raw.strip(b"\x00\n")):
        reading.torn = raw
        return b""
    return raw


def _plain(file: BinaryIO, path: Path, reading: LogReadReport) -> Iterator[Record]:
    """Read a log without sums: current members, or an older dialect (blank lines and all)."""
    dialect: Dialect | None = None
    at = 0
    with file:
        for number, raw in enumerate(file, 1):
            line = raw.strip()
            if line:
                if has_sum(line):
                    reason = f"it has no sum, but line {number} has one"
                    raise LogCorrupted(path, line=1, byte=0, reason=reason)
                try:
                    dialect = dialect or dialect_of(line)
                    translated = list(dialect.read(line))
                except ValueError as error:
                    if raw[-1:] != b"\n":
                        reading.torn = raw
                        break
                    raise LogCorrupted(path, line=number, byte=at, reason=str(error)) from None
                reading.dialect = dialect.name
                for event in translated:
                    if number == 1:
                        _check_schema(event, path)
                    yield event, line
            at += len(raw)
            reading.end = at if dialect is not None else 0
    _check_any(reading, path)


def _check_any(reading: LogReadReport, path: Path) -> None:
    if reading.end == 0:
        raise InvalidLog(path, "holds no complete event; start a new session")


def _check_schema(event: Event, path: Path) -> None:
    if isinstance(event, SessionStarted) and event.schema_version > SCHEMA_VERSION:
        raise LogVersionUnsupported(path, found=event.schema_version, known=SCHEMA_VERSION)


_NAME = re.compile(rb"(?:ctx|art)-[0-9a-f]{64}(?![0-9a-f])")


def mentions(path: Path) -> set[str]:
    """Return the full names in a log. Raises LogNotFound, InvalidLog."""
    with open_log(path) as file:
        return {name.decode() for line in file for name in _NAME.findall(line)}
