"""A text graph of commits, drawn as columns like `git log --graph`.

A column waits for a commit. When that commit is drawn in it, the column waits for the commit's
parent; if another column does so already, the right one of the two is merged into the left one. A
commit has one parent, so read upwards columns only split.

In addition to `git log --graph`, the graph shows where a history begins (with a gap below) and
where it continues but is not shown (`:`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from typing import Literal, TypeAlias

import msgspec

from harken.core.commits import CommitId
from harken.store.base import StoredCommit

Glyph: TypeAlias = Literal["*", "|", "/", "_", ":", " "]
"""`*` is the commit of the row."""


class GraphCell(msgspec.Struct, frozen=True):
    """A character of a graph."""

    glyph: Glyph = " "
    column: int = -1
    """The number of the column that it belongs to, from 0 in the order of creation, or -1."""


class GraphRow(msgspec.Struct, frozen=True):
    """A row of a graph: that of a commit, or one in which columns move."""

    cells: tuple[GraphCell, ...]
    commit: StoredCommit | None = None


def layout_graph(commits: Iterable[StoredCommit]) -> Iterator[GraphRow]:
    """Yield the rows of a graph of commits, newest first, with the commits of a branch together.

    `commits` are ordered newest first. A parent that is not among them is not shown.
    """
    yield from layout_rows(sort_by_branch(commits))


def sort_by_branch(commits: Iterable[StoredCommit]) -> list[StoredCommit]:
    """Sort commits so that branches are not mixed, and parents follow all their children.

    `commits` may have any order. Branches are in the order of their tips.
    """
    by_id = {commit.id: commit for commit in commits}
    numbers = {name: number for number, name in enumerate(by_id)}
    parents = [
        None if commit.commit.parent is None else numbers.get(commit.commit.parent)
        for commit in by_id.values()
    ]
    listed_commits = [*by_id.values()]
    return [listed_commits[number] for number in order_by_branch(parents)]


def order_by_branch(parents: Sequence[int | None]) -> list[int]:
    """Return the numbers of commits in the order of `sort_by_branch`.

    `parents` has, for each commit, the number of its parent, or None if it is not among them.
    """
    children = [0] * len(parents)
    for parent in parents:
        if parent is not None:
            children[parent] += 1
    ordered: list[int] = []
    for tip in [number for number in range(len(parents)) if not children[number]]:
        current: int | None = tip
        while current is not None:
            ordered.append(current)
            parent = parents[current]
            if parent is None:
                break
            children[parent] -= 1
            current = None if children[parent] else parent
    return ordered


class _Column(msgspec.Struct):
    """A column that waits for a commit."""

    awaits: CommitId
    number: int


def layout_rows(commits: Iterable[StoredCommit]) -> Iterator[GraphRow]:
    """Yield the rows of a graph of commits in the given order, lazily in one pass.

    In `commits`, parents must follow all their children.
    """
    columns: list[_Column] = []
    numbers = count()
    gap: GraphRow | None = None
    for commit in commits:
        if gap is not None:
            yield gap
            gap = None
        index = _find_column(columns, commit.id)
        if index is None:
            index = len(columns)
            columns.append(_Column(commit.id, next(numbers)))
        yield GraphRow(_draw_commit(columns, index), commit)
        parent = commit.commit.parent
        parent_index = None if parent is None else _find_column(columns, parent)
        if parent is None:
            gap = GraphRow(_draw_end(columns, index))
            del columns[index]
        elif parent_index is None:
            columns[index].awaits = parent
        else:
            left, right = sorted((index, parent_index))
            yield from _draw_merge(columns, left, right)
            columns[left].awaits = parent
            del columns[right]
    if columns:
        if gap is not None:
            yield gap
        yield GraphRow(_draw_unshown(columns))


def _find_column(columns: Sequence[_Column], name: CommitId) -> int | None:
    return next((index for index, lane in enumerate(columns) if lane.awaits == name), None)


def _draw_commit(columns: Sequence[_Column], index: int) -> tuple[GraphCell, ...]:
    """Return a row of columns that continue, with a commit in one of them."""
    return _fill_row(
        {
            2 * i: GraphCell("*" if i == index else "|", column.number)
            for i, column in enumerate(columns)
        }
    )


def _draw_unshown(columns: Sequence[_Column]) -> tuple[GraphCell, ...]:
    """Return the row of columns with commits that are not shown."""
    return _fill_row({2 * i: GraphCell(":", column.number) for i, column in enumerate(columns)})


def _draw_end(columns: Sequence[_Column], removed: int) -> tuple[GraphCell, ...]:
    """Return the row in which the columns on the right take the place of a column that ended."""
    cells = {2 * i: GraphCell("|", column.number) for i, column in enumerate(columns[:removed])}
    return _fill_row(cells | _shift_left(columns, removed))


def _draw_merge(columns: Sequence[_Column], left: int, right: int) -> Iterator[GraphRow]:
    """Yield the rows in which a column is merged into another.

    The columns on its right take its place. Adjacent columns need one row. Otherwise two: the first
    crosses the columns between them.
    """
    number = columns[right].number
    cells = {2 * i: GraphCell("|", column.number) for i, column in enumerate(columns[:right])}
    crossing = {i: GraphCell("_", number) for i in range(2 * left + 3, 2 * right - 2, 2)}
    arriving = {2 * right - 1: GraphCell("/", number)}
    yield GraphRow(_fill_row(cells | crossing | arriving | _shift_left(columns, right)))
    if right - left > 1:
        remaining = [*columns[:right], *columns[right + 1 :]]
        cells = {2 * i: GraphCell("|", column.number) for i, column in enumerate(remaining)}
        yield GraphRow(_fill_row(cells | {2 * left + 1: GraphCell("/", number)}))


def _shift_left(columns: Sequence[_Column], removed: int) -> dict[int, GraphCell]:
    """Return the cells of the columns on the right of a removed one, which move left."""
    moving = enumerate(columns[removed + 1 :], removed + 1)
    return {2 * i - 1: GraphCell("/", column.number) for i, column in moving}


def _fill_row(cells: dict[int, GraphCell]) -> tuple[GraphCell, ...]:
    return tuple(cells.get(index, GraphCell()) for index in range(max(cells, default=-1) + 1))
