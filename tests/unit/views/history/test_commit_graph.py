"""The rows of the commits of a store, and of a session with its ancestors."""

from __future__ import annotations

from typing import Any

from harken.context.checkpoint import CommitOrigin
from harken.context.graph import sort_by_branch
from harken.context.history import read_commit_links
from harken.core.commits import CommitId
from harken.store.base import NO_LIMIT, Store
from harken.store.memory import MemoryStore
from harken.store.sqlite.store import SqliteStore
from harken.views.history.commit_graph import CommitGraph, HistoryRow
from tests.unit.context.kit import commit


def build_rows(store: Store, graph: CommitGraph) -> list[HistoryRow]:
    names = [link.id for link in graph.links]
    commits = store.commits(names)
    return graph.build_rows(0, [commits[name] for name in names], {})


def write_fork(store: Store) -> dict[str, CommitId]:
    """Write a history that parts into two; the minutes are those of their times."""

    def add(minute: int, parent: CommitId | None, **members: Any) -> CommitId:
        time = f"2026-01-01T00:{minute:02}:00Z"
        return commit(store, parent, f"text {minute}", created_at=time, **members)

    root = add(1, None)
    fork = add(2, root)
    left = add(3, fork)
    right = add(4, fork)
    return {"root": root, "fork": fork, "left": left, "right": right, "tip": add(5, left)}


def test_rows_are_in_the_order_of_the_terminal_graph(tmp_path: Any) -> None:
    with_table, without_table = SqliteStore(tmp_path / "store.db"), MemoryStore()
    for store in (with_table, without_table):
        write_fork(store)
        graph = CommitGraph(read_commit_links(store))
        newest = store.commits(store.newest_commits(NO_LIMIT)).values()
        by_time = sorted(newest, key=lambda stored: stored.commit.created_at, reverse=True)
        assert [link.id for link in graph.links] == [
            stored.id for stored in sort_by_branch(by_time)
        ]
    assert {*read_commit_links(with_table)} == {*read_commit_links(without_table)}
    with_table.close()


def test_a_fork_has_a_lane_of_its_own() -> None:
    store = MemoryStore()
    names = write_fork(store)
    rows = build_rows(store, CommitGraph(read_commit_links(store)))
    order = [names[key] for key in ("tip", "left", "right", "fork", "root")]
    assert [row.id for row in rows] == order
    assert [row.lane for row in rows] == [0, 0, 1, 0, 0]
    assert [row.parent_lane for row in rows] == [0, 0, 0, 0, None]
    assert [row.is_tip for row in rows] == [True, False, True, False, False]
    assert [len(row.passing) for row in rows] == [0, 0, 1, 0, 0]


def test_a_selected_history_has_the_ancestors_and_the_agents_of_the_session() -> None:
    store = MemoryStore()
    names = write_fork(store)
    graph = CommitGraph(read_commit_links(store))
    other = commit(store, names["right"], "Hi.", origin=CommitOrigin(principal="ann/Jack"))
    rows = build_rows(store, CommitGraph(read_commit_links(store)).select_history({other: "a2"}))
    assert [row.id for row in rows] == [other, names["right"], names["fork"], names["root"]]
    assert [row.agent for row in rows] == ["a2", None, None, None]
    rows = build_rows(store, graph.select_history({names["tip"]: "a1", names["right"]: "a2"}))
    assert [row.agent for row in rows] == ["a1", "a1", "a2", "a1", "a1"]


def test_the_agent_and_the_runtime_come_from_the_principal_and_the_session() -> None:
    store = MemoryStore()
    origin = CommitOrigin(principal="ann/Jack", session_id="codex:0f1e")
    commit(store, None, "hello", origin=origin)
    [row] = build_rows(store, CommitGraph(read_commit_links(store)))
    assert (row.agent_name, row.runtime) == ("Jack", "codex")
