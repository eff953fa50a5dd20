"""The log of the session that a branch was made of, also after that session was renamed.

A renamed log keeps its content. A branch copies the time of the first event of the other log, and
names the checksum of their last common line. Checksums form a chain, so the log that has this
checksum has all common lines.

Source: docs/formats/session-log.md, "Branches".
"""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

from harken.core.events import Event, SessionStarted, decode_event
from harken.core.ids import Origin
from harken.errors import LogError
from harken.session.log.checksum import CLOSE, OPEN
from harken.session.log.compressed import log_path
from harken.session.log.reader import open_log


def find_counted_origin(log: Path, start: Event | None) -> Origin | None:
    """Return the origin of a branch if the log of that session is in the same folder.

    Then a program that counts calls, tokens or messages of several sessions leaves out the events
    of the origin in the branch. `start` is the first event. Return None if nothing is left out.
    """
    if not isinstance(start, SessionStarted) or start.origin is None:
        return None
    return None if find_log_of_origin(log, start) is None else start.origin


def find_log_of_origin(log: Path, start: SessionStarted) -> Path | None:
    """Return the log of the session that a branch was made of, in its folder, or None.

    `start` is the first event of the branch.
    """
    origin = start.origin
    if origin is None:
        return None
    named = _named_log(log, origin)
    if named is not None and _starts_like(named, start):
        return named
    paths = sorted({log_path(path) for path in log.parent.glob("*.jsonl*")})
    candidates = (path for path in paths if path not in (named, log_path(log)))
    return next(
        (path for path in candidates if _starts_like(path, start) and _has_sum(path, origin.sum)),
        None,
    )


def _named_log(log: Path, origin: Origin) -> Path | None:
    """Return the log with the name of an origin, or None if that is no name of another session."""
    name = origin.session
    is_name = re.fullmatch(r"[^/\\\0]+", name) is not None and name not in (".", "..")
    path = log.with_name(f"{name}.jsonl") if is_name else None
    return None if path == log_path(log) else path


def _starts_like(path: Path, start: SessionStarted) -> bool:
    """Whether a log exists and begins at the same time."""
    with suppress(LogError, OSError, ValueError), open_log(path) as file:
        first = decode_event(file.readline())
        return isinstance(first, SessionStarted) and first.time == start.time
    return False


def _has_sum(path: Path, checksum: str) -> bool:
    """Whether a line of a log has this checksum."""
    end = OPEN + checksum.encode() + CLOSE
    with suppress(LogError, OSError), open_log(path) as file:
        return any(line.endswith(end) for line in file)
    return False
