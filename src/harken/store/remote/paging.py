"""Pages of the lists that the service returns.

The position after a page is the text `next`, which the client sends back as `after`. It names the
last row, not a number: rows that are added or removed meanwhile neither repeat nor hide others. A
row that is on no page was added after the list began, or removed before it ended. If the row of a
position is gone from a list that is not sorted, the list begins again: clients skip repetitions.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Generic, TypeVar

import msgspec

from harken.core.commits import ArtifactRef, CommitId
from harken.errors import NameNotFound
from harken.store.base import Store

_NAME_CHARS = "-0123456789abcdefrtx"
"""The characters of names, sorted."""
K = TypeVar("K", bound=str)
V = TypeVar("V")


class Page(msgspec.Struct, Generic[V], frozen=True):
    """Some rows of a list, and the position after them, or None after the last."""

    rows: V
    next: str | None = None


def cut_mapping(rows: Mapping[K, V], after: str, limit: int) -> Page[dict[K, V]]:
    """Return the rows whose names follow a position, sorted by name."""
    names = sorted(name for name in rows if name > after)
    page = names[:limit]
    return Page({name: rows[name] for name in page}, page[-1] if len(names) > limit else None)


def cut_sequence(rows: Sequence[K], after: str, limit: int) -> Page[list[K]]:
    """Return the rows after that of a position, in the order of the list."""
    start = next((number for number, row in enumerate(rows, 1) if row == after), 0)
    page = [*rows[start : start + limit]]
    return Page(page, page[-1] if start + limit < len(rows) else None)


def cut_labels(
    labels: Mapping[str, Sequence[CommitId]], after: str, limit: int
) -> Page[dict[str, list[CommitId]]]:
    """Return pairs of a label and a commit after a position, by label.

    The position is a commit and a label, with a space between them.
    """
    after_commit, _, after_label = after.partition(" ")

    def iter_pairs() -> Iterator[tuple[str, CommitId]]:
        for label in sorted(label for label in labels if label >= after_label):
            position = after_commit if label == after_label else ""
            for name in cut_sequence(labels[label], position, len(labels[label])).rows:
                yield label, name

    pairs = [*islice(iter_pairs(), limit + 1)]
    page: dict[str, list[CommitId]] = {}
    for label, name in pairs[:limit]:
        page.setdefault(label, []).append(name)
    last_label, last_name = pairs[limit - 1] if len(pairs) > limit else ("", None)
    return Page(page, None if last_name is None else f"{last_name} {last_label}")


def list_newest(store: Store, after: str, limit: int) -> Page[list[CommitId]]:
    """List commits that were written before that of a position, newest first. Raises StoreError."""
    before = CommitId(after) if after else None
    try:
        names = store.newest_commits(limit + 1, before=before)
    except NameNotFound:
        names = store.newest_commits(limit + 1)
    return Page(names[:limit], names[limit - 1] if len(names) > limit else None)


def list_names(
    store: Store, prefix: str, after: str, limit: int
) -> Page[list[CommitId | ArtifactRef]]:
    """List names with a prefix that follow a position, sorted. Raises StoreError."""
    if after < prefix:
        names = store.names_with_prefix(prefix, limit + 1)
    else:
        starts_so = after.startswith(prefix)
        names = _list_names_after(store, prefix, after, limit + 1) if starts_so else []
    return Page(names[:limit], names[limit - 1] if len(names) > limit else None)


def _list_names_after(
    store: Store, prefix: str, after: str, limit: int
) -> list[CommitId | ArtifactRef]:
    """Return names with a prefix after another name, by the prefixes that come after it."""
    depth = len(prefix)
    while depth < len(after) and len(store.names_with_prefix(after[:depth], 2)) > 1:
        depth += 1
    names = [name for name in store.names_with_prefix(after[:depth], limit) if name > after]
    for place in range(depth - 1, len(prefix) - 1, -1):
        for char in _NAME_CHARS[bisect_right(_NAME_CHARS, after[place]) :]:
            if len(names) >= limit:
                return names
            names += store.names_with_prefix(after[:place] + char, limit - len(names))
    return names
