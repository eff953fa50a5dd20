"""Branches of a remote: its last known heads, and own branches that follow them.

As in git, the heads of the remote are recorded under its name (`origin/main`), in the mirror and
not among the branches of the store: so they are not pushed, and other homes do not see them. A
branch here is moved only forwards, to a commit that continues it.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from harken.core.commits import CommitId
from harken.errors import BranchConflict, ConfigError, HarkenError, NameNotFound
from harken.remotes.mirror import Mirror
from harken.remotes.service import RemoteHome
from harken.store.base import Store
from harken.store.branches import check_branch
from harken.store.remote.errors import REFUSALS

BranchChange: TypeAlias = Literal[
    "new", "moved", "ahead", "behind", "diverged", "deleted", "refused"
]
"""`new`, `moved`: the branch follows the other side. `ahead`, `behind`: this side, or the other,
has later commits. `deleted`: the branch was deleted on the other
side. `refused`: its name is invalid.
"""


class Refusal(msgspec.Struct, frozen=True):
    """Content that the remote did not accept. The transfer went on without it."""

    subject: str
    """A commit, a branch, or a kind of content: `tickets`."""
    reason: str


class BranchResult(msgspec.Struct, frozen=True):
    """A branch that was moved, or that differs on both sides."""

    name: str
    change: BranchChange
    local: CommitId | None
    remote: CommitId | None


def is_ancestor(store: Store, ancestor: CommitId, name: CommitId) -> bool:
    """Whether a commit is another one, or among its ancestors, in a local store."""
    step = 64
    current: CommitId | None = name
    while current is not None:
        try:
            chain = store.chain(current, step)
        except NameNotFound:
            return False
        if any(stored.id == ancestor for stored in chain):
            return True
        current = chain[-1].commit.parent if chain else None
        step = min(step * 4, 4096)
    return False


def pull_branches(
    store: Store, remote_heads: dict[str, CommitId], mirror: Mirror, *, dry_run: bool = False
) -> list[BranchResult]:
    """Move the branches of the store that the remote continues, and create new ones.

    there: the heads of the remote, whose commits are in the store. A branch that was deleted here
    is not created again until it moves. Raises StoreError.
    """
    known_heads = mirror.branches()
    local_heads = store.branches()
    results: list[BranchResult] = []
    valid: dict[str, CommitId] = {}
    for name, head in remote_heads.items():
        try:
            check_branch(name)
        except ConfigError:
            results.append(BranchResult(name, "refused", None, head))
            continue
        valid[name] = head
        change = _compare(store, local_heads.get(name), head, known_heads.get(name))
        if change in ("new", "moved") and not dry_run:
            try:
                store.move_branch(name, head, expected=local_heads.get(name))
            except (BranchConflict, NameNotFound):
                change = "diverged"  # Another process moved it meanwhile.
        if change is not None:
            results.append(BranchResult(name, change, local_heads.get(name), head))
    results += [
        BranchResult(name, "deleted", local_heads[name], None)
        for name in known_heads
        if name in local_heads and name not in remote_heads
    ]
    if not dry_run:
        mirror.write_branches(valid)
    return results


def _compare(
    store: Store, local: CommitId | None, remote: CommitId, known_heads: CommitId | None
) -> BranchChange | None:
    """Return the change of a local branch, or None if it stays as it is for a usual reason."""
    if local == remote:
        return None
    if local is None:
        return None if known_heads == remote else "new"
    if is_ancestor(store, local, remote):
        return "moved"
    return "ahead" if is_ancestor(store, remote, local) else "diverged"


def push_branches(
    store: Store,
    remote: RemoteHome,
    mirror: Mirror,
    refusals: list[Refusal],
    *,
    dry_run: bool = False,
) -> list[BranchResult]:
    """Move the branches of the remote that the store continues, and create new ones.

    refusals: those that the remote does not accept are added. Raises StoreError.
    """
    remote_heads = remote.branches()
    results: list[BranchResult] = []
    for name, head in store.branches().items():
        before = remote_heads.get(name)
        change = _compare_push(store, head, before)
        if change in ("new", "moved") and not dry_run:
            try:
                remote.move_branch(name, head, expected=before)
            except BranchConflict:
                change = "diverged"
            except REFUSALS as error:
                refusals.append(Refusal(f"branch {name}", str(error)))
                continue
            else:
                mirror.write_branch(name, head)
        if change is not None:
            results.append(BranchResult(name, change, head, before))
    return results


def _compare_push(store: Store, local: CommitId, remote: CommitId | None) -> BranchChange | None:
    if local == remote:
        return None
    if remote is None:
        return "new"
    try:
        if is_ancestor(store, remote, local):
            return "moved"
        return "behind" if is_ancestor(store, local, remote) else "diverged"
    except HarkenError:
        return "diverged"
