"""The members of an `.eval` file, a ZIP archive, one at a time and in bounded memory.

The archive is untrusted. What its members claim to unpack to is compared with a limit before any of
them is unpacked, and no member is unpacked beyond its claim. Members are compressed with deflate
or, in newer logs, with Zstandard, which `zipfile` does not read.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import SpooledTemporaryFile
from typing import IO
from zipfile import BadZipFile, ZipFile, ZipInfo

import msgspec
import zstandard

from harken.errors import FormatError
from harken.formats.runtimes.base import MAX_LINE_BYTES, SessionFile
from harken.formats.runtimes.compressed import MAX_EXPANSION_FACTOR, SPARE_BYTES

MAGIC = b"PK\x03\x04"
_ZSTANDARD = 93
_LOCAL_HEADER = struct.Struct("<4s22xHH")
_MAX_IN_MEMORY_BYTES = 16 << 20
_WINDOW_BYTES = 128 << 20
_READ_BYTES = 1 << 20
_UNREADABLE = (BadZipFile, EOFError, NotImplementedError, OSError, RuntimeError, ValueError)


class MemberUnreadable(Exception):
    """A member of an archive cannot be read. The others can."""


class Archive(msgspec.Struct):
    """An open archive."""

    file: IO[bytes]
    zip: ZipFile

    @property
    def members(self) -> list[ZipInfo]:
        """The members, in the order of the archive. Of equal names, the last one counts."""
        by_name = {member.filename: member for member in self.zip.infolist()}
        return [*by_name.values()]

    def read_member(self, member: ZipInfo) -> bytes:
        """Return the content of a member. Raises MemberUnreadable."""
        if member.file_size > MAX_LINE_BYTES:
            raise MemberUnreadable(f"it has {member.file_size} bytes")
        try:
            if member.compress_type == _ZSTANDARD:
                data = self._read_zstandard(member)
            else:
                with self.zip.open(member) as content:
                    data = content.read(member.file_size + 1)
        except (*_UNREADABLE, zlib.error, zstandard.ZstdError) as error:
            raise MemberUnreadable(f"it is damaged ({error})") from None
        if len(data) != member.file_size or zlib.crc32(data) != member.CRC:
            raise MemberUnreadable("it is damaged: its size or checksum differs")
        return data

    def _read_zstandard(self, member: ZipInfo) -> bytes:
        self.file.seek(member.header_offset)
        header = self.file.read(_LOCAL_HEADER.size)
        if len(header) < _LOCAL_HEADER.size:
            raise EOFError("its header is missing")
        magic, name_bytes, extra_bytes = _LOCAL_HEADER.unpack(header)
        if magic != MAGIC:
            raise BadZipFile("its header is missing")
        self.file.seek(name_bytes + extra_bytes, 1)
        packed = self.file.read(member.compress_size)
        unpacker = zstandard.ZstdDecompressor(max_window_size=_WINDOW_BYTES)
        with unpacker.stream_reader(packed, read_across_frames=True) as content:
            return content.read(member.file_size + 1)


@contextmanager
def open_archive(source: SessionFile, name: str) -> Iterator[Archive]:
    """Open the archive in a file. Raises FormatError if it is none, or unpacks to too much."""
    with SpooledTemporaryFile(_MAX_IN_MEMORY_BYTES, prefix="harken-") as file:
        size = 0
        for chunk in source.chunks():
            file.write(chunk)
            size += len(chunk)
        try:
            archive = ZipFile(file)
        except (*_UNREADABLE, struct.error) as error:
            raise FormatError(name, f"it is no complete ZIP archive ({error})") from None
        limit = max(MAX_EXPANSION_FACTOR * size, SPARE_BYTES)
        unpacked = sum(member.file_size for member in archive.infolist())
        if unpacked > limit:
            reason = f"{size} bytes unpack to {unpacked}, more than {limit}: it is not read"
            raise FormatError(name, reason)
        yield Archive(file, archive)
