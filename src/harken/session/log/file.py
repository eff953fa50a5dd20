"""The file under a log: one writer, one write a line, and a sync that reaches the disk.

The lock is `flock` on the log itself, which a crash releases; the holder's pid is in a sidecar
file, for error texts only. On Windows it is `msvcrt.locking` on the last possible byte; that
path is not tested. A compressed log is decompressed first: only plain logs are written to.

`new_log` creates the empty file of a new session under an unused name.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from collections.abc import Iterator
from itertools import count, takewhile
from pathlib import Path

from harken.errors import (
    LogDeleted,
    LogLocked,
    LogNotFound,
    LogWriteError,
    SessionClosed,
)
from harken.session.log.compressed import drop_packs, is_packed, restore_plain_log
from harken.session.log.disk import Disk, RealDisk, check_file_type
from harken.session.log.version import MAX_FIRST_LINE_BYTES, check_first_line


def new_log(folder: Path, stem: str) -> Path:
    """Create `STEM.jsonl`, or if that exists `STEM-2.jsonl`, and so on. Names of packs are skipped.

    Two processes never get the same file. Raises LogWriteError.
    """
    names = (stem if n == 1 else f"{stem}-{n}" for n in count(1))
    while True:
        path = folder / f"{next(names)}.jsonl"
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        except FileExistsError:
            continue
        except OSError as error:
            raise LogWriteError(path, reason=error.strerror or str(error)) from None
        if not is_packed(path):
            return path
        path.unlink()


if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)

__all__ = ["Disk", "LogFile", "RealDisk", "free_name", "is_being_written"]


class LogFile:
    """An open log, locked for writing by this process."""

    def __init__(self, path: Path, *, disk: Disk | None = None, create: bool = False) -> None:
        """Open and lock a log. With `create`, create a missing file, readable by its owner only.

        Raises LogLocked if another process writes it, LogNotFound, InvalidLog,
        LogVersionUnsupported, LogWriteError.
        """
        self.path = path
        self.disk = disk or RealDisk()
        self._broken: str | None = None
        self._is_deleted = False
        self.fd = -1
        while self.fd < 0:
            self.fd = self._open_locked(create=create)
        self._pid = os.getpid()
        with contextlib.suppress(OSError):  # the pid is for a message only
            _write_pid(path)

    def _open_locked(self, *, create: bool) -> int:
        """Open and lock the file. Return -1 to retry if it was compressed or replaced meanwhile.

        A pack that a crash left over is removed, since it would soon be outdated.
        """
        path = self.path
        restore_plain_log(path, self.disk)
        try:
            fd = _open(path, create=create)
        except LogNotFound:
            if is_packed(path) and not path.is_symlink():
                return -1
            raise
        try:
            locked = _lock(fd)
        except OSError as error:
            os.close(fd)
            reason = f"it cannot be locked here: {error.strerror or error}"
            raise LogWriteError(path, reason=reason) from None
        if not locked:
            os.close(fd)
            raise LogLocked(path, pid=_read_pid(path))
        try:
            is_new = os.fstat(fd).st_size == 0 and is_packed(path)
            if is_new:
                path.unlink()
            _check_release(fd, path)
            if not is_new and _is_file_at(path, fd):
                drop_packs(path, self.disk)
                return fd
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)
        return -1

    def append(self, data: bytes) -> None:
        """Append one or more complete lines in one write.

        Raises LogWriteError; the lines may or may not be in the file then, and every later
        append is refused, so that nothing can follow an incomplete line. Raises LogLocked in a
        forked child, which inherits the lock of its parent but has a diverging state.
        """
        if os.getpid() != self._pid:
            raise LogLocked(self.path, pid=self._pid)
        self._check_usable()
        try:
            size = self.disk.write(self.fd, data)
        except OSError as error:
            raise self._mark_broken(error.strerror or str(error)) from error
        if size != len(data):
            raise self._mark_broken(
                f"only {size} of {len(data)} bytes were taken: is the disk full?"
            )

    def sync(self) -> None:
        """Return when all appended lines would survive a power cut.

        Raises LogWriteError; LogDeleted if the file has no name anymore.
        """
        self._check_usable()
        if os.fstat(self.fd).st_nlink == 0:
            self._is_deleted = True
            self._broken = "the file was deleted"
            raise LogDeleted(self.path)
        try:
            self.disk.sync(self.fd)
        except OSError as error:
            raise self._mark_broken(f"sync failed: {error.strerror or error}") from error

    def sync_name(self) -> None:
        """Make the file's name durable, once after its creation. Raises LogWriteError."""
        try:
            self.disk.sync_folder(self.path.parent)
        except OSError as error:
            raise self._mark_broken(f"sync failed: {error.strerror or error}") from error

    def set_aside(self, end: int, torn: bytes) -> Path:
        """Move a torn tail to a file beside the log, durably, and cut the log to `end` bytes.

        Returns that file's path. Raises LogWriteError; the log is only cut after the copy is safe.
        """
        try:
            aside = self._copy_torn(end, torn)
            os.ftruncate(self.fd, end)
            self.disk.sync(self.fd)
        except OSError as error:
            raise self._mark_broken(error.strerror or str(error)) from error
        return aside

    def _copy_torn(self, end: int, torn: bytes) -> Path:
        """Copy a torn tail durably to a file beside the log and return the path of the copy.

        The copy gets its name when it is complete, and an equal copy is used again. So each retry
        on a full disk leaves the same files. Raises OSError.
        """
        name = self.path.with_name(f"{self.path.name}.torn-{end}")
        part = name.with_name(f"{name.name}.part")
        copies = takewhile(Path.exists, _iter_numbered(name))
        copy = next((path for path in copies if _has_content(path, torn)), free_name(name))
        try:
            fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _NO_FOLLOW, 0o600)
            try:
                if self.disk.write(fd, torn) != len(torn):
                    raise OSError("the disk is full")
                self.disk.sync(fd)
            finally:
                os.close(fd)
            part.replace(copy)
            self.disk.sync_folder(self.path.parent)
        finally:
            part.unlink(missing_ok=True)
        return copy

    def _check_usable(self) -> None:
        """Raise SessionClosed after `close`, else the error of an earlier operation that failed."""
        if self._is_deleted:
            raise LogDeleted(self.path)
        if self.fd < 0:
            raise SessionClosed(self.path)
        if self._broken is not None:
            raise LogWriteError(self.path, reason=self._broken)

    def close(self) -> None:
        """Release the log. A second call does nothing."""
        if self.fd < 0:
            return
        if os.getpid() == self._pid:
            with contextlib.suppress(OSError):
                _pid_file(self.path).unlink()
        os.close(self.fd)
        self.fd = -1

    def __del__(self) -> None:
        """Release a log that was never closed, so that its descriptor does not leak."""
        if getattr(self, "fd", -1) >= 0:  # the constructor may have failed
            with contextlib.suppress(OSError):
                self.close()

    def refuse(self, reason: str) -> None:
        """Refuse all further appends, with this reason or an earlier one."""
        self._broken = self._broken or reason

    def _mark_broken(self, reason: str) -> LogWriteError:
        self._broken = reason
        return LogWriteError(self.path, reason=reason)


def _open(path: Path, *, create: bool) -> int:
    # Windows must not turn a newline into two bytes.
    flags = os.O_RDWR | os.O_APPEND | getattr(os, "O_BINARY", 0)
    flags |= os.O_CREAT if create else 0
    try:
        check_file_type(path)
        return os.open(path, flags, 0o600)
    except FileNotFoundError:
        if create:
            why, advice = "its folder does not exist", "make the folder first"
            raise LogWriteError(path, reason=why, advice=advice) from None
        raise LogNotFound(path) from None
    except OSError as error:
        raise LogWriteError(path, reason=error.strerror or str(error)) from None


def _check_release(fd: int, path: Path) -> None:
    """Raise LogVersionUnsupported if the open log is of an unreleased version."""
    with open(fd, "rb", closefd=False) as file:
        check_first_line(file.readline(MAX_FIRST_LINE_BYTES), path)


def _is_file_at(path: Path, fd: int) -> bool:
    """Whether an open file is still the file at that path."""
    try:
        return os.path.samestat(path.stat(), os.fstat(fd))
    except FileNotFoundError:
        return False


def is_being_written(path: Path) -> bool:
    """Whether a writer holds this log now. Nothing is changed.

    The lock is tried only if there is a pid file, so that this check seldom blocks a process that
    begins to write. A crash leaves a pid file behind, so the lock has to be tried then.
    """
    if not _pid_file(path).exists():
        return False
    if sys.platform == "win32":
        return True
    try:
        with path.open("rb") as file:
            fcntl.flock(file.fileno(), fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def free_name(path: Path) -> Path:
    """Return this path, or the first of `.1`, `.2`, ... appended to it that does not exist."""
    return next(name for name in _iter_numbered(path) if not name.exists())


def _iter_numbered(path: Path) -> Iterator[Path]:
    """Yield the names that `free_name` tries, in order."""
    return (path if n == 0 else path.with_name(f"{path.name}.{n}") for n in range(10_000))


def _has_content(path: Path, content: bytes) -> bool:
    """Whether a regular file has exactly this content."""
    try:
        is_same_size = stat.S_ISREG(path.lstat().st_mode) and path.stat().st_size == len(content)
        return is_same_size and path.read_bytes() == content
    except OSError:
        return False


def _pid_file(path: Path) -> Path:
    return path.with_name(f".{path.name}.pid")


def _write_pid(path: Path) -> None:
    """Write the pid to a new file, never through an existing link."""
    with contextlib.suppress(FileNotFoundError):
        _pid_file(path).unlink()
    fd = os.open(_pid_file(path), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.write(fd, str(os.getpid()).encode())
    finally:
        os.close(fd)


def _read_pid(path: Path) -> int | None:
    try:
        return int(_pid_file(path).read_text())
    except (OSError, ValueError):
        return None


def _lock(fd: int) -> bool:
    """Lock the log for writing. Return False if another process holds the lock."""
    if sys.platform == "win32":
        os.lseek(fd, 2**31 - 1, os.SEEK_SET)  # locks are mandatory there: keep off the content
        try:
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
