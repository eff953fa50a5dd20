"""Lanes: which commits are whose, and in which order they are told.

One idea: the commits of an agent are a tree, and telling them is a walk through it. A branch that
was left is told to its end before the next one begins, and the one that leads to where the agent
is comes last. So there is one way back for each branch, however the branches lie in time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from harken.context.materialize import is_spawn, walk
from harken.core.commits import CommitId
from harken.store.base import Store, StoredCommit


@dataclass(frozen=True, slots=True)
class BranchTip:
    """Where a conversation ends."""

    agent: str
    """Whose it is."""
    ctx: CommitId


@dataclass(frozen=True, slots=True)
class AgentBranch:
    """The commits of one agent."""

    agent: str
    commits: list[StoredCommit]
    """In the order in which they are told: parents before children."""
    forks: frozenset[CommitId]
    """Those that are gone on from more than once."""

    @property
    def origin(self) -> CommitId | None:
        """The commit of another agent that it begins at."""
        return self.commits[0].commit.parent


def lanes_of(store: Store, ends: Iterable[BranchTip]) -> list[AgentBranch]:
    """Return the lanes of agents, in the order in which these are named first.

    The first end of an agent is where it is now; the others are branches. An agent begins with the
    snapshot with which it was spawned, or where it leaves the lane of another one. Raises
    NameNotFound.
    """
    trees: dict[str, _Tree] = {}
    owners: dict[CommitId, str] = {}
    for end in ends:
        tree = trees.setdefault(end.agent, _Tree(end.ctx))
        tree.take(store, end, owners)
    return [tree.lane(agent) for agent, tree in trees.items() if tree.commits]


@dataclass(slots=True)
class _Tree:
    """The commits of one agent, as they are found."""

    tip: CommitId
    commits: dict[CommitId, StoredCommit] = field(default_factory=dict)

    def take(self, store: Store, end: BranchTip, owners: dict[CommitId, str]) -> None:
        """Take a commit and those before it, as far as they are nobody's yet."""
        if end.ctx in owners:
            return
        for one in walk(store, end.ctx):
            if owners.setdefault(one.id, end.agent) != end.agent or one.id in self.commits:
                return
            self.commits[one.id] = one
            if is_spawn(one):
                return

    def lane(self, agent: str) -> AgentBranch:
        """Return the commits in the order in which they are told."""
        below: dict[CommitId | None, list[StoredCommit]] = {}
        for one in self.commits.values():
            below.setdefault(self._parent(one), []).append(one)
        path = self._path()
        waiting: list[StoredCommit] = []
        told: list[StoredCommit] = []
        at: CommitId | None = None
        while True:
            following = below.get(at, [])
            waiting += sorted(following, key=lambda one: _order(one, path), reverse=True)
            if not waiting:
                forks = frozenset(id_ for id_, some in below.items() if id_ and len(some) > 1)
                return AgentBranch(agent, told, forks)
            told.append(waiting.pop())
            at = told[-1].id

    def _parent(self, one: StoredCommit) -> CommitId | None:
        return one.commit.parent if one.commit.parent in self.commits else None

    def _path(self) -> Mapping[CommitId, None]:
        """Return the commits that lead to where the agent is."""
        path: dict[CommitId, None] = {}
        at: CommitId | None = self.tip if self.tip in self.commits else None
        while at is not None:
            path[at] = None
            at = self._parent(self.commits[at])
        return path


def _order(one: StoredCommit, path: Mapping[CommitId, None]) -> tuple[bool, str, str]:
    return one.id in path, one.commit.created_at, one.id
