"""The audit log: the user, time, sender, action and outcome of each request.

One JSON object a line, appended in one write, so several processes may share the file. It contains
neither tokens nor contents. Records of changes are on disk before the change is answered.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec

from harken.errors import ConfigError, StoreError, StoreWriteError

_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW

_PAGE = 1000


class AuditRecord(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One action."""

    time: str
    user: str = ""
    """Empty: not known."""
    token: str = ""
    """The public id of the token, `owner` for that of the home, `local` for a command."""
    remote: str = ""
    """The address of the client."""
    action: str
    """The method and the route, or the command."""
    status: int = 0
    """The HTTP status. 0: a command that succeeded."""
    code: str = ""
    """The error code."""
    right: str = ""
    """The right that the action needs."""
    names: tuple[str, ...] = ()
    """Commits that were written, branches, users or rules."""
    count: int = 0
    """The number of commits or objects, if there are more than `names`."""
    size_bytes: int = 0


class AuditLog:
    """The log in the file at `path`. Threads may share it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        try:
            self._file = os.open(path, _FLAGS, 0o600)
            mode = os.fstat(self._file).st_mode
            _end_last_line(path, self._file)
        except OSError as error:
            raise ConfigError(
                f"{path}: the audit log cannot be opened ({error.strerror})"
            ) from None
        if mode & 0o077:
            os.close(self._file)
            raise ConfigError(f"{path}: other users can read the audit log: chmod 600")

    def append(self, record: AuditRecord, *, is_synced: bool = True) -> None:
        """Append a record. With `is_synced` it survives a power failure. Raises StoreWriteError."""
        line = msgspec.json.encode(record) + b"\n"
        try:
            with self._lock:
                if os.write(self._file, line) != len(line):
                    raise OSError(0, "the disk is full")
                if is_synced:
                    os.fsync(self._file)
        except OSError as error:
            raise StoreWriteError(self.path, reason=str(error.strerror or error)) from error

    def close(self) -> None:
        """Close the file. A second call does nothing."""
        with self._lock:
            if self._file >= 0:
                os.close(self._file)
            self._file = -1


class AuditPage(msgspec.Struct, frozen=True):
    """Some records, oldest first, and the position after which the next ones follow."""

    records: list[AuditRecord]
    next: int
    """In bytes. If it is the requested position, there are no more records yet."""


def read_audit(path: Path) -> Iterator[AuditRecord]:
    """Yield the records of a log, oldest first; none if there is no log. Raises StoreError."""
    page = read_audit_page(path, 0, _PAGE)
    while page.records:
        yield from page.records
        page = read_audit_page(path, page.next, _PAGE)


def read_audit_page(path: Path, after: int, limit: int) -> AuditPage:
    """Return at most `limit` records after a position.

    A line that a crash cut off, or that was damaged, is a record of its own. Raises StoreError.
    """
    records: list[AuditRecord] = []
    try:
        with path.open("rb") as file:
            file.seek(after)
            for line in file:
                if len(records) == limit or not line.endswith(b"\n"):
                    break
                records.append(_parse_line(line, after))
                after += len(line)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise StoreError(path, f"cannot be read: {error.strerror or error}") from None
    return AuditPage(records, after)


def _parse_line(line: bytes, position: int) -> AuditRecord:
    try:
        return msgspec.json.decode(line, type=AuditRecord)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return AuditRecord(time="", action=f"the line at byte {position} is damaged")


def _end_last_line(path: Path, descriptor: int) -> None:
    """End a line that a crash cut off, so that the next record is a line of its own."""
    with path.open("rb") as file:
        if file.seek(0, os.SEEK_END):
            file.seek(-1, os.SEEK_END)
            if file.read() != b"\n":
                os.write(descriptor, b"\n")
