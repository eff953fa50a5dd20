"""The disk under a log: writes, syncs that reach it, and files that no log can be.

On Linux a sync is `fdatasync`, on macOS `F_FULLFSYNC` (there a plain fsync stops in the drive's
cache), on Windows `fsync`; that path is not tested.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from harken.errors import InvalidLog

if sys.platform != "win32":
    import fcntl


class Disk(Protocol):
    """The file operations that a log needs. Each call may raise OSError.

    Tests pass an implementation that fails, so no patching is needed.
    """

    def write(self, fd: int, data: bytes) -> int:
        """Append to the file in one call. Return the number of bytes written."""
        ...

    def sync(self, fd: int) -> None:
        """Return when everything written to `fd` would survive a power cut."""
        ...

    def sync_folder(self, folder: Path) -> None:
        """Return when the names in `folder` would survive a power cut."""
        ...


class RealDisk:
    """The disk of this machine."""

    def write(self, fd: int, data: bytes) -> int:
        """Append to the file in one call. Return the number of bytes written."""
        return os.write(fd, data)

    def sync(self, fd: int) -> None:
        """Flush the file to the disk: `fdatasync`, on macOS `F_FULLFSYNC`."""
        if sys.platform == "darwin":
            try:
                fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
            except OSError as error:
                if error.errno not in (errno.ENOTSUP, errno.EINVAL, errno.ENOTTY):
                    raise
                os.fsync(fd)  # A network or FAT volume does not support F_FULLFSYNC.
        elif hasattr(os, "fdatasync"):
            os.fdatasync(fd)
        else:
            os.fsync(fd)

    def sync_folder(self, folder: Path) -> None:
        """Make the names in a folder durable."""
        if sys.platform == "win32":
            return  # a folder cannot be opened there; NTFS journals its names
        fd = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def move_durably(partial: Path, path: Path) -> None:
    """Move a finished file to its final name, durably.

    Raises FileExistsError, so nothing is replaced.
    """
    disk = RealDisk()
    with partial.open("rb+") as file:
        disk.sync(file.fileno())
    try:
        os.link(partial, path)
    except FileExistsError:
        raise
    except OSError:  # The file system does not support links.
        if path.exists():
            raise FileExistsError(path) from None
        partial.rename(path)
    disk.sync_folder(path.parent)


def check_file_type(path: Path) -> None:
    """Raise InvalidLog for a folder, and for a device or FIFO, which may have no end.

    A missing file passes: its log may be compressed. Raises OSError.
    """
    with suppress(FileNotFoundError):
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise InvalidLog(path, "is a folder; name a session log (a .jsonl file)")
        if not stat.S_ISREG(mode):
            raise InvalidLog(path, "is not a regular file; name a session log (a .jsonl file)")
