"""Find the commits that one store has and another lacks, in a few requests.

A store lists its commits in the order in which they were written. So the new ones are before the
newest one of the last transfer (the cursor), and their number decides the cost, not the length of
the history. If the cursor is gone, all names are listed.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from harken.core.commits import CommitId
from harken.store.base import NO_LIMIT, Store

_FIRST_LIMIT = 256
_GROWTH = 8
OVERLAP = 64
"""Commits behind the cursor that are compared as well: two writers may finish in another order."""
_COMMITS_PER_BATCH = 2000


class RecentCommits(msgspec.Struct, frozen=True):
    """The commits of a store since the cursor, oldest first, parents before children."""

    names: list[CommitId]
    newest: str
    """The next cursor: the newest commit. Empty if there is none."""
    is_complete: bool
    """Whether these are all commits of the store: there was no cursor, or it is gone."""


def list_recent_commits(store: Store, cursor: str) -> RecentCommits:
    """List the commits of a store since a cursor, and a few before it. Raises StoreError."""
    limit = _FIRST_LIMIT if cursor else NO_LIMIT
    while True:
        names = store.newest_commits(limit)
        newest = names[0] if names else ""
        if cursor in names:
            names = names[: names.index(CommitId(cursor)) + 1 + OVERLAP]
            return RecentCommits(names[::-1], newest, is_complete=False)
        if len(names) < limit or limit == NO_LIMIT:
            return RecentCommits(names[::-1], newest, is_complete=True)
        limit = min(limit * _GROWTH, NO_LIMIT)


def select_missing(store: Store, names: list[CommitId]) -> list[CommitId]:
    """Return those of the names that a local store lacks, in their order. Raises StoreError."""
    missing: list[CommitId] = []
    for batch in iter_batches(names):
        existing = store.commits(batch)
        missing += [name for name in batch if name not in existing]
    return missing


def iter_batches(names: list[CommitId], size: int = _COMMITS_PER_BATCH) -> Iterator[list[CommitId]]:
    """Yield names in batches."""
    for start in range(0, len(names), size):
        yield names[start : start + size]
