from __future__ import annotations

from pathlib import Path

import pytest

from harken.core import events as ev
from harken.core.ids import AgentId, MessageId
from harken.errors import HarkenError
from harken.views.tree import TreeIndex, TreeRow, tree
from harken.views.viewer import SessionViewer
from tests.unit.views.examples import INNER, JACK, JILL, ROOT
from tests.unit.views.log_builder import LogBuilder


def shape(rows: list[TreeRow]) -> list[tuple[str, int, str, bool]]:
    return [(row.name, row.depth, row.place, row.gone) for row in rows]


@pytest.mark.req("S1-13")
def test_tree_of_example_1(cafe: SessionViewer) -> None:
    rows = tree(cafe.events)
    assert [(row.agent_id, row.depth, row.parent) for row in rows] == [
        (ROOT, 0, None),
        (JACK, 1, ROOT),
        (JILL, 1, ROOT),
    ]
    assert rows[1].birth == "msg_004"
    assert rows[1].language_model == "anthropic/claude-sonnet-4-5-20250929"
    assert rows[1].entries == 4


def test_agent_without_creation_event_is_a_root(inner: SessionViewer) -> None:
    rows = tree(inner.events)
    assert [(row.agent_id, row.depth, row.birth) for row in rows] == [
        (JILL, 0, None),
        (INNER, 1, "msg_031"),
    ]


@pytest.mark.req("S1-13")
def test_hooks_come_first_and_terminated_agents_keep_their_place(play: LogBuilder) -> None:
    jack = play.create_agent("Jack", by=play.root)
    play.create_agent("Anna", by=jack)
    play.create_agent("Jill", by=play.root)
    play.create_agent("Guard", by=play.root, relation="hook")
    critic = play.create_agent("Critic", by=play.root, relation="hook")
    play.moves(jack, "gone")
    play.moves(critic, "gone")
    assert shape(tree(play.viewer().events)) == [
        ("Root", 0, "primary", False),
        ("Guard", 1, "hook", False),
        ("Critic", 1, "hook", True),
        ("Jack", 1, "subagent", True),
        ("Anna", 2, "subagent", True),
        ("Jill", 1, "subagent", False),
    ]


@pytest.mark.req("S1-13")
def test_tree_follows_moves(play: LogBuilder) -> None:
    """Jill becomes a hook of Jack; then a new agent takes Root's place above it."""
    jack, jill = play.create_agent("Jack", by=play.root), play.create_agent("Jill", by=play.root)
    play.moves(jill, "hook", jack)
    above = play.create_agent("Above", by=play.root)
    play.moves(above, "primary")
    play.moves(play.root, "subagent", above)
    assert shape(tree(play.viewer().events)) == [
        ("Above", 0, "primary", False),
        ("Root", 1, "subagent", False),
        ("Jack", 2, "subagent", False),
        ("Jill", 3, "hook", False),
    ]


def test_row_has_the_cost_of_the_agents_model_calls(play: LogBuilder) -> None:
    play.hears(play.root, "Hi")
    play.answers(play.root, play.asks(play.root), "Hello")
    (row,) = tree(play.viewer().events)
    assert (row.model_calls, row.tokens, row.cost_usd, row.entries) == (1, 12, 0.5, 2)
    assert row.as_json()["name"] == "Root"


def test_very_deep_tree_is_supported(tmp_path: Path) -> None:
    def create_agent(n: int) -> ev.AgentCreated:
        return ev.AgentCreated(
            message_id=MessageId(f"msg_{n:03d}"),
            agent_id=AgentId(f"agent_{n:03d}"),
            cause=f"msg_{n - 1:03d}" if n else None,
        )

    rows = tree([create_agent(n) for n in range(3000)])
    assert rows[-1].depth == 2999


def test_cyclic_agents_are_listed_once_each() -> None:
    first, two = AgentId("one"), AgentId("two")
    events: list[ev.Event] = [
        ev.AgentMoved(agent_id=first, place="subagent", parent=two),
        ev.AgentMoved(agent_id=two, place="subagent", parent=first),
    ]
    assert [row.agent_id for row in tree(events)] == [first, two]


def test_tree_needs_no_store_for_a_starting_commit(play: LogBuilder) -> None:
    loaded = ev.ContextLoaded(agent_id=play.root, ctx="ctx-1", count=2, context_hash="")
    events = [*play.viewer().events, loaded]
    assert shape(tree(events)) == [("Root", 0, "primary", False)]


def test_contradictory_log_is_an_error_on_one_line(play: LogBuilder) -> None:
    edit = ev.TranscriptEdited(agent_id=play.root, segments=[ev.Segment(start=0, stop=9)])
    with pytest.raises(HarkenError, match="contradicts itself"):
        tree([*play.viewer().events, edit])


@pytest.mark.req("S1-13")
def test_row_of_a_hook_counts_its_verdicts(play: LogBuilder) -> None:
    guard = play.create_agent("Guard", by=play.root, relation="hook")
    other = play.create_agent("Other", by=play.root, relation="hook")
    for _ in range(2):
        play.gives_verdict(guard, "input", play.hears(play.root, "Hi"), "OK")
    rows = {row.agent_id: row for row in tree(play.viewer().events)}
    assert (rows[guard].verdicts, rows[other].verdicts, rows[guard].entries) == (2, 0, 0)
    assert "verdicts" not in rows[other].as_json()


def test_moves_tell_the_place_and_the_agent_above_from_then_on(play: LogBuilder) -> None:
    ann, bob = (play.create_agent(name, by=play.root) for name in ("Ann", "Bob"))
    index = TreeIndex()
    index.add(play.viewer().events)
    assert index.moves() == []
    moves = [
        ev.AgentMoved(message_id=MessageId("m1"), agent_id=ann, place="hook", parent=bob),
        ev.AgentMoved(message_id=MessageId("m2"), agent_id=ann, place="gone"),
        ev.AgentMoved(
            message_id=MessageId("m3"), agent_id=bob, place="primary", replaces=play.root
        ),
    ]
    index.add(moves)
    rows = [(row.name, row.place, row.parent_name, row.replaces_name) for row in index.moves()]
    assert rows == [
        ("Ann", "hook", "Bob", None),
        ("Ann", "gone", None, None),
        ("Bob", "primary", None, "Root"),
    ]
