"""A page that follows a session has the tree of agents as the session's own route has it."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harken.core.events import AgentMoved
from harken.core.ids import AgentId
from harken.service.viewer.rows import agents_of
from harken.service.viewer.tree_changes import TreeChanges
from harken.session.session import Session
from harken.views.tree import TreeRow
from tests.cli.test_ui_follow import purge
from tests.cli.ui_kit import Page, show_home
from tests.session_kit import create_agent, log_answer, log_user_message, session_options

AGENTS = 300
MAX_LINE_BYTES = 2_000


class FollowedTree:
    """The tree that a page keeps."""

    def __init__(self) -> None:
        self.rows: list[Any] = []
        self.whole_count = 0
        """How often it came as a whole."""

    def apply(self, line: Any) -> None:
        """Apply a line of the stream, or members of it."""
        if "agents" in line:
            self.rows, self.whole_count = line["agents"], self.whole_count + 1
        elif "tree" in line:
            changed = {row["agent_id"]: row for row in [*self.rows, *line["tree"]["rows"]]}
            order = line["tree"].get("order", [row["agent_id"] for row in self.rows])
            self.rows = [changed[id_] for id_ in order]


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    log = tmp_path / "sessions" / "large.jsonl"
    log.parent.mkdir()
    with Session(log, options=session_options()) as session:
        create_agent(session, relation="primary", name="main")
        yield session


def change_tree(session: Session, agents: list[AgentId], dice: random.Random) -> None:
    """Log a message, or create or move an agent."""
    agent = dice.choice(agents)
    match dice.randrange(6):
        case 0:
            parent = session.agent(agent).birth
            agents.append(create_agent(session, cause=parent, name=f"agent {len(agents)}"))
        case 1 if session.agent(agent).parent not in (None, agents[0]):
            session.append(AgentMoved(agent_id=agent, place="subagent", parent=agents[0]))
        case 2:
            log_answer(session, agent, "Yes.")
        case _:
            log_user_message(session, agent, "And now?")


def await_tree(changes: Iterator[Any], tree: FollowedTree, events: int) -> list[int]:
    """Apply lines until the tree shows a number of events. Return their sizes."""
    sizes = []
    while True:
        line = next(changes)
        sizes.append(len(json.dumps(line)))
        tree.apply(line)
        if line["events"] >= events and "is_live" in line:
            return sizes


def count_events(page: Page) -> int:
    return int(page.session("large")["events"])


def test_the_followed_tree_is_that_of_the_session_after_each_change(
    session: Session, tmp_path: Path
) -> None:
    dice, agents, tree = random.Random(5), [AgentId("agent_001")], FollowedTree()
    with show_home(tmp_path) as page, page.follow("large", panels=agents[0]) as changes:
        await_tree(changes, tree, count_events(page))
        for _ in range(60):
            for _ in range(dice.randrange(1, 4)):
                change_tree(session, agents, dice)
            answer = page.session("large")
            await_tree(changes, tree, answer["events"])
            assert tree.rows == answer["agents"]
    assert len(agents) > 10
    assert tree.whole_count == 1


def test_a_change_of_one_of_300_agents_is_a_short_line(session: Session, tmp_path: Path) -> None:
    cause = session.agent("agent_001").birth
    for number in range(1, AGENTS):
        agent = create_agent(session, cause=cause, name=f"worker {number}")
    tree = FollowedTree()
    with show_home(tmp_path) as page, page.follow("large", panels="agent_001") as changes:
        [first] = await_tree(changes, tree, count_events(page))
        assert first > 20 * MAX_LINE_BYTES
        for _ in range(20):
            log_user_message(session, agent)
            answer = page.session("large")
            assert sum(await_tree(changes, tree, answer["events"])) < MAX_LINE_BYTES
            assert tree.rows == answer["agents"]


def test_another_reading_of_the_log_begins_with_the_whole_tree(
    session: Session, tmp_path: Path
) -> None:
    tree = FollowedTree()
    log_user_message(session, "agent_001", "the secret word")
    session.close()
    with show_home(tmp_path) as page, page.follow("large", panels="agent_001") as changes:
        await_tree(changes, tree, count_events(page))
        purge(tmp_path, "the secret word")
        answer = page.session("large")
        await_tree(changes, tree, answer["events"])
        assert tree.whole_count == 2
        assert tree.rows == answer["agents"]


def read_rows(count: int) -> list[TreeRow]:
    """Return rows whose texts are together longer than an answer may be."""
    task = "t" * 60_000
    facts: dict[str, Any] = {"entries": 0, "model_calls": 0, "tokens": 0, "cost_usd": 0.0}
    return [
        TreeRow(
            agent_id=AgentId(f"a{number}"),
            name="a",
            place="subagent",
            parent=None,
            depth=1,
            task=task,
            **facts,
        )
        for number in range(count)
    ]


def test_a_tree_that_is_cut_is_sent_as_the_session_has_it() -> None:
    changes, tree = TreeChanges(), FollowedTree()
    for count in (1, 30, 31, 40, 50, 52):
        rows = read_rows(count)
        tree.apply(changes.compose(rows))
        assert tree.rows == agents_of(rows)["agents"]
    assert changes.compose(read_rows(52)) == {}
