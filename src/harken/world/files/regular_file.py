"""Regular files: open without blocking, read up to a limit, replace atomically.

An agent knows a file by a hash of its bytes. A change is made only if the hash is unchanged,
checked just before the rename that publishes the new content. No process ever sees a partial
content, and unaffected bytes stay as they were.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path

import msgspec
from blake3 import blake3

from harken.world.files.root import Root, kind_of, size_text
from harken.world.result import ToolError

MAX_FILE_BYTES = 10_000_000
"""The size limit in bytes for reading a file completely, knowing, editing and searching it."""
_SNIFF_BYTES = 8192

_KIND_BY_MAGIC = {
    b"%PDF-": "a PDF",
    b"PK\x03\x04": "a zip archive (also docx, xlsx, jar, wheel)",
    b"\x1f\x8b": "a gzip archive",
    b"BZh": "a bzip2 archive",
    b"\xfd7zXZ\0": "an xz archive",
    b"\x28\xb5\x2f\xfd": "a zstd archive",
    b"\x7fELF": "an ELF program or library",
    b"\xcf\xfa\xed\xfe": "a Mach-O program or library",
    b"SQLite format 3\0": "an SQLite database",
    b"\xff\xfe": "UTF-16 text (`iconv -f utf-16 -t utf-8` makes it readable)",
    b"\xfe\xff": "UTF-16 text (`iconv -f utf-16 -t utf-8` makes it readable)",
}


def hash_of(data: bytes) -> str:
    """Return the hash of a content for logs: 32 hex digits of BLAKE3.

    >>> hash_of(b"hello")
    'ea8f163db38682925e4491c5e58d4bb3'
    """
    return blake3(data).hexdigest(length=16)


def binary_kind(data: bytes) -> str | None:
    """Return the file type of binary data by its first bytes. Return None for text."""
    if data.startswith(b"%PDF-") or b"\0" in data[:_SNIFF_BYTES]:
        kinds = (kind for magic, kind in _KIND_BY_MAGIC.items() if data.startswith(magic))
        return next(kinds, "a binary file")
    return None


class FileContent(msgspec.Struct, frozen=True):
    """The bytes of a file at one time."""

    data: bytes
    hash: str
    size_bytes: int
    """The size of the complete file."""


@contextmanager
def open_regular(root: Root, path: Path) -> Iterator[FileIO]:
    """Open a resolved path for reading; only a regular file is opened. Raises ToolError."""
    with root.convert_errors(path):
        check_kind(root, path, os.lstat(path).st_mode)
        # Neither a new FIFO may block, nor a new symlink be followed.
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
        with FileIO(os.open(path, flags)) as file:
            check_kind(root, path, os.fstat(file.fileno()).st_mode)
            yield file


def check_kind(root: Root, path: Path, mode: int) -> None:
    """Raise ToolError if the mode is not that of a regular file."""
    if stat.S_ISDIR(mode):
        raise ToolError(f"{root.format_name(path)} is a folder; use `ls` to list it")
    if not stat.S_ISREG(mode):
        raise ToolError(
            f"{root.format_name(path)} is {kind_of(mode)}: only regular files can be opened"
        )


def load(root: Root, path: Path) -> FileContent:
    """Read a complete file. Raises ToolError, also if it is larger than `WHOLE`."""
    with open_regular(root, path) as file:
        data = read_up_to(file, MAX_FILE_BYTES + 1)
        if len(data) > MAX_FILE_BYTES:
            size = size_text(os.fstat(file.fileno()).st_size)
            raise ToolError(
                f"{root.format_name(path)} is too large ({size}; the limit is "
                f"{size_text(MAX_FILE_BYTES)}): use a shell command"
            )
    return FileContent(data, hash_of(data), len(data))


def read_up_to(file: FileIO, limit: int) -> bytes:
    """Read to the end, at most `limit` bytes, regardless of the reported size."""
    pieces: list[bytes] = []
    remaining = limit
    while remaining > 0 and (piece := file.read(min(remaining, 1 << 20))):
        pieces.append(piece)
        remaining -= len(piece)
    return b"".join(pieces)


def create(root: Root, path: Path, data: bytes) -> None:
    """Create a file and its parent folders. Raises ToolError if the path exists."""
    with root.convert_errors(path):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise ToolError(f"{root.format_name(path.parent)} is not a folder") from None
        with _temporary_file(path, data) as new:
            try:
                _link_new(new, path)
            except FileExistsError:
                raise ToolError(
                    f"{root.format_name(path)} was created by another process: read it first"
                ) from None


def _link_new(new: Path, path: Path) -> None:
    """Move a new file to its path. Raises FileExistsError, and never replaces a file."""
    try:
        os.link(new, path)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK):
            raise
        # Without hard links the write is not atomic, but it still replaces no file.
        with path.open("xb") as file:
            file.write(new.read_bytes())


def replace(root: Root, path: Path, data: bytes, expected: str) -> None:
    """Replace the content of a file, if it still has the expected hash.

    Mode, owner and extended attributes are kept as far as the system allows. Another hard link to
    the file keeps the old content, so the write stays below the folder. Raises ToolError.
    """
    with root.convert_errors(path):
        status = os.lstat(path)
        if not os.access(path, os.W_OK):
            raise ToolError(f"{root.format_name(path)} is read-only")
        with _temporary_file(path, data) as new:
            with suppress(OSError):
                os.chown(new, status.st_uid, status.st_gid)
            shutil.copystat(path, new, follow_symlinks=False)
            os.utime(new)
            if load(root, path).hash != expected:
                raise ToolError(
                    f"{root.format_name(path)} was changed by another process: read it again"
                )
            new.rename(path)


@contextmanager
def _temporary_file(path: Path, data: bytes) -> Iterator[Path]:
    """Write a durable temporary file in the same folder; it is removed at the end."""
    new = path.parent / f".harken-{secrets.token_hex(6)}.tmp"
    try:
        with new.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        yield new
    finally:
        new.unlink(missing_ok=True)
