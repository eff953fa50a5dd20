"""`CommitHistory`: the protocol through which the routes read commits and change their names.

The command implements it for the store of a home.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import msgspec

from harken.core.commits import CommitId
from harken.core.record import Record
from harken.service.viewer.home_pages.commit_agents import CommitAgentName
from harken.views.history.commit_comparison import CommitComparison
from harken.views.history.commit_graph import HistoryRow


class SessionSelection(msgspec.Struct, frozen=True):
    """The commits of a session, as its events name them."""

    session: str
    agents: Mapping[CommitId, str]
    """Commit -> the id of its agent."""


class GraphPage(Record, frozen=True, kw_only=True):
    """A range of the rows of a graph, newest first."""

    total: int
    version: str
    """Another text when the order of the rows may have changed."""
    rows: list[HistoryRow]
    authors: Mapping[CommitId, CommitAgentName]
    """Of the commits of rows and lines."""


class CommitPosition(Record, frozen=True, kw_only=True):
    """The commit that a name stands for, and its row in the graph."""

    id: CommitId
    row: int | None
    """None if the graph does not show the commit."""
    version: str


class CommitBrief(Record, frozen=True, kw_only=True):
    """A commit in a list of another one."""

    id: CommitId
    type: str
    agent_name: str
    summary: str


class CommitMessage(Record, frozen=True, kw_only=True):
    """A message that a commit has."""

    heading: str
    text: str


class CommitDetails(NamedTuple):
    """A commit, with the commits beside it and its own messages."""

    commit: HistoryRow
    session: str | None
    """The session of the library that it is of."""
    author: CommitAgentName
    parent: CommitBrief | None
    children: list[CommitBrief]
    child_count: int
    messages: Sequence[CommitMessage]
    """The messages that it adds to its parent; of a compaction or snapshot, all that it has."""


class ComparedCommits(NamedTuple):
    """Two commits, and the comparison of what a model reads at each."""

    before: HistoryRow
    after: HistoryRow
    authors: Mapping[CommitId, CommitAgentName]
    ancestor: CommitId | None
    comparison: CommitComparison


class CommitNameRow(Record, frozen=True, kw_only=True):
    """A branch or a label, and its commit."""

    kind: str
    """`branch` or `label`."""
    name: str
    commit: CommitId


class CommitNames(Record, frozen=True, kw_only=True):
    """The first branches and labels that match."""

    total: int
    names: list[CommitNameRow]


class CommitHistory(Protocol):
    """The commits of a home. Methods are called by several threads at a time.

    A commit is named by its full id; `find` resolves other names. All methods raise NameNotFound
    for a commit that does not exist, and StoreError. Those that change a name raise ConfigError for
    an invalid one, and NotesConflict or BranchConflict if another writer has changed it.
    """

    def read_rows(self, session: SessionSelection | None, start: int, stop: int) -> GraphPage:
        """Return a range of the graph of a session and its ancestors, or of all commits."""

    def find(self, session: SessionSelection | None, name: str) -> CommitPosition:
        """Return the commit with a name as on a command line: an id, a branch, a label, ..."""

    def list_names(self, text: str, limit: int) -> CommitNames:
        """Return branches and labels that contain a text, sorted, branches first."""

    def describe(self, commit: CommitId) -> CommitDetails:
        """Return a commit with its messages. Raises ObjectNotFound, ObjectCorrupted."""

    def read_text(self, commit: CommitId, position: int) -> str:
        """Return a message that a model reads at a commit. Raises as `describe`."""

    def compare(self, before: CommitId, after: CommitId) -> ComparedCommits:
        """Compare two commits. Raises ObjectNotFound, ObjectCorrupted."""

    def set_labels(
        self, commit: CommitId, labels: Sequence[str], expected: Sequence[str]
    ) -> Sequence[str]:
        """Replace the expected labels of a commit, and return the new ones."""

    def move_label(self, label: str, source: CommitId, target: CommitId) -> None:
        """Move a label from one commit to another."""

    def set_branch(self, name: str, to: CommitId | None, expected: CommitId | None) -> None:
        """Move a branch from its expected commit. Without one it must not exist.

        A branch that is moved to no commit is deleted.
        """

    def rename_branch(self, name: str, new_name: str, expected: CommitId) -> None:
        """Rename a branch that is at the expected commit."""
