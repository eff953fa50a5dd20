"""The lanes of a graph of commits, one row for each commit.

A lane belongs to a line of descent from the row of its newest commit down to the row where another
lane has its parent, or to its root. It does not change its position in between, and is then free
for another line. A parent has the lane of the first of its children; the others lead to it in the
row below them. A commit has at most one parent, so lanes only join downwards.

The layout of the whole history is a few integers for each commit, and a range of rows is drawn from
it without those above. So a page of a history costs the same at any position.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from itertools import accumulate
from typing import NamedTuple

MAX_LANES = 24
"""The number of lanes that a row shows. Those beyond it are counted."""


class Edge(NamedTuple):
    """A line from a commit to its parent, which passes the rows between them."""

    child: int
    """The row of the commit."""
    parent: int
    """The row of its parent."""
    lane: int


class RowLanes(NamedTuple):
    """The lines that pass a row without a commit in it."""

    edges: list[Edge]
    """Those in the shown lanes, from left to right."""
    hidden: int
    """The number of lines beyond them."""


class GraphLayout:
    """The lanes of all rows."""

    def __init__(self, parents: Sequence[int | None]) -> None:
        """Lay out rows, newest first. Each parent is below all its children.

        `parents` has the row of each commit's parent, or None if it has none that is shown.
        """
        self.lanes = array("i", bytes(4 * len(parents)))
        """The lane of each row's commit."""
        self._tips = bytearray(len(parents))
        self._edges: list[Edge] = []
        self._lay_out(parents)

    def _lay_out(self, parents: Sequence[int | None]) -> None:
        lane_by_row: dict[int, int] = {}
        free: list[int] = []
        lane_count = 0
        for row, parent in enumerate(parents):
            lane = lane_by_row.pop(row, None)
            if lane is None:
                self._tips[row] = 1
                lane = heappop(free) if free else lane_count
                lane_count = max(lane_count, lane + 1)
            self.lanes[row] = lane
            if parent is None or parent in lane_by_row:
                heappush(free, lane)
                continue
            lane_by_row[parent] = lane
            if parent > row + 1:
                self._edges.append(Edge(row, parent, lane))

    def is_tip(self, row: int) -> bool:
        """Whether no line leads to a commit from above."""
        return bool(self._tips[row])

    def iter_passing(self, start: int, stop: int) -> Iterator[RowLanes]:
        """Yield the lanes that pass each row of a range."""
        shown: list[Edge] = []
        hidden_changes = [0] * (stop - start + 1)
        for edge in self._edges:
            first, end = max(edge.child + 1, start), min(edge.parent, stop)
            if first >= end:
                continue
            if edge.lane < MAX_LANES:
                shown.append(edge)
            else:
                hidden_changes[first - start] += 1
                hidden_changes[end - start] -= 1
        shown.sort(key=lambda edge: edge.lane)
        for row, hidden in zip(range(start, stop), accumulate(hidden_changes), strict=False):
            yield RowLanes([edge for edge in shown if edge.child < row < edge.parent], hidden)
