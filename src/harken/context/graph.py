"""Graph: commits and what they were built on, as lanes that run down beside them.

One idea: a lane waits for a commit. The commit that it waits for stands in it, and from then on it
waits for that one's parent; where another lane does already, the right one of the two runs into the
left one. A commit has one parent, so read upwards lanes only split.

The look is that of `git log --graph`; two things are told that git leaves out: where a history
begins (there is a gap below) and where it goes on but is not shown (`:`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Literal, TypeAlias

from harken.core.commits import CommitId
from harken.store.base import StoredCommit

Glyph: TypeAlias = Literal["*", "|", "/", "_", ":", " "]
"""`*`: the commit of the row."""


@dataclass(frozen=True, slots=True)
class GraphCell:
    """One character of a graph."""

    glyph: Glyph = " "
    lane: int = -1
    """The number of the lane that it belongs to, from 0 as they begin; -1: none."""


@dataclass(frozen=True, slots=True)
class GraphRow:
    """One row of a graph: that of a commit, or one in which lanes move."""

    cells: tuple[GraphCell, ...]
    commit: StoredCommit | None = None


def graph(commits: Iterable[StoredCommit]) -> Iterator[GraphRow]:
    """Yield the rows of a graph of commits: the newest first, what belongs together together.

    `commits`: the newest first. A parent that is not among them is not shown.
    """
    yield from lanes(by_line(commits))


def by_line(commits: Iterable[StoredCommit]) -> list[StoredCommit]:
    """Return commits so that a line is not mixed with others, parents after all their children.

    `commits`: in any order; lines come in the order of their tips.
    """
    left = {one.id: one for one in commits}
    children: dict[CommitId, int] = {}
    for one in left.values():
        if one.commit.parent is not None:
            children[one.commit.parent] = children.get(one.commit.parent, 0) + 1
    ordered: list[StoredCommit] = []
    for tip in [one for one in left.values() if one.id not in children]:
        at: StoredCommit | None = tip
        while at is not None:
            ordered.append(at)
            parent = at.commit.parent
            if parent is None or parent not in left:
                break
            children[parent] -= 1
            at = None if children[parent] else left[parent]
    return ordered


@dataclass(slots=True)
class _Lane:
    """A line that waits for a commit."""

    awaits: CommitId
    number: int


def lanes(commits: Iterable[StoredCommit]) -> Iterator[GraphRow]:
    """Yield the rows of a graph of commits in the order that they have, one pass, lazily.

    `commits`: parents after all their children.
    """
    there: list[_Lane] = []
    numbers = count()
    gap: GraphRow | None = None
    for one in commits:
        if gap is not None:
            yield gap
            gap = None
        at = _lane_of(there, one.id)
        if at is None:
            at = len(there)
            there.append(_Lane(one.id, next(numbers)))
        yield GraphRow(_straight(there, at), one)
        parent = one.commit.parent
        joined = None if parent is None else _lane_of(there, parent)
        if parent is None:
            gap = GraphRow(_closing(there, at))
            del there[at]
        elif joined is None:
            there[at].awaits = parent
        else:
            left, right = sorted((at, joined))
            yield from _joining(there, left, right)
            there[left].awaits = parent
            del there[right]
    if there:
        if gap is not None:
            yield gap
        yield GraphRow(_ending(there))


def _lane_of(there: Sequence[_Lane], name: CommitId) -> int | None:
    return next((at for at, lane in enumerate(there) if lane.awaits == name), None)


def _straight(there: Sequence[_Lane], at: int) -> tuple[GraphCell, ...]:
    """Return a row of lanes that go straight on, with a commit in one of them."""
    return _row({2 * k: GraphCell("*" if k == at else "|", n.number) for k, n in enumerate(there)})


def _ending(there: Sequence[_Lane]) -> tuple[GraphCell, ...]:
    """Return the row of lanes whose commits are not shown."""
    return _row({2 * k: GraphCell(":", lane.number) for k, lane in enumerate(there)})


def _closing(there: Sequence[_Lane], gone: int) -> tuple[GraphCell, ...]:
    """Return the row in which those on the right take the place of a lane that ended."""
    found = {2 * k: GraphCell("|", lane.number) for k, lane in enumerate(there[:gone])}
    return _row(found | _moving(there, gone))


def _joining(there: Sequence[_Lane], left: int, right: int) -> Iterator[GraphRow]:
    """Yield the rows in which a lane runs into another, and those on its right take its place.

    One step where they are neighbours. Else two: it crosses what lies between, then arrives.
    """
    number = there[right].number
    found = {2 * k: GraphCell("|", lane.number) for k, lane in enumerate(there[:right])}
    crossing = {k: GraphCell("_", number) for k in range(2 * left + 3, 2 * right - 2, 2)}
    arriving = {2 * right - 1: GraphCell("/", number)}
    yield GraphRow(_row(found | crossing | arriving | _moving(there, right)))
    if right - left > 1:
        rest = [*there[:right], *there[right + 1 :]]
        found = {2 * k: GraphCell("|", lane.number) for k, lane in enumerate(rest)}
        yield GraphRow(_row(found | {2 * left + 1: GraphCell("/", number)}))


def _moving(there: Sequence[_Lane], gone: int) -> dict[int, GraphCell]:
    """Return the lanes on the right of one that is gone, each on its way to its neighbour's."""
    moving = enumerate(there[gone + 1 :], gone + 1)
    return {2 * k - 1: GraphCell("/", lane.number) for k, lane in moving}


def _row(cells: dict[int, GraphCell]) -> tuple[GraphCell, ...]:
    return tuple(cells.get(at, GraphCell()) for at in range(max(cells, default=-1) + 1))
