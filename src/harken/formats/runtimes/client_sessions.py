"""The name of a session that a coding agent and a recording of its model calls have in common.

A session file contains the native id of the session. A recording has it if the client sends it with
its requests. Both derive the same name from it, such as `claude:0f1e...`.

Source: docs/design/006-what-the-model-saw.md, "One session from several sources".
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice, takewhile
from pathlib import Path
from typing import NamedTuple

from harken.core.events import AgentCreated, SessionStarted, decode_event
from harken.errors import LogError
from harken.session.log.reader import open_log

_RUNTIMES = {
    "claude-code": "claude",
    "codex": "codex",
    "gemini-cli": "gemini",
    "opencode": "opencode",
    "pi": "pi",
}
"""The client of a recording -> the runtime of its session files."""
_MEMBERS = (b'"origin"', b'"foreign"')
"""Only lines with one of these members tell whether a log is a recording."""
MIN_SHORT_ID = 8
"""A short name has at least this many characters of the id that the runtime gave."""
_FIRST_EVENTS = 3
"""The first agent of a recorded session is created within this number of events."""


class ClientSession(NamedTuple):
    """A session of another runtime."""

    runtime: str
    native: str
    """The runtime's id of the session."""

    @property
    def name(self) -> str:
        """The name of the session over all runtimes."""
        return f"{self.runtime}:{self.native}"


def identify_session(client: str, session: str) -> ClientSession | None:
    """Return the session that a client names.

    Return None if it names none, or if it is no runtime with session files.

    >>> identify_session("claude-code", "0f1e").name
    'claude:0f1e'
    """
    runtime = _RUNTIMES.get(client)
    return ClientSession(runtime, session) if runtime and session else None


def read_recorded_session(path: Path) -> ClientSession | None:
    """Return the session of another runtime that a log records. Only its first lines are read.

    Return None for a branch, which is a session of its own although it begins like the recording,
    and for a log that cannot be read: the command that uses it reports why.
    """
    try:
        with open_log(path) as file:
            for line in islice(file, _FIRST_EVENTS):
                if not any(member in line for member in _MEMBERS):
                    continue  # Decoding takes most of the time of a list of many logs.
                event = decode_event(line)
                if isinstance(event, SessionStarted) and event.origin is not None:
                    return None
                spec = event.spec if isinstance(event, AgentCreated) else None
                if spec is not None and spec.foreign is not None:
                    return identify_session(spec.foreign.program, spec.foreign.session or "")
    except (LogError, OSError, ValueError, RecursionError):
        pass
    return None


def shorten_name(name: str, neighbors: Iterable[str]) -> str:
    """Return the shortest name of a session of another runtime.

    neighbors: the names of sessions before and after it, sorted.
    """
    runtime, colon, _ = name.partition(":")
    common = max((_common_length(name, neighbor) for neighbor in neighbors), default=0)
    return name[: max(common + 1, len(runtime + colon) + MIN_SHORT_ID)]


def _common_length(first: str, second: str) -> int:
    """Return the length of the common beginning of two names."""
    pairs = zip(first, second, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
