"""Threads of LangGraph as sessions of the command line."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any

import pytest
from langchain_core.messages import RemoveMessage

from harken.adapters.langgraph import HarkenSaver
from harken.adapters.sessions import list_threads
from harken.context.materialize import materialize
from harken.errors import ObjectCorrupted
from harken.store.sqlite.store import SqliteStore
from tests.cli.kit import Cli
from tests.unit.adapters.graph_kit import build_graph, say
from tests.unit.adapters.saver_kit import config_of


@pytest.fixture
def threads(cli: Cli) -> Cli:
    """A home with a thread of two turns, a fork after the first turn, and another thread."""
    with HarkenSaver(cli.home) as saver:
        graph = build_graph().compile(checkpointer=saver)
        say(graph, "say zanzibar", config_of("support/7"))
        say(graph, "the weather please", config_of("support/7"))
        past = [
            snapshot
            for snapshot in graph.get_state_history(config_of("support/7"))
            if len(snapshot.values.get("messages", [])) == 2
        ]
        say(graph, "another way", past[0].config)
        say(graph, "second thread", config_of("other"))
    return cli


def test_threads_are_listed_as_sessions(threads: Cli) -> None:
    sessions = threads.ok("sessions", "--json").json
    rows = {row["session"]: row for row in sessions}
    assert rows.keys() == {"langgraph:support/7", "langgraph:other"}
    assert rows["langgraph:support/7"]["title"] == "say zanzibar"
    assert rows["langgraph:support/7"]["runtime"] == "langgraph"


def test_a_thread_is_viewed_with_its_tools_and_its_fork(threads: Cli) -> None:
    text = threads.ok("view", "langgraph:support/7").out
    for part in ("say zanzibar", "weather(Rome)", "sunny", "rewound", "echo another way"):
        assert part in text
    assert "second thread" in threads.ok("view", "langgraph:other").out


def test_messages_of_threads_are_searched(threads: Cli) -> None:
    assert "langgraph:support" in threads.ok("search", "zanzibar").out
    with HarkenSaver(threads.home) as saver:
        say(build_graph().compile(checkpointer=saver), "now about xylophones", config_of("other"))
    assert "langgraph:other" in threads.ok("search", "xylophones").out


def test_a_fork_of_the_graph_is_a_fork_of_commits(threads: Cli) -> None:
    sessions = threads.ok("sessions", "--json").json
    row = next(row for row in sessions if row["session"] == "langgraph:support/7")
    store = SqliteStore(threads.home / "store.db")
    first, second = (materialize(store, tip["ctx"]).messages for tip in row["tips"])
    assert [m.content for m in first][:2] == [m.content for m in second][:2]
    assert {len(first), len(second)} == {4, 6}
    store.close()


def test_a_thread_continues_as_a_graph_after_it_was_viewed(threads: Cli) -> None:
    threads.ok("sessions")
    with HarkenSaver(threads.home) as saver:
        graph = build_graph().compile(checkpointer=saver)
        assert len(say(graph, "go on", config_of("support/7"))) == 6
    assert "echo go on" in threads.ok("view", "langgraph:support/7").out


def test_removed_messages_leave_the_context_and_stay_in_the_session(cli: Cli) -> None:
    with HarkenSaver(cli.home) as saver:
        graph: Any = build_graph().compile(checkpointer=saver)
        first = say(graph, "secret plan", config_of())
        cli.ok("sessions")
        graph.update_state(config_of(), {"messages": [RemoveMessage(str(first[0].id))]})
        say(graph, "go on", config_of())
    (row,) = cli.ok("sessions", "--json").json
    store = SqliteStore(cli.home / "store.db")
    messages = materialize(store, row["tips"][0]["ctx"]).messages
    assert [m.content for m in messages] == ["echo secret plan", "go on", "echo go on"]
    store.close()
    assert "secret plan" in cli.ok("view", "langgraph:t").out


def test_a_thread_that_has_not_changed_is_not_read_again(threads: Cli) -> None:
    files = threads.home / "checkpoints.db", threads.home / "store.db"
    before = list_threads(*files)
    with closing(sqlite3.connect(files[0])) as connection:  # A read would report this damage.
        (body,) = connection.execute("SELECT body FROM checkpoint WHERE number = 1").fetchone()
        connection.executescript(
            "DROP TRIGGER checkpoint_changed; UPDATE checkpoint SET body = x'00'"
        )
    assert list_threads(*files) == before
    with closing(sqlite3.connect(files[0])) as connection:
        connection.execute("UPDATE thread SET changes = changes + 1")
        connection.commit()
    with pytest.raises(ObjectCorrupted):
        list_threads(*files)
    assert body


def test_a_list_shows_all_changes_of_threads(threads: Cli) -> None:
    files = threads.home / "checkpoints.db", threads.home / "store.db"
    list_threads(*files)
    with HarkenSaver(threads.home) as saver:
        graph = build_graph().compile(checkpointer=saver)
        say(graph, "go on", config_of("other"))
        before = {row.name: row.branch_tips for row in list_threads(*files)}
        saver.prune(["support/7"])
        saver.copy_thread("other", "copy")
        after = {row.name: row.branch_tips for row in list_threads(*files)}
        assert len(before["langgraph:support/7"]) == 2
        assert len(after["langgraph:support/7"]) == 1
        assert after["langgraph:copy"] == after["langgraph:other"] == before["langgraph:other"]
        saver.delete_thread("other")
        say(graph, "new", config_of("new"))
        names = {row.name for row in list_threads(*files)}
        assert names == {"langgraph:support/7", "langgraph:copy", "langgraph:new"}
