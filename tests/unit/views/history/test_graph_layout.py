"""The lanes of a graph: lines are connected, do not overlap, and do not depend on the range."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from harken.views.history.graph_layout import MAX_LANES, GraphLayout

Parents = Sequence[int | None]


@st.composite
def histories(draw: st.DrawFn) -> Parents:
    """Return the rows of parents: each is below its children."""
    count = draw(st.integers(1, 40))
    parents: list[int | None] = []
    for row in range(count):
        is_root = row == count - 1 or draw(st.integers(0, 9)) == 0
        parents.append(None if is_root else draw(st.integers(row + 1, count - 1)))
    return parents


def read_lanes(layout: GraphLayout, start: int, stop: int) -> list[list[int]]:
    return [[edge.lane for edge in row.edges] for row in layout.iter_passing(start, stop)]


def test_a_chain_has_one_lane() -> None:
    layout = GraphLayout([1, 2, None])
    assert [*layout.lanes] == [0, 0, 0]
    assert [layout.is_tip(row) for row in range(3)] == [True, False, False]
    assert read_lanes(layout, 0, 3) == [[], [], []]


def test_a_branch_has_a_lane_beside_until_its_parent() -> None:
    #  0 main tip, 1 tip of a branch, 2 its first commit, 3 where both part, 4 the root
    layout = GraphLayout([3, 2, 3, 4, None])
    assert [*layout.lanes] == [0, 1, 1, 0, 0]
    assert read_lanes(layout, 0, 5) == [[], [0], [0], [], []]


def test_a_lane_is_free_after_the_root_of_its_history() -> None:
    assert [*GraphLayout([1, None, 3, None]).lanes] == [0, 0, 0, 0]


def test_lanes_beyond_the_shown_ones_are_counted() -> None:
    count = MAX_LANES + 3
    # The tips come first; their parents follow in the same order.
    layout = GraphLayout([*range(count, 2 * count), *([None] * count)])
    rows = [*layout.iter_passing(0, 2 * count)]
    assert rows[count - 1].hidden == 2
    assert len(rows[count - 1].edges) == MAX_LANES
    assert rows[-1].hidden == 0


@given(histories())
def test_no_two_lines_are_in_one_lane(parents: Parents) -> None:
    layout = GraphLayout(parents)
    for row, passing in enumerate(layout.iter_passing(0, len(parents))):
        lanes = [layout.lanes[row], *(edge.lane for edge in passing.edges)]
        assert len(set(lanes)) == len(lanes)


@given(histories())
def test_every_commit_leads_to_its_parent(parents: Parents) -> None:
    layout = GraphLayout(parents)
    rows = [*layout.iter_passing(0, len(parents))]
    for row, parent in enumerate(parents):
        if parent is None:
            continue
        assert not layout.is_tip(parent)
        for between in range(row + 1, parent):
            assert layout.lanes[parent] in {edge.lane for edge in rows[between].edges}


@given(histories(), st.data())
def test_a_range_is_a_part_of_the_whole(parents: Parents, data: st.DataObject) -> None:
    layout = GraphLayout(parents)
    start = data.draw(st.integers(0, len(parents)))
    stop = data.draw(st.integers(start, len(parents)))
    assert read_lanes(layout, start, stop) == read_lanes(layout, 0, len(parents))[start:stop]
