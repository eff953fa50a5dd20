"""Assign commits to agents, and order them.

The commits of an agent are a tree, which is traversed depth first. An abandoned branch is completed
before the next one begins, and the branch that leads to the current commit comes last. So there is
one rewind per branch, however the branches overlap in time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from harken.context.materialize import is_spawn, walk
from harken.core.commits import CommitId
from harken.store.base import Store, StoredCommit


class BranchTip(msgspec.Struct, frozen=True):
    """The last commit of a branch."""

    agent: str
    """The name of the agent."""
    ctx: CommitId


class AgentBranch(msgspec.Struct, frozen=True):
    """The commits of one agent."""

    agent: str
    commits: list[StoredCommit]
    """The commits in order: parents before children."""
    forks: frozenset[CommitId]
    """The commits with more than one child."""

    @property
    def origin(self) -> CommitId | None:
        """The commit of another agent that it starts from."""
        return self.commits[0].commit.parent


def collect_branches(store: Store, ends: Iterable[BranchTip]) -> list[AgentBranch]:
    """Return the commits of each agent, in the order of the agents' first tips.

    The first tip of an agent is its current commit; the others are branches. An agent begins with
    the snapshot that spawned it, or where it forks from another agent. Raises NameNotFound.
    """
    trees: dict[str, _Tree] = {}
    owners: dict[CommitId, str] = {}
    for end in ends:
        tree = trees.setdefault(end.agent, _Tree(end.ctx))
        tree.take(store, end, owners)
    return [tree.lane(agent) for agent, tree in trees.items() if tree.commits]


class _Tree(msgspec.Struct):
    """The commits of one agent while they are collected."""

    tip: CommitId
    commits: dict[CommitId, StoredCommit] = msgspec.field(default_factory=dict)

    def take(self, store: Store, end: BranchTip, owners: dict[CommitId, str]) -> None:
        """Add a commit and its ancestors, up to one that has an owner."""
        if end.ctx in owners:
            return
        for stored in walk(store, end.ctx):
            if owners.setdefault(stored.id, end.agent) != end.agent or stored.id in self.commits:
                return
            self.commits[stored.id] = stored
            if is_spawn(stored):
                return

    def lane(self, agent: str) -> AgentBranch:
        """Return the commits, depth first."""
        children: dict[CommitId | None, list[StoredCommit]] = {}
        for stored in self.commits.values():
            children.setdefault(self._find_parent(stored), []).append(stored)
        path = self._find_path()
        stack: list[StoredCommit] = []
        ordered: list[StoredCommit] = []
        parent: CommitId | None = None
        while True:
            next_commits = children.get(parent, [])
            stack += sorted(next_commits, key=lambda stored: _sort_key(stored, path), reverse=True)
            if not stack:
                forks = frozenset(
                    id_ for id_, siblings in children.items() if id_ and len(siblings) > 1
                )
                return AgentBranch(agent, ordered, forks)
            ordered.append(stack.pop())
            parent = ordered[-1].id

    def _find_parent(self, stored: StoredCommit) -> CommitId | None:
        return stored.commit.parent if stored.commit.parent in self.commits else None

    def _find_path(self) -> Mapping[CommitId, None]:
        """Return the commits that lead to the current commit."""
        path: dict[CommitId, None] = {}
        current: CommitId | None = self.tip if self.tip in self.commits else None
        while current is not None:
            path[current] = None
            current = self._find_parent(self.commits[current])
        return path


def _sort_key(stored: StoredCommit, path: Mapping[CommitId, None]) -> tuple[bool, str, str]:
    return stored.id in path, stored.commit.created_at, stored.id
