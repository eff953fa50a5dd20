"""What commits stand for, in plain lists: the model that every store is held against.

Nothing is walked here: what a commit gives, wherever a walk stops, is said when it is made.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from harken.core.commits import CommitId

Content: TypeAlias = tuple[str, str]
"""A role and a text."""


@dataclass(frozen=True, kw_only=True)
class BranchView:
    """One commit: its place, and the conversation that it gives at each stop."""

    path: tuple[CommitId, ...]
    """It and those before it, newest first."""
    own: list[Content]
    default: list[Content]
    """To the nearest compaction or snapshot."""
    full: list[Content]
    """To the root."""
    later: dict[CommitId, list[Content]]
    """What followed each commit of the path, back to where the agent began."""
    owns: dict[CommitId, list[Content]]
    """What each commit of the path has itself."""

    def since(self, stop: CommitId) -> list[Content] | None:
        """From a commit before it, that one included. None: it is not before it."""
        return self.owns[stop] + self.later[stop] if stop in self.later else None

    def after(self, ancestor: CommitId | None) -> list[Content]:
        """Return what was seen after a commit; all, where it is none or others saw it."""
        return self.full if ancestor is None else self.later.get(ancestor, self.full)


def begin_view(
    ctx: CommitId, messages: list[Content], path: tuple[CommitId, ...] = ()
) -> BranchView:
    """Return a commit with which an agent begins: a root, or a subagent's snapshot."""
    return BranchView(
        path=(ctx, *path),
        own=messages,
        default=messages,
        full=messages,
        later={ctx: []},
        owns={ctx: messages},
    )


def extend_view(parent: BranchView, ctx: CommitId, messages: list[Content]) -> BranchView:
    """Return a delta on a commit."""
    return BranchView(
        path=(ctx, *parent.path),
        own=messages,
        default=parent.default + messages,
        full=parent.full + messages,
        later={stop: earlier + messages for stop, earlier in parent.later.items()} | {ctx: []},
        owns=parent.owns | {ctx: messages},
    )


def compact_view(parent: BranchView, ctx: CommitId, messages: list[Content]) -> BranchView:
    """Return a compaction or snapshot on a commit: what is read from now on, and no more."""
    return BranchView(
        path=(ctx, *parent.path),
        own=messages,
        default=messages,
        full=parent.full,
        later=parent.later | {ctx: []},
        owns=parent.owns | {ctx: messages},
    )


def common(left: BranchView, right: BranchView) -> CommitId | None:
    """Return the last commit in both paths."""
    return next((ctx for ctx in left.path if ctx in right.path), None)
