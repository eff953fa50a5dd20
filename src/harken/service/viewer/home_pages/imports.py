"""`ImportService`: the protocol through which the routes import sessions of other runtimes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol, TypeAlias

import msgspec

from harken.core.record import Record


class ImportSource(Record, frozen=True, kw_only=True):
    """The sessions of a runtime that were found on this machine."""

    runtime: str
    """It identifies the source in a request."""
    name: str
    """The name for people."""
    folders: list[str]
    files: int
    sessions: int | None
    """The number of files that are not those of subagents. None if one file has many sessions."""
    size_bytes: int
    newest: str
    """The time of the last change of a file."""
    new_files: int
    """The number of files that were never imported, or have changed since."""


class ImportProblem(Record, frozen=True, kw_only=True):
    """A file that was not imported, or not completely."""

    source: str
    """The path of the file."""
    reason: str
    is_partial: bool
    """Whether the rest of the file was imported."""


ImportPhase: TypeAlias = Literal[
    "none", "searching", "reading", "indexing", "done", "cancelled", "failed"
]


class ImportState(Record, frozen=True, kw_only=True):
    """The state of the last import."""

    phase: ImportPhase = "none"
    """`none`: none was started since the server runs."""
    runtimes: list[str] = msgspec.field(default_factory=list)
    files: int = 0
    """The number of files that were read, of those that are new or have changed."""
    of_files: int = 0
    size_bytes: int = 0
    of_size_bytes: int = 0
    sessions: int = 0
    """The number of sessions with new content that are in the store."""
    commits: int = 0
    messages: int = 0
    unchanged: int = 0
    """The number of files that had not changed."""
    unknown: int = 0
    """The number of files of unknown kinds."""
    redacted: int = 0
    """The number of credentials that were removed before anything was stored."""
    problems: list[ImportProblem] = msgspec.field(default_factory=list)
    """The first of them."""
    problem_count: int = 0
    began: str | None = None
    ended: str | None = None
    is_cancelling: bool = False
    error: str | None = None
    """Why the import failed."""

    @property
    def is_running(self) -> bool:
        """Whether the import has not ended."""
        return self.phase in ("searching", "reading", "indexing")


class ImportRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a request that starts an import."""

    runtimes: Sequence[str]


class ImportService(Protocol):
    """The imports of a home, one at a time. Methods are called by several threads at a time."""

    def list_sources(self) -> list[ImportSource]:
        """Return the sessions of other runtimes on this machine. No file is read."""

    def state(self) -> ImportState:
        """Return the state of the running import, or of the last one."""

    def start(self, runtimes: Sequence[str]) -> ImportState:
        """Start an import of these runtimes.

        Raises RequestRefused if one runs, or if nothing is found of a runtime.
        """

    def cancel(self) -> ImportState:
        """Ask the running import to end. Files that are in the store stay there."""
