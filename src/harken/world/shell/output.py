"""`Output`: the file into which a command writes, and what of it a model reads.

A file and no pipe: a command may write a hundred megabytes without a byte of them passing through
this process, and one that keeps the descriptor for ever keeps nobody waiting. A command that opens
its own output anew (`tee /dev/stderr`) begins it anew, as with any file.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import Self

_ESCAPE = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]"  # CSI: colours, movements
    r"|[\]PX^_][^\x07\x1b\n]{0,4000}(?:\x07|\x1b\\)"  # OSC and other strings: titles, links
    r"|[ -/]*[0-~])"  # the rest: character sets, resets
)
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
_BYTES_PER_CHARACTER = 4  # at most, in UTF-8


@dataclass(frozen=True, slots=True)
class Output:
    """What a command writes, while it runs and after."""

    path: Path
    descriptor: int

    @classmethod
    def create(cls, folder: Path) -> Self:
        """Make an empty file in a folder, readable by its owner only. Raises OSError."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = folder.absolute() / f"output-{token_hex(6)}.txt"
        # Appending: two processes that write, each from its own position, overwrite nothing.
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        return cls(path, os.open(path, flags, 0o600))

    @property
    def size_bytes(self) -> int:
        """How much was written so far, also where the file was deleted meanwhile."""
        return os.fstat(self.descriptor).st_size

    def close(self, *, keep: bool) -> None:
        """Let go of the file; without `keep`, delete it."""
        os.close(self.descriptor)
        if not keep:
            self.path.unlink(missing_ok=True)

    def whole(self, cap: int) -> str | None:
        """Return all of it as a model reads it; None where it has more than `cap` characters."""
        if self.size_bytes > cap * _BYTES_PER_CHARACTER:
            return None
        text = _decoded(os.pread(self.descriptor, cap * _BYTES_PER_CHARACTER, 0))
        return readable(text) if len(text) <= cap else None

    def shortened(self, cap: int) -> str:
        """Return head and tail, and between them how much was left out and where all of it is."""
        size, half = self.size_bytes, cap // 2
        most = half * _BYTES_PER_CHARACTER
        head = _decoded(os.pread(self.descriptor, most, 0))[:half]
        tail = _decoded(os.pread(self.descriptor, most, max(0, size - most)))[-half:]
        left_out = size - len(_encoded(head)) - len(_encoded(tail))
        note = f"[... {left_out:,} of {size:,} bytes are left out; all of it is in {self.path} ...]"
        return f"{readable(head)}\n{note}\n{readable(tail)}"

    def tail(self, cap: int) -> str:
        """Return the last `cap` characters or less, as a model reads them."""
        most = cap * _BYTES_PER_CHARACTER
        text = _decoded(os.pread(self.descriptor, most, max(0, self.size_bytes - most)))
        return readable(text[-cap:])


def readable(text: str) -> str:
    r"""Return a text without what steers a terminal; what else is no text is a replacement.

    >>> readable("\x1b[1;31mred\x1b[0m \x1b]0;title\x07a\x00b\r\n")
    'red a\ufffdb\r\n'

    A sequence without its end hides nothing:

    >>> readable("\x1b]0;title\nrest"), readable("\x1b[")
    ('0;title\nrest', '')
    """
    return _CONTROL.sub("\ufffd", _ESCAPE.sub("", text))


def _decoded(data: bytes) -> str:
    """Decode so that the length in bytes can still be told."""
    return data.decode("utf-8", "surrogateescape")


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
