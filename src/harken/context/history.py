"""Queries of commits: one commit, its history, a principal's last commit, and the diff of two."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from typing import Protocol, runtime_checkable

import msgspec

from harken.context.checkpoint import normalize_time
from harken.context.commit_content import read_commit_messages
from harken.context.materialize import select_commits, walk
from harken.core.arguments import check_arguments
from harken.core.clock import parse_rfc3339
from harken.core.commits import CommitId, CommitNotes, check_labels
from harken.core.messages import Message
from harken.errors import NameNotFound, NotesConflict
from harken.store.base import NO_LIMIT, CommitLink, Store, StoredCommit

_MAX_ATTEMPTS = 20
"""The number of attempts to update notes if concurrent writers interfere."""
_BATCH = 1000


def get_commit(store: Store, ctx: CommitId) -> StoredCommit:
    """Return a commit, also if its artifact no longer exists.

    Raises NameNotFound.
    """
    stored = store.commits([ctx]).get(ctx)
    if stored is None:
        raise NameNotFound("commit", ctx, store.names_with_prefix("ctx-", 13))
    return stored


@check_arguments
def commit_history(store: Store, ctx: CommitId, depth: int | None = None) -> list[StoredCommit]:
    """Return a commit and its ancestors, newest first, at most `depth` commits.

    The history of a subagent continues into that of its parent. Raises NameNotFound.
    """
    if depth is not None and depth < 1:
        raise ValueError(f"a history has a depth of 1 or more, not {depth}")
    return store.chain(ctx, depth)


def iter_histories(store: Store, tips: Iterable[CommitId]) -> Iterator[StoredCommit]:
    """Yield commits and their ancestors without duplicates, newest first, lazily.

    If clocks disagree, a commit may precede its descendant in another branch. Raises NameNotFound.
    """
    walks = [walk(store, tip) for tip in dict.fromkeys(tips)]
    heads = [(_sort_key(commit), index, commit) for index, commit in enumerate(map(next, walks))]
    heapify(heads)
    visited: set[CommitId] = set()
    while heads:
        _, index, commit = heappop(heads)
        if commit.id in visited:
            continue  # Another walk has yielded this commit and its ancestors.
        visited.add(commit.id)
        yield commit
        following = next(walks[index], None)
        if following is not None:
            heappush(heads, (_sort_key(following), index, following))


def _sort_key(stored: StoredCommit) -> int:
    return -parse_rfc3339(stored.commit.created_at)


@runtime_checkable
class _LinkStore(Protocol):
    """A store that knows the links of commits without reading the commits."""

    def commit_links(self) -> list[CommitLink]:
        """Return the links of all commits, the last written first."""
        ...


def read_commit_links(store: Store) -> list[CommitLink]:
    """Return the links of all commits, the last written first. Raises StoreError.

    A store that has no table of links reads every commit.
    """
    if isinstance(store, _LinkStore):
        return store.commit_links()
    links: list[CommitLink] = []
    names = store.newest_commits(NO_LIMIT)
    for start in range(0, len(names), _BATCH):
        batch = names[start : start + _BATCH]
        commits = store.commits(batch)
        links += [_build_link(commits[name]) for name in batch if name in commits]
    return links


def _build_link(stored: StoredCommit) -> CommitLink:
    commit = stored.commit
    time_us = parse_rfc3339(commit.created_at)
    return CommitLink(stored.id, commit.parent, time_us, commit.principal)


END_OF_TIME = "9999-12-31T23:59:59.999999Z"
"""A time after every commit."""


def resolve(store: Store, principal: str, time: str) -> CommitId | None:
    """Return a principal's last commit at or before a time, or None.

    Raises ValueError if `time` is not an RFC 3339 time with a time zone.
    """
    return store.latest_commit(principal, normalize_time(time))


def update_metadata(
    store: Store,
    ctx: CommitId,
    *,
    summary: str | None = None,
    labels: Iterable[str] | None = None,
    by: str = "",
    instead_of: str | None = None,
    instead_of_labels: Iterable[str] | None = None,
) -> CommitNotes:
    """Replace the summary or the labels of a commit, and return its notes.

    `by` is the model that wrote the summary. With `instead_of`, only that summary is replaced, with
    `instead_of_labels` only these labels. Nothing else in a commit can change. Raises NameNotFound;
    ValueError for an empty summary, since a commit always has one; NotesConflict if it has another
    summary or other labels, or other writers change it repeatedly.
    """
    if summary is not None and not summary.strip():
        raise ValueError("the summary is blank, but a commit needs one")
    new_labels = None if labels is None else tuple(dict.fromkeys(labels))
    check_labels(new_labels or ())
    expected_labels = None if instead_of_labels is None else tuple(instead_of_labels)
    for attempts_left in reversed(range(_MAX_ATTEMPTS)):
        old_notes = get_commit(store, ctx).notes
        if instead_of not in (None, old_notes.summary):
            raise NotesConflict("the store", ctx)
        if expected_labels not in (None, old_notes.labels):
            raise NotesConflict("the store", ctx)
        notes = CommitNotes(
            summary=old_notes.summary if summary is None else summary,
            derived=old_notes.derived and summary is None,
            summarized_by=old_notes.summarized_by if summary is None else by,
            labels=old_notes.labels if new_labels is None else new_labels,
        )
        try:
            store.update_notes(ctx, notes, was=old_notes)
            break
        except NotesConflict:
            if not attempts_left:
                raise
    return notes


def move_labels(
    store: Store, labels: Sequence[str], source: CommitId, target: CommitId
) -> CommitNotes:
    """Move labels from one commit to another, and return the notes of the second.

    After a crash in between, both have them. Raises NameNotFound if a commit does not exist, or the
    first one lacks a label; NotesConflict if another writer interferes.
    """
    source_labels = get_commit(store, source).notes.labels
    for label in labels:
        if label not in source_labels:
            raise NameNotFound("label", label, source_labels)
    before = get_commit(store, target).notes
    if source == target:
        return before
    notes = update_metadata(
        store, target, labels=(*before.labels, *labels), instead_of_labels=before.labels
    )
    remaining = [label for label in source_labels if label not in labels]
    update_metadata(store, source, labels=remaining, instead_of_labels=source_labels)
    return notes


class CommitDiff(msgspec.Struct, frozen=True):
    """The common ancestor of two commits, and the messages of each since then."""

    ancestor: CommitId | None
    """The last common ancestor, or None."""
    ours: list[Message]
    theirs: list[Message]


@check_arguments
def diff(store: Store, ours: CommitId, theirs: CommitId) -> CommitDiff:
    """Compare two commits. Raises NameNotFound, ObjectNotFound.

    The messages since the ancestor are complete: compactions and snapshots are passed over.
    """
    ancestor = find_common_ancestor(store, ours, theirs)
    return CommitDiff(
        ancestor, *(_read_messages_since(store, ancestor, ctx) for ctx in (ours, theirs))
    )


@runtime_checkable
class _AncestorStore(Protocol):
    """A store that finds common ancestors without reading commits."""

    def common_ancestor(self, one: CommitId, other: CommitId) -> CommitId | None:
        """Return the last commit in the histories of both commits, or None."""
        ...


def find_common_ancestor(store: Store, one: CommitId, other: CommitId) -> CommitId | None:
    """Return the last commit in both histories, including both commits, or None.

    The cost is that of the way to that commit. Raises NameNotFound.
    """
    if isinstance(store, _AncestorStore):
        return store.common_ancestor(one, other)
    walks = [walk(store, one), walk(store, other)]
    seen: list[set[CommitId]] = [set(), set()]
    open_sides = [0, 1]
    while open_sides:
        for side in list(open_sides):
            stored = next(walks[side], None)
            if stored is None:
                open_sides.remove(side)
            elif stored.id in seen[1 - side]:
                return stored.id
            else:
                seen[side].add(stored.id)
    return None


def _read_messages_since(store: Store, ancestor: CommitId | None, ctx: CommitId) -> list[Message]:
    """Return the messages of a commit after its ancestor, or all its messages."""
    commits = (
        select_commits(store, ctx, "root")
        if ancestor is None
        else _select_after(store, ancestor, ctx)
    )
    return read_commit_messages(store, commits)


def _select_after(store: Store, ancestor: CommitId, ctx: CommitId) -> list[StoredCommit]:
    """Return the commits after an ancestor, without reading those before it."""
    try:
        return select_commits(store, ctx, ancestor)[1:]
    # A subagent was spawned in between, which did not read the messages before.
    except NameNotFound:
        return select_commits(store, ctx, "root")
