"""`CodeLibrary`: the protocol through which the routes ask for the writers of lines.

The command implements it for the git repositories that the home knows; this package knows neither
git nor the index of edits. The rows are those of `harken blame`, `why` and `who` with `--json`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import msgspec

from harken.core.record import Record

Tell: TypeAlias = Callable[[int, int], None]
"""Receives the progress of long work. It raises WorkAbandoned when nobody waits for it."""
Rows: TypeAlias = list[dict[str, Any]]


class WorkAbandoned(Exception):
    """The page that asked for long work has left."""


class Repository(Record, frozen=True, kw_only=True):
    """A git repository that the home knows."""

    folder: str
    """Its top folder, by which requests name it."""
    sessions: int
    """The number of sessions that worked in it."""
    is_start: bool
    """Whether the viewer was started in it."""


class UnusableFolder(Record, frozen=True, kw_only=True):
    """A working folder of sessions in which no repository can be read."""

    folder: str
    problem: str
    """`missing`, or `no_repository`."""
    sessions: int


class RepositoryList(Record, frozen=True, kw_only=True):
    """The repositories that the home knows, the one with most sessions first."""

    repositories: list[Repository]
    others: list[UnusableFolder]
    runtimes: dict[str, str]
    """The display names of runtimes."""
    problem: str | None
    """`git_missing`, or None."""


class FolderPage(Record, frozen=True, kw_only=True):
    """A range of the entries of a folder of a repository."""

    total: int
    """The number of entries of the folder."""
    files: int
    """The number of files of the repository."""
    is_shallow: bool
    """Whether the earliest commits are missing: their lines are those of the oldest one."""
    entries: Rows


class CodeFile(msgspec.Struct, frozen=True):
    """A file of a repository in a commit, or in the working tree without a revision."""

    repository: str
    path: str
    revision: str = ""


class FilePage(Record, frozen=True, kw_only=True):
    """A range of the lines of a file."""

    path: str
    commit: str | None
    """The commit of the revision. None for the working tree."""
    total: int
    size: int
    version: str
    """Another one when the file, its history or the recorded edits change."""
    lines: list[str]


class BlamePage(Record, frozen=True, kw_only=True):
    """A range of the lines of a file with their agents."""

    total: int
    version: str
    is_complete: bool
    """False for lines that were attributed before all others: they may change."""
    rows: Rows
    sessions: dict[str, str | None]
    """The names in this viewer of the sessions of the rows. None if it does not have it."""


class ExplainedPage(Record, frozen=True, kw_only=True):
    """Lines by their origin, with links into the page."""

    total: int
    rows: Rows
    sessions: dict[str, str | None]
    """The names in this viewer of the sessions of the rows. None if it does not have it."""
    previous: CodeFile | None
    """The file before the commit that added the lines, if that is one commit."""
    commands: dict[str, str]
    """The command lines that go on with the agent of the first row: `why`, `ask`, and clients."""


class CodeLibrary(Protocol):
    """The lines of the files of known repositories. Used by several threads at a time.

    Every method raises NameNotFound for a repository that the home does not know, and ConfigError
    for a file that git does not track or that has no lines.
    """

    def list_repositories(self) -> RepositoryList:
        """Return the known repositories."""

    def list_folder(self, folder: CodeFile, start: int, stop: int) -> FolderPage:
        """Return a range of the entries of a folder, folders first."""

    def filter_paths(self, repository: str, revision: str, query: str, limit: int) -> list[str]:
        """Return the paths that match a query, the best ones first."""

    def read_lines(self, file: CodeFile, start: int, stop: int) -> FilePage:
        """Return a range of the lines of a file."""

    def blame(
        self, file: CodeFile, lines: range, tell: Tell, send: Callable[[BlamePage], None]
    ) -> BlamePage:
        """Return the lines of a file with their agents.

        Lines that are known earlier than others are sent before.
        """

    def explain(self, file: CodeFile, first: int, last: int, tell: Tell) -> ExplainedPage:
        """Return why lines were written, as `harken why FILE:FIRST-LAST`."""

    def explain_commit(self, repository: str, commit: str, tell: Tell) -> ExplainedPage:
        """Return why the lines were written that a git commit added."""

    def count_shares(self, folder: CodeFile, tell: Tell) -> Mapping[str, Any]:
        """Return the shares of agents below a folder, by folder, and of its own files."""

    def list_sessions(self, file: CodeFile, tell: Tell) -> Rows:
        """Return the sessions that edited a file."""

    def find_lines(
        self, session: str, call: str, paths: Sequence[str], tell: Tell
    ) -> Mapping[str, Any]:
        """Return the lines of today's files that a call of a session wrote.

        `paths`: the files that it edited, as in the call. Raises NameNotFound for an unknown
        session.
        """
