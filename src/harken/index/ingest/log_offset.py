"""How far a log was read by the index."""

from __future__ import annotations

from pathlib import Path

import msgspec

from harken.session.log.compressed import stat_log


class LogChanged(Exception):
    """A log was replaced or truncated: the bytes that were read are no longer in it."""


class LogOffset(msgspec.Struct):
    """The offset up to which a log has been read."""

    session: str = ""
    """Empty if the log has no session id; then nothing of it is indexed."""
    size: int = 0
    tail: bytes = b""
    """The last bytes before the offset, to detect a replaced log."""


def has_grown(path: Path, mark: LogOffset) -> bool:
    """Whether a log is longer than what was read. Raises LogChanged, OSError."""
    size = stat_log(path).size_bytes
    if size < mark.size:
        raise LogChanged
    return size > mark.size
