"""Lanes of commits, compared with those of git."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harken.context.graph import GraphRow, layout_graph, layout_rows, sort_by_branch
from harken.core.commits import ArtifactRef, Commit, CommitNotes
from harken.store.base import StoredCommit

Parents = Sequence[int | None]
"""The parent of each commit, oldest first; a parent stands before its children."""


def history(parents: Parents) -> list[StoredCommit]:
    """Return commits, newest first; their summaries are their numbers."""
    commits: list[StoredCommit] = []
    for number, parent in enumerate(parents):
        commit = Commit(
            parent=None if parent is None else commits[parent].id,
            artifact=ArtifactRef("art-" + "0" * 64),
            principal=str(number),
            created_at=f"2026-01-01T00:{number // 60:02}:{number % 60:02}.000000Z",
        )
        commits.append(StoredCommit(commit.id, commit, CommitNotes(summary=str(number))))
    return commits[::-1]


def drawn(rows: Sequence[GraphRow]) -> list[str]:
    lines = []
    for row in rows:
        text = "".join(cell.glyph for cell in row.cells)
        name = f" {row.commit.notes.summary}" if row.commit else ""
        lines.append((text + name).rstrip())
    return lines


def assert_no_empty_ends(rows: Sequence[GraphRow]) -> None:
    """Assert that the names of commits follow their lanes without a gap."""
    for row in rows:
        assert not row.cells or row.cells[-1].glyph.strip(), "an empty cell at the end"


def picture(parents: Parents) -> list[str]:
    rows = list(layout_graph(history(parents)))
    assert_no_empty_ends(rows)
    return drawn(rows)


def git(folder: Path, *arguments: str, index: int = 0) -> str:
    moment = f"{1_700_000_000 + index} +0000"
    author = dict.fromkeys(("GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME", "EMAIL"), "a")
    when = dict.fromkeys(("GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"), moment)
    nowhere = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    ran = subprocess.run(
        ["git", *arguments],
        cwd=folder,
        env={**os.environ, **author, **when, **nowhere},
        capture_output=True,
        text=True,
        check=True,
    )
    return ran.stdout.strip("\n")


def drawn_by_git(folder: Path, parents: Parents) -> list[str]:
    """Return the graph that git draws of the same history, with smoothed edges made straight.

    If a lane moves twice in a row, git draws it as `/` beside the commit between, too.
    """
    folder.mkdir()
    git(folder, "init", "-q")
    tree = git(folder, "mktree")
    edges: list[str] = []
    for number, parent in enumerate(parents):
        before = [] if parent is None else ["-p", edges[parent]]
        edges.append(git(folder, "commit-tree", tree, "-m", str(number), *before, index=number))
    tips = [name for number, name in enumerate(edges) if number not in parents]
    graph_text = git(folder, "log", "--graph", "--format=%s", *tips)
    return [_straightened(line.rstrip()) for line in graph_text.splitlines()]


def _straightened(line: str) -> str:
    return "".join(
        "|" if char == "/" and index % 2 == 0 else char for index, char in enumerate(line)
    )


def test_linear_history_has_one_lane() -> None:
    assert picture([None, 0, 1]) == ["* 2", "* 1", "* 0"]


def test_branch_leaves_and_joins_at_its_fork() -> None:
    assert picture([None, 0, 0, 2]) == ["* 3", "* 2", "| * 1", "|/", "* 0"]


def test_lane_crosses_lanes_between() -> None:
    assert picture([None, 0, 1, 1, 0, 0]) == [
        "* 5",
        "| * 4",
        "|/",
        "| * 3",
        "| | * 2",
        "| |/",
        "| * 1",
        "|/",
        "* 0",
    ]


def test_separate_histories_are_distinguished() -> None:
    assert picture([None, None, 1]) == ["* 2", "* 1", "", "* 0"]


def test_lane_marks_a_history_that_continues_unshown() -> None:
    newest = history([None, 0, 1, 0, 3])[:3]
    assert drawn(list(layout_graph(newest))) == ["* 4", "* 3", "| * 2", ": :"]


def test_lane_keeps_its_number_when_it_moves() -> None:
    rows = list(layout_rows(history([None, None, 0, 1, 2])))
    numbers = {row.commit.notes.summary: cell.column for row in rows if row.commit
               for cell in row.cells if cell.glyph == "*"}  # fmt: skip
    assert numbers == {"4": 0, "2": 0, "0": 0, "3": 1, "1": 1}


def test_empty_input_gives_an_empty_graph() -> None:
    assert picture([]) == []


FORKS: list[Parents] = [
    [None, 0, 1],
    [None, 0, 0],
    [None, 0, 0, 2, 1],
    [None, 0, 1, 1, 0, 0, 3],
    [None, 0, 0, 0, 0],
    [None, 0, 1, 2, 3, 2, 1, 0],
    [None, 0, 0, 1, 1, 2, 2, 3, 4],
]


@pytest.mark.parametrize("parents", FORKS)
def test_forks_are_drawn_as_by_git(tmp_path: Path, parents: Parents) -> None:
    assert picture(parents) == drawn_by_git(tmp_path / "r", parents)


@pytest.mark.parametrize(
    "seed",
    [*range(3), *[pytest.param(seed, marks=pytest.mark.full) for seed in range(3, 60)]],
)
def test_random_forks_are_drawn_as_by_git(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    parents = [None, *(random.randrange(max(0, n - 8), n) for n in range(1, 40))]
    assert picture(parents) == drawn_by_git(tmp_path / "r", parents)


@st.composite
def histories(draw: st.DrawFn) -> list[int | None]:
    size = draw(st.integers(1, 30))
    return [draw(st.none() | st.integers(0, n - 1)) if n else None for n in range(size)]


@given(histories(), st.integers(1, 30))
@settings(max_examples=100)
def test_every_commit_has_one_row_after_its_children(
    parents: list[int | None], max_lanes: int
) -> None:
    commits = history(parents)[:max_lanes]
    assert {stored.id for stored in sort_by_branch(commits)} == {stored.id for stored in commits}
    rows = list(layout_graph(commits))
    shown_commits = [row.commit for row in rows if row.commit]
    places = {stored.id: row_index for row_index, stored in enumerate(shown_commits)}
    assert len(places) == len(shown_commits) == len(commits)
    for stored in shown_commits:
        parent = stored.commit.parent
        assert parent is None or parent not in places or places[parent] > places[stored.id]
    _check_continuity(rows)


def _check_continuity(rows: Sequence[GraphRow]) -> None:
    """Follow each commit down its lane to its parent."""
    for number, row in enumerate(rows):
        if row.commit is None or row.commit.commit.parent is None:
            continue
        column_index = next(k for k, cell in enumerate(row.cells) if cell.glyph == "*")
        lane, reached_commit = row.cells[column_index].column, ""
        for below in rows[number + 1 :]:
            column_index, reached_commit = _step(below, column_index, lane)
            lane = below.cells[column_index].column
            if reached_commit:
                break
        assert reached_commit in (row.commit.commit.parent, ":"), drawn(rows)


def _step(row: GraphRow, row_index: int, lane: int) -> tuple[int, str]:
    """Return the lane in the next row and the commit that it reached."""
    own_cells = {k: cell.glyph for k, cell in enumerate(row.cells) if cell.column == lane}
    cells_by_column = {k: cell.glyph for k, cell in enumerate(row.cells)}
    if "/" in own_cells.values():  # the lane moves or crosses others
        assert {own_cells.get(row_index - 1), own_cells.get(row_index - 2)} & {"/", "_"}, (
            "a lane breaks off"
        )
        return min(own_cells), ""
    row_index -= row_index % 2  # the lane arrived in another lane or in its own column
    assert cells_by_column.get(row_index) in ("|", "*", ":"), "a lane breaks off"
    if cells_by_column[row_index] == "*":
        assert row.commit is not None
        return row_index, row.commit.id
    return row_index, ":" if cells_by_column[row_index] == ":" else ""
