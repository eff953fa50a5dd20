"""Searching in a panel, panels side by side at the same time, and the tree after a move."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harken.core.events import AgentMoved
from harken.session.session import Session
from tests.cli.ui_kit import Page, show_home
from tests.session_kit import (
    create_agent,
    log_answer,
    log_tool_calls,
    log_tool_result,
    log_user_message,
    session_options,
)

ANN, BOB, CID = "agent_001", "agent_002", "agent_003"


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Page]:
    """A viewer of a session of Ann, and of Bob and Cid below her."""
    log = tmp_path / "sessions" / "s.jsonl"
    log.parent.mkdir()
    with Session(log, options=session_options()) as session:
        ann = create_agent(session, relation="primary", name="Ann")
        birth = session.agent(ann).birth
        bob, cid = (create_agent(session, cause=birth, name=name) for name in ("Bob", "Cid"))
        for number in range(10):
            log_user_message(session, ann, f"Question {number} of Straße")
            log_user_message(session, bob, f"Bob hears {number}")
            log_tool_calls(session, ann, f"c{number}", arguments='{"path": "needle.txt"}')
            log_tool_result(session, ann, f"c{number}", f"line {number}")
            log_answer(session, bob, f"Bob says {number}")
        session.append(AgentMoved(agent_id=cid, place="hook", parent=bob))
        session.append(AgentMoved(agent_id=cid, place="gone"))
    with show_home(tmp_path) as page:
        yield page


@pytest.mark.parametrize(
    ("panel", "text", "indexes"),
    [
        (ANN, "QUESTION 3", [6]),
        (ANN, "strasse", [*range(0, 20, 2)]),
        (ANN, "needle", [*range(1, 20, 2)]),
        (ANN, "line 7", [15]),
        (ANN, "Bob", []),
        (f"{ANN},{BOB}", "7", [21, 22, 23]),
    ],
)
def test_a_search_in_a_panel_finds_texts_calls_and_results(
    page: Page, panel: str, text: str, indexes: list[int]
) -> None:
    answer = page.session("s", "matches", panel=panel, text=text)
    assert (answer["indexes"], answer["is_partial"]) == (indexes, False)
    view = {"dialog": {"agents": panel}} if "," in panel else {"items": {"agent": panel}}
    [(route, query)] = view.items()
    items = page.session("s", route, **query)["items"]
    assert all(text.casefold() in str(items[index]).casefold() for index in indexes)


def test_panels_are_aligned_by_the_order_of_the_log(page: Page) -> None:
    items = page.session("s", "items", agent=ANN)["items"]
    panels = f"{ANN};{BOB};{CID};{ANN},{BOB}"
    answer = page.session("s", "align", message=items[9]["message_id"], panels=panels)
    assert answer["indexes"] == [9, 8, 0, 13]
    [bob_item] = page.session("s", "items", **{"agent": BOB, "from": 8, "limit": 1})["items"]
    assert bob_item["parts"][0]["text"] == "Bob hears 4"
    assert page.session("s", "align", message=items[0]["message_id"], panels=BOB)["indexes"] == [0]


def test_the_tree_is_shown_as_it_was_after_a_move(page: Page) -> None:
    assert page.session("s")["moves"] == 2
    moves = page.session("s", "moves")["moves"]
    assert [(row["name"], row["place"], row.get("parent_name")) for row in moves] == [
        ("Cid", "hook", "Bob"),
        ("Cid", "gone", None),
    ]
    trees = [page.session("s", "tree", after=row["message_id"])["agents"] for row in moves]
    cids = [next(row for row in tree if row["agent_id"] == CID) for tree in trees]
    assert [(row["depth"], row["place"], "gone" in row) for row in cids] == [
        (2, "hook", False),
        (2, "hook", True),
    ]
