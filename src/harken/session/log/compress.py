"""Compression of a log: compress, read back, compare, then remove the plain file.

A complete log exists at every time. The pack gets its name only when it is on disk and
was verified byte by byte; only then the plain file is removed. A writer holds the log's lock, so
a log is never compressed while it is being written.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import zstandard
from blake3 import blake3

from harken.errors import InvalidLog, LogNotFound, LogWriteError
from harken.session.log.compressed import ZSTD, find_packs, open_packed, stat_log
from harken.session.log.disk import Disk
from harken.session.log.file import LogFile

_LEVEL = 9
_CHUNK_BYTES = 1 << 20


class CompressionResult(msgspec.Struct, frozen=True):
    """The result of a compression or decompression."""

    path: Path
    """The pack, or after a decompression the plain file."""
    before_bytes: int
    after_bytes: int


def compress_log(path: Path, *, disk: Disk | None = None) -> CompressionResult:
    """Compress a log. On return the pack is on disk, and the plain file is removed.

    A compressed log is left unchanged. Raises LogLocked if the log is being written, LogNotFound,
    InvalidLog, LogWriteError; after an error the log is unchanged.
    """
    if not path.exists() and find_packs(path):
        log_stat = stat_log(path)
        return CompressionResult(find_packs(path)[0], log_stat.disk_bytes, log_stat.disk_bytes)
    with closing(LogFile(path, disk=disk)) as log:
        target = path.with_name(path.name + ZSTD)
        part = path.with_name(f".{path.name}.packing{ZSTD}")
        stat = os.fstat(log.fd)
        if not stat.st_size:
            raise InvalidLog(path, "is empty: it has no event to compress")
        try:
            part.unlink(missing_ok=True)
            expected = _compress(path, part, stat.st_size, log.disk)
            if _hash_content(part) != expected:
                raise OSError("the compressed log does not decompress to the original")
            os.utime(part, ns=(stat.st_atime_ns, stat.st_mtime_ns))
            part.replace(target)
            log.disk.sync_folder(path.parent)
            path.unlink()
            log.disk.sync_folder(path.parent)
        except OSError as error:
            raise LogWriteError(path, reason=f"packing: {error.strerror or error}") from error
        finally:
            part.unlink(missing_ok=True)
    return CompressionResult(target, stat.st_size, target.stat().st_size)


def decompress_log(path: Path, *, disk: Disk | None = None) -> CompressionResult:
    """Decompress a log, and remove its pack. Raises as `pack`."""
    try:
        before = stat_log(path).disk_bytes
    except FileNotFoundError:
        raise LogNotFound(path) from None
    LogFile(path, disk=disk).close()
    return CompressionResult(path, before, path.stat().st_size)


def _compress(path: Path, part: Path, size: int, disk: Disk) -> bytes:
    """Write the pack of a log durably, readable by its owner only. Return the hash of the log."""
    hasher = blake3()
    packer = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True).compressobj(size=size)
    fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        for piece in _iter_chunks(path):
            hasher.update(piece)
            _write(fd, packer.compress(piece), disk)
        _write(fd, packer.flush(), disk)
        disk.sync(fd)
    except zstandard.ZstdError as error:  # The size changed: a process writes to the log.
        raise OSError(f"it changed meanwhile: {error}") from error
    finally:
        os.close(fd)
    return hasher.digest()


def _write(fd: int, data: bytes, disk: Disk) -> None:
    if data and disk.write(fd, data) != len(data):
        raise OSError("the disk is full")


def _iter_chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(_CHUNK_BYTES):
            yield piece


def _hash_content(part: Path) -> bytes:
    """Return the hash of the content of a pack."""
    hasher = blake3()
    file = open_packed(part)
    assert file is not None
    with file:
        while piece := file.read(_CHUNK_BYTES):
            hasher.update(piece)
    return hasher.digest()
