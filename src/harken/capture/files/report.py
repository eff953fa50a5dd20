"""Reports: what became of a source.

One idea: a report is a value that is kept as JSON, so that a source that has not changed is told of
without reading it again.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

MAIN = "main"
"""What the main conversation is called among the agents of a source."""
MOST_BAD = 100
"""So many bad lines of a source are told in full."""


class ConversationTip(msgspec.Struct, frozen=True):
    """Where a conversation ends."""

    agent: str
    ctx: str


class BadRecord(msgspec.Struct, frozen=True):
    """A line that could not be read."""

    line: int
    byte: int
    reason: str


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a source."""

    source: str
    format: str | None = None
    """None: nobody here reads it."""
    runtime: str = ""
    """Whose it is, as users call it."""
    raw: str | None = None
    """The artifact with its bytes."""
    tips: tuple[ConversationTip, ...] = ()
    """The main conversation first."""
    lines: int = 0
    bad_lines: int = 0
    bad: tuple[BadRecord, ...] = ()
    kept: dict[str, int] = {}
    """Lines that hold no conversation, by what they are."""
    session: str = ""
    title: str = ""
    folder: str = ""
    version: str = ""
    """Of the runtime."""
    ended: str = ""
    """When the last of it was said: UTC, RFC 3339."""
    notes: tuple[str, ...] = ()
    commits: int = 0
    """How many commits it is; others may have made some of them before."""
    agent_type: str = ""
    """Of a subagent: what kind it is, as the file beside its transcript says."""
    task: str = ""
    """Of a subagent: what it was made for, in a few words."""
    is_unknown: bool = False
    """Whether the file is of no kind that is known, or empty, and lies in no session's folder."""
    belongs_to: str = ""
    """The session whose folder a file lies in that nobody reads: its bytes are kept."""
    orphan: tuple[str, str, str] | None = None
    """Runtime, session and agent, where the parent of a subagent was not found: it is looked for
    again."""
    reason: str = ""
    """Why it was not read."""


@dataclass(frozen=True, slots=True)
class ImportResult:
    """A source, and what is new of it."""

    report: Report
    is_unchanged: bool = False
    """Whether nothing had to be read."""
    new: int = 0
    """How many commits were not there before."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an import is."""

    files: int
    of_files: int
    size_bytes: int
    of_size_bytes: int
