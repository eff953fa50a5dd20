"""Compressed logs, which are read under the name of the plain log.

The name of a log does not change: `ID.jsonl` names the log also if only `ID.jsonl.zst` (or,
created by hand, `ID.jsonl.gz`) exists, and a reader gets the original bytes. So code that names
a log needs no special case. If both files exist after a crash, the plain one is used, since only
that one is ever written to.

A pack keeps the modification time of its log, so that old logs stay old. It contains the exact
bytes, including incomplete lines and damage.
"""

from __future__ import annotations

import gzip
import io
import os
import shutil
import tempfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from harken.errors import InvalidLog, LogWriteError
from harken.session.log.disk import Disk
from harken.session.log.version import check_release

ZSTD, GZIP = ".zst", ".gz"
_MAX_ATTEMPTS = 20
"""Attempts to decompress a log that other processes compress and decompress concurrently."""
_PART = ".unpacking"
_CHUNK_BYTES = 1 << 20
_SPARE_BYTES, _MAX_RATIO = 64 << 20, 4096
"""Limits of the decompressed size, as a factor and an addend: a larger one is an attack."""


@dataclass(frozen=True, slots=True)
class LogStat:
    """The size, time and storage form of a log."""

    size_bytes: int
    """The size of the plain log, also if it is compressed."""
    modified_ns: int
    """The time of the last write, in nanoseconds since 1970."""
    disk_bytes: int
    """The size on disk."""
    is_packed: bool = False


def find_packs(path: Path) -> list[Path]:
    """Return the packs of a log, the preferred one first."""
    names = (path.with_name(path.name + end) for end in (ZSTD, GZIP))
    return [name for name in names if name.is_file()]


def log_path(path: Path) -> Path:
    """Return the path of the log of a pack. Return any other path unchanged.

    >>> log_path(Path("a.jsonl.zst")).name
    'a.jsonl'
    """
    ends = tuple(f".jsonl{end}" for end in (ZSTD, GZIP))
    return path.with_suffix("") if path.name.endswith(ends) else path


def is_packed(path: Path) -> bool:
    """Whether a log has packs, with or without its plain file."""
    return bool(find_packs(path))


def stat_log(path: Path) -> LogStat:
    """Return the status of a log, plain or compressed. Raises FileNotFoundError, OSError."""
    try:
        stat = path.stat()
    except FileNotFoundError:
        packs = find_packs(path)
        if not packs:
            raise
        pack_stat = packs[0].stat()
        size = _content_bytes(packs[0])
        return LogStat(
            size or pack_stat.st_size, pack_stat.st_mtime_ns, pack_stat.st_size, is_packed=True
        )
    return LogStat(stat.st_size, stat.st_mtime_ns, stat.st_size)


def open_packed(path: Path) -> BinaryIO | None:
    """Open a pack (or the pack of a log) as a seekable file. Return None if there is no pack.

    A seek backwards reads the pack again from its start. Reading raises InvalidLog for a damaged
    pack.
    """
    if path.suffix in (ZSTD, GZIP):
        return io.BufferedReader(_Unpacked(path), _CHUNK_BYTES)
    packs = find_packs(path)
    return io.BufferedReader(_Unpacked(packs[0]), _CHUNK_BYTES) if packs else None


def restore_plain_log(path: Path, disk: Disk) -> None:
    """Restore the plain file of a compressed log, and keep the pack. A plain log is left unchanged.

    Other processes may decompress or compress it concurrently: no existing file is replaced. Raises
    InvalidLog, LogVersionUnsupported, LogWriteError.
    """
    for _ in range(_MAX_ATTEMPTS):
        packs = [] if os.path.lexists(path) else find_packs(path)
        if not packs:
            return
        try:
            _unpack(path, packs[0], disk)
        except FileNotFoundError as error:  # Another process decompressed it and removed the pack.
            missing = error
        else:
            return
    raise LogWriteError(path, reason=f"unpacking: {missing.strerror}") from missing


def _unpack(path: Path, pack: Path, disk: Disk) -> None:
    part: Path | None = None
    try:
        with io.BufferedReader(_Unpacked(pack)) as file:
            check_release(file, path)
        fd, name = tempfile.mkstemp(_PART, f".{path.name}.", path.parent)
        part = Path(name)
        try:
            _write_all(pack, fd, disk)
        finally:
            os.close(fd)
        _link_or_rename(part, path, pack)
        disk.sync_folder(path.parent)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise LogWriteError(path, reason=f"unpacking: {error.strerror or error}") from error
    finally:
        if part is not None:
            part.unlink(missing_ok=True)


def drop_packs(path: Path, disk: Disk) -> None:
    """Remove the packs of a plain log that contains all of their content.

    A pack with other content is renamed, so that it is a separate log. Raises LogWriteError.
    """
    packs = find_packs(path)
    for part in path.parent.iterdir() if packs else ():
        if part.name.startswith(f".{path.name}.") and part.name.endswith(_PART):
            part.unlink(missing_ok=True)  # Left by a crash. The plain file is used now.
    for pack in packs:
        try:
            if _starts_with_content(path, pack):
                pack.unlink()
            else:
                end = pack.name[len(path.name) :]
                stems = (f"{path.stem}-{number}.jsonl" for number in range(2, 10_000))
                free = next(name for name in stems if not _is_taken(path.with_name(name)))
                pack.rename(path.with_name(free + end))
            disk.sync_folder(path.parent)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise LogWriteError(pack, reason=error.strerror or str(error)) from error


def _is_taken(path: Path) -> bool:
    return os.path.lexists(path) or is_packed(path)


def _starts_with_content(path: Path, pack: Path) -> bool:
    """Whether a plain log begins with the content of a pack."""
    try:
        with path.open("rb") as plain, io.BufferedReader(_Unpacked(pack), _CHUNK_BYTES) as content:
            while piece := content.read(_CHUNK_BYTES):
                if plain.read(len(piece)) != piece:
                    return False
    except InvalidLog:
        return False
    return True


def _write_all(pack: Path, fd: int, disk: Disk) -> None:
    """Write the content of a pack durably. Raises InvalidLog, OSError."""
    with io.BufferedReader(_Unpacked(pack), _CHUNK_BYTES) as source:
        while piece := source.read(_CHUNK_BYTES):
            if disk.write(fd, piece) != len(piece):
                raise OSError("the disk is full")
    if not os.fstat(fd).st_size:
        raise InvalidLog(pack, "is empty and cannot be decompressed")
    disk.sync(fd)


def _link_or_rename(part: Path, path: Path, pack: Path) -> None:
    """Give a decompressed file its name, unless the name exists by now: no file is replaced."""
    try:
        shutil.copystat(pack, part)
        part.chmod(0o600)
        os.link(part, path)
    except OSError:
        if os.path.lexists(path):
            return
        part.rename(path)  # The file system has no hard links.


def _content_bytes(pack: Path) -> int:
    """Return the content size in the header of a pack, or 0 if it has none."""
    import zstandard  # noqa: PLC0415 - a slow import, and most logs are not compressed

    try:
        with pack.open("rb") as file:
            if pack.suffix == ZSTD:
                return max(zstandard.frame_content_size(file.read(18)), 0)
            file.seek(-4, os.SEEK_END)
            return int.from_bytes(file.read(4), "little")
    except (OSError, zstandard.ZstdError):
        return 0


class _Unpacked(io.RawIOBase):
    """The content of a pack, as a readable file."""

    def __init__(self, pack: Path) -> None:
        self._pack = pack
        self._file = pack.open("rb")
        self._min_bytes = _content_bytes(pack) if pack.suffix == ZSTD else 0
        """The size in its header: a truncated frame would end without an error."""
        self._max_bytes = pack.stat().st_size * _MAX_RATIO + _SPARE_BYTES
        self._restart()

    def _restart(self) -> None:
        self._file.seek(0)
        self._offset = 0
        self._read: Callable[[int], bytes]
        self._read_errors: tuple[type[Exception], ...] = (zlib.error, EOFError, OSError)
        if self._pack.suffix == ZSTD:
            import zstandard  # noqa: PLC0415 - a slow import, and most logs are not compressed

            self._read_errors = (zstandard.ZstdError, EOFError, OSError)
            unpacker = zstandard.ZstdDecompressor()
            reader = unpacker.stream_reader(self._file, read_across_frames=True, closefd=False)
            self._read = reader.read
        else:
            self._read = gzip.GzipFile(fileobj=self._file, mode="rb").read

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        piece = self._read_piece(len(buffer))
        buffer[: len(piece)] = piece
        return len(piece)

    def tell(self) -> int:
        return self._offset

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        if whence == os.SEEK_END:
            while self._read_piece(_CHUNK_BYTES):
                pass
        target = offset + (0 if whence == os.SEEK_SET else self._offset)
        if target < self._offset:
            self._restart()
        while self._offset < target and self._read_piece(min(target - self._offset, _CHUNK_BYTES)):
            pass
        return self._offset

    def close(self) -> None:
        self._file.close()
        super().close()

    def _read_piece(self, max_bytes: int) -> bytes:
        try:
            piece = self._read(max_bytes)
        except self._read_errors as error:
            reason = " ".join(str(error).split())
            raise InvalidLog(
                self._pack, f"is damaged: it cannot be decompressed ({reason})"
            ) from None
        self._offset += len(piece)
        if not piece and self._offset < self._min_bytes:
            raise InvalidLog(
                self._pack, f"is damaged: it ends after {self._offset} of {self._min_bytes} bytes"
            )
        if self._offset > self._max_bytes:
            raise InvalidLog(
                self._pack, "unpacks to more than any log: it was made to fill the disk"
            )
        return piece
