"""`Output`: the output file of a command, and the part of it that a model reads.

A file and not a pipe: a large output does not pass through this process, and a process that keeps
the descriptor open blocks nothing. A command that reopens its own output (`tee /dev/stderr`)
truncates it, as with any file.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from secrets import token_hex
from typing import Self

import msgspec

_ESCAPE_PATTERN = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]"  # CSI: colours, movements
    r"|[\]PX^_][^\x07\x1b\n]{0,4000}(?:\x07|\x1b\\)"  # OSC and other strings: titles, links
    r"|[ -/]*[0-~])"  # other sequences: character sets, resets
)
_CONTROL_PATTERN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
_MAX_BYTES_PER_CHAR = 4  # at most, in UTF-8


class Output(msgspec.Struct, frozen=True):
    """The output of a command, during and after its run."""

    path: Path
    descriptor: int

    @classmethod
    def create(cls, folder: Path) -> Self:
        """Create an empty file in a folder, readable by its owner only. Raises OSError."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = folder.absolute() / f"output-{token_hex(6)}.txt"
        # In append mode, two writing processes do not overwrite each other.
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        return cls(path, os.open(path, flags, 0o600))

    @property
    def size_bytes(self) -> int:
        """The size of the output so far, even if the file was deleted."""
        return os.fstat(self.descriptor).st_size

    def close(self, *, keep: bool) -> None:
        """Close the file, and delete it unless `keep` is set."""
        os.close(self.descriptor)
        if not keep:
            self.path.unlink(missing_ok=True)

    def read_full(self, cap: int) -> str | None:
        """Return the full output for a model. Return None if it exceeds `cap` characters."""
        if self.size_bytes > cap * _MAX_BYTES_PER_CHAR:
            return None
        text = _decode(os.pread(self.descriptor, cap * _MAX_BYTES_PER_CHAR, 0))
        return readable(text) if len(text) <= cap else None

    def read_shortened(self, cap: int) -> str:
        """Return head and tail, with a note on the omitted bytes and the path of the file."""
        size, half = self.size_bytes, cap // 2
        max_bytes = half * _MAX_BYTES_PER_CHAR
        head = _decode(os.pread(self.descriptor, max_bytes, 0))[:half]
        tail = _decode(os.pread(self.descriptor, max_bytes, max(0, size - max_bytes)))[-half:]
        omitted_bytes = size - len(_encode(head)) - len(_encode(tail))
        note = (
            f"[... {omitted_bytes:,} of {size:,} bytes omitted; the full output is "
            f"in {self.path} ...]"
        )
        return f"{readable(head)}\n{note}\n{readable(tail)}"

    def read_tail(self, cap: int) -> str:
        """Return at most the last `cap` characters, for a model."""
        max_bytes = cap * _MAX_BYTES_PER_CHAR
        text = _decode(os.pread(self.descriptor, max_bytes, max(0, self.size_bytes - max_bytes)))
        return readable(text[-cap:])


def readable(text: str) -> str:
    r"""Remove terminal control sequences from a text; replace other control characters.

    >>> readable("\x1b[1;31mred\x1b[0m \x1b]0;title\x07a\x00b\r\n")
    'red a\ufffdb\r\n'

    An incomplete sequence hides nothing:

    >>> readable("\x1b]0;title\nrest"), readable("\x1b[")
    ('0;title\nrest', '')
    """
    return _CONTROL_PATTERN.sub("\ufffd", _ESCAPE_PATTERN.sub("", text))


def _decode(data: bytes) -> str:
    """Decode so that the length in bytes can be recovered."""
    return data.decode("utf-8", "surrogateescape")


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
