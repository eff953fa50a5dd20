"""What commits stand for, in plain lists: the model that every store is held against.

Nothing is walked here: what a commit gives, wherever a walk stops, is said when it is made.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from harken.core.commits import CommitId

Said: TypeAlias = tuple[str, str]
"""A role and a text."""


@dataclass(frozen=True, kw_only=True)
class Seen:
    """One commit: its place, and the conversation that it gives at each stop."""

    path: tuple[CommitId, ...]
    """It and those before it, newest first."""
    own: list[Said]
    default: list[Said]
    """To the nearest compaction or snapshot."""
    full: list[Said]
    """To the root."""
    later: dict[CommitId, list[Said]]
    """What followed each commit of the path, back to where the agent began."""
    owns: dict[CommitId, list[Said]]
    """What each commit of the path has itself."""

    def since(self, stop: CommitId) -> list[Said] | None:
        """From a commit before it, that one included. None: it is not before it."""
        return self.owns[stop] + self.later[stop] if stop in self.later else None

    def after(self, ancestor: CommitId | None) -> list[Said]:
        """Return what was seen after a commit; all, where it is none or others saw it."""
        return self.full if ancestor is None else self.later.get(ancestor, self.full)


def begun(ctx: CommitId, said: list[Said], path: tuple[CommitId, ...] = ()) -> Seen:
    """Return a commit with which an agent begins: a root, or a subagent's snapshot."""
    return Seen(
        path=(ctx, *path), own=said, default=said, full=said, later={ctx: []}, owns={ctx: said}
    )


def grown(parent: Seen, ctx: CommitId, said: list[Said]) -> Seen:
    """Return a delta on a commit."""
    return Seen(
        path=(ctx, *parent.path),
        own=said,
        default=parent.default + said,
        full=parent.full + said,
        later={stop: more + said for stop, more in parent.later.items()} | {ctx: []},
        owns=parent.owns | {ctx: said},
    )


def stood_for(parent: Seen, ctx: CommitId, said: list[Said]) -> Seen:
    """Return a compaction or snapshot on a commit: what is read from now on, and no more."""
    return Seen(
        path=(ctx, *parent.path),
        own=said,
        default=said,
        full=parent.full,
        later=parent.later | {ctx: []},
        owns=parent.owns | {ctx: said},
    )


def common(one: Seen, other: Seen) -> CommitId | None:
    """Return the last commit in both paths."""
    return next((ctx for ctx in one.path if ctx in other.path), None)
