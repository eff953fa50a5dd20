"""A regular file: opened without hanging, read as far as needed, replaced all at once.

What an agent knows of a file is a hash of its bytes, so a change is made only where the bytes are
still those: looked at just before the rename that makes the new content visible. Nobody ever sees
half of a content, and bytes that a change does not touch stay what they were.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import FileIO
from pathlib import Path

from blake3 import blake3

from harken.world.files.root import Root, kind_of, size_text
from harken.world.result import ToolError

WHOLE = 10_000_000
"""Bytes up to which a file is read whole, can be known, edited and searched."""
_SNIFFED = 8192

_MAGIC = {
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
    """Return what stands for a content in logs: 32 hex digits of BLAKE3.

    >>> hash_of(b"hello")
    'ea8f163db38682925e4491c5e58d4bb3'
    """
    return blake3(data).hexdigest(length=16)


def binary_kind(data: bytes) -> str | None:
    """Return what the first bytes of a file that is no text say that it is; None for text."""
    if data.startswith(b"%PDF-") or b"\0" in data[:_SNIFFED]:
        named = (kind for magic, kind in _MAGIC.items() if data.startswith(magic))
        return next(named, "a binary file")
    return None


@dataclass(frozen=True, slots=True)
class FileContent:
    """The bytes of a file at one moment."""

    data: bytes
    hash: str
    size_bytes: int
    """Of the whole file."""


@contextmanager
def open_regular(root: Root, path: Path) -> Iterator[FileIO]:
    """Open a resolved path for reading; only a regular file is opened. Raises ToolError."""
    with root.failing(path):
        check_kind(root, path, os.lstat(path).st_mode)
        # A FIFO that came meanwhile does not hang, a symlink that came is not followed.
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
        with FileIO(os.open(path, flags)) as file:
            check_kind(root, path, os.fstat(file.fileno()).st_mode)
            yield file


def check_kind(root: Root, path: Path, mode: int) -> None:
    """Raise ToolError for what is no regular file."""
    if stat.S_ISDIR(mode):
        raise ToolError(f"{root.shown(path)} is a folder; `ls` shows what is in it")
    if not stat.S_ISREG(mode):
        raise ToolError(f"{root.shown(path)} is {kind_of(mode)}: only regular files are opened")


def load(root: Root, path: Path) -> FileContent:
    """Read a whole file. Raises ToolError, also for one that is larger than `WHOLE`."""
    with open_regular(root, path) as file:
        data = read_up_to(file, WHOLE + 1)
        if len(data) > WHOLE:
            size = size_text(os.fstat(file.fileno()).st_size)
            raise ToolError(
                f"{root.shown(path)} is too large for this ({size}; the limit is "
                f"{size_text(WHOLE)}): use a shell command"
            )
    return FileContent(data, hash_of(data), len(data))


def read_up_to(file: FileIO, limit: int) -> bytes:
    """Read to the end, at most `limit` bytes, whatever the size was said to be."""
    pieces: list[bytes] = []
    left = limit
    while left > 0 and (piece := file.read(min(left, 1 << 20))):
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)


def create(root: Root, path: Path, data: bytes) -> None:
    """Make a new file, with the folders above it. Raises ToolError where something is there."""
    with root.failing(path):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise ToolError(
                f"{root.shown(path.parent)} is no folder: no file can be in it"
            ) from None
        with _beside(path, data) as new:
            try:
                _link(new, path)
            except FileExistsError:
                raise ToolError(f"{root.shown(path)} appeared just now: read it first") from None


def _link(new: Path, path: Path) -> None:
    """Give a file its name; FileExistsError where that is taken: nothing is ever replaced."""
    try:
        os.link(new, path)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK):
            raise
        # A file system without hard links: not at once, but still nothing is replaced.
        with path.open("xb") as file:
            file.write(new.read_bytes())


def replace(root: Root, path: Path, data: bytes, expected: str) -> None:
    """Give a file another content, if it still has the expected one.

    Mode, owner and extended attributes stay as far as the system allows. Another hard link to
    the file keeps the old content: what is written stays below the folder. Raises ToolError.
    """
    with root.failing(path):
        before = os.lstat(path)
        if not os.access(path, os.W_OK):
            raise ToolError(f"{root.shown(path)} is read-only")
        with _beside(path, data) as new:
            with suppress(OSError):
                os.chown(new, before.st_uid, before.st_gid)
            shutil.copystat(path, new, follow_symlinks=False)
            os.utime(new)
            if load(root, path).hash != expected:
                raise ToolError(f"{root.shown(path)} was changed just now: read it again")
            new.rename(path)


@contextmanager
def _beside(path: Path, data: bytes) -> Iterator[Path]:
    """Write a temporary file in the same folder, safe on disk; it is gone afterwards."""
    new = path.parent / f".harken-{secrets.token_hex(6)}.tmp"
    try:
        with new.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        yield new
    finally:
        new.unlink(missing_ok=True)
