"""Import reports of source files.

A report is stored as JSON, so that an unchanged source is reported without reading it again.
"""

from __future__ import annotations

import msgspec

from harken.formats.runtimes.evaluation import Label, Score

MAIN_AGENT = "main"
"""The name of the main conversation among the agents of a source."""
MAX_BAD_RECORDS = 100
"""The maximum number of bad lines in a report."""


class ConversationTip(msgspec.Struct, frozen=True):
    """The last commit of a conversation."""

    agent: str
    ctx: str
    session: str = ""
    """The id of the session, if the source has several."""


class SessionReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A session of a source that has several."""

    session: str
    title: str = ""
    ended: str = ""
    outcome: str = ""
    scores: tuple[Score, ...] = ()
    labels: tuple[Label, ...] = ()


class BadRecord(msgspec.Struct, frozen=True):
    """A line that could not be read."""

    line: int
    byte: int
    reason: str


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The result of importing a source."""

    source: str
    format: str | None = None
    """None if the format is unknown."""
    runtime: str = ""
    """The runtime, as users call it."""
    raw: str | None = None
    """The artifact with its bytes."""
    tips: tuple[ConversationTip, ...] = ()
    """The main conversation first."""
    lines: int = 0
    bad_lines: int = 0
    bad: tuple[BadRecord, ...] = ()
    kept: dict[str, int] = {}
    """The number of lines without conversation content, by kind."""
    session: str = ""
    title: str = ""
    folder: str = ""
    version: str = ""
    """The version of the runtime."""
    ended: str = ""
    """The time of the last message, or of the report of the outcome: UTC, RFC 3339."""
    outcome: str = ""
    """How the session ended, as the runtime reports it."""
    scores: tuple[Score, ...] = ()
    labels: tuple[Label, ...] = ()
    sessions: tuple[SessionReport, ...] = ()
    """The sessions of a source that has several. `tips` has the tips of all of them."""
    notes: tuple[str, ...] = ()
    commits: int = 0
    """The number of its commits. Earlier imports may have created some of them."""
    agent_type: str = ""
    """Of a subagent: its type, from the file next to its transcript."""
    task: str = ""
    """Of a subagent: a short description of its task."""
    is_unknown: bool = False
    """Whether the file is empty or of unknown format, and not in the folder of a session."""
    redacted: dict[str, int] = {}
    """Kind -> the number of credentials that were removed before anything was stored."""
    belongs_to: str = ""
    """The session whose folder contains this file of unknown format. Its bytes are stored."""
    orphan: tuple[str, str, str] | None = None
    """Runtime, session and agent of a subagent without a known parent.

    The next import searches again.
    """
    reason: str = ""
    """Why it was not read."""

    @property
    def has_failed(self) -> bool:
        """Whether nothing of the source is stored, although it is not merely of unknown format."""
        return self.format is None and not self.is_unknown and not self.belongs_to


class ImportResult(msgspec.Struct, frozen=True):
    """A source and its new commits."""

    report: Report
    is_unchanged: bool = False
    """Whether the file was not read, because it has not changed."""
    new: int = 0
    """The number of new commits."""
    new_messages: int = 0
    """The number of their messages, without those that a compaction repeats."""
    parsed_bytes: int = 0
    """The number of bytes that were parsed: only the end of a file that grew."""


class ImportProgress(msgspec.Struct, frozen=True):
    """The progress of an import."""

    files: int
    of_files: int
    size_bytes: int
    of_size_bytes: int
