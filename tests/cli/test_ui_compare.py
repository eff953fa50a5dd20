"""The routes of comparisons show what `harken compare` prints, and the transcripts beside it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.cli.kit import Cli, start
from tests.cli.ui_kit import Page, show_home

QUIET = "Say nothing. He will go away."


@pytest.fixture
def forked(demo: Cli) -> Cli:
    """A home with the demo, and two forks of it that go on by themselves."""
    demo.ok("fork", "demo", "--at", "msg_046", "--edit", QUIET, "--name", "quiet")
    start(demo.home, "chat", "--resume", "quiet", stdin=b"\n")
    demo.ok("fork", "demo", "--at", "msg_030", "--name", "early")
    return demo


@pytest.fixture
def page(forked: Cli) -> Iterator[Page]:
    with show_home(forked.home) as page:
        yield page


def read_rows(page: Page, **params: str) -> list[Any]:
    rows: list[Any] = []
    while True:
        part = page.json("/api/compare/rows", **{"from": len(rows)}, limit=7, **params)
        rows += part["rows"]
        if len(rows) >= part["total"]:
            return rows


@pytest.mark.parametrize("names", [("demo", "quiet"), ("quiet", "demo"), ("quiet", "early")])
def test_a_comparison_is_that_of_the_command(
    forked: Cli, page: Page, names: tuple[str, str]
) -> None:
    shown = page.json("/api/compare", a=names[0], b=names[1])
    printed = forked.ok("compare", *names, "--json").json
    assert shown["pairs"] == [printed]
    assert shown["outcomes"] == [printed["outcome_before"], printed["outcome_after"]]
    assert [session["name"] for session in shown["sessions"]] == [*names]


def test_rows_part_where_the_command_says(forked: Cli, page: Page) -> None:
    printed = forked.ok("compare", "demo", "quiet", "--json").json
    assert printed["partings"]
    for parting in printed["partings"]:
        agent = parting["agent"]
        choice = {"a": "demo", "b": "quiet", "agent_a": agent, "agent_b": agent}
        answer = page.json("/api/compare/rows", **choice)
        assert answer["position"] == parting["position"]
        rows = read_rows(page, **choice)
        same = [row for row in rows if row["is_same"]]
        assert len(same) == answer["earlier"] + parting["position"]
        assert rows[: len(same)] == same
        differing = rows[len(same)]
        assert differing["position"] == parting["position"]
        for cell, side in zip(differing["cells"], ("before", "after"), strict=True):
            expected = parting.get(side)
            found = cell and {"heading": cell["heading"], "text": cell["text"]}
            assert found == expected
        if differing["cells"][1]:
            assert differing["cells"][1]["spans"] == parting.get("spans", [])


def test_the_first_agent_that_differs_is_shown_with_its_earlier_messages(page: Page) -> None:
    answer = page.json("/api/compare/rows", a="demo", b="quiet")
    assert answer["agents"] == ["Inner", "Inner"]
    assert answer["earlier"] > 0
    assert [row["position"] for row in answer["rows"]][: answer["earlier"] + 1] == [
        *[None] * answer["earlier"],
        0,
    ]
    differing = answer["rows"][answer["earlier"]]
    assert differing["cells"][1]["text"] == QUIET


def test_the_whole_text_of_a_message_is_a_request_of_its_own(page: Page) -> None:
    rows = read_rows(page, a="demo", b="quiet")
    for index, row in enumerate(rows):
        for run, cell in enumerate(row["cells"]):
            if cell is not None:
                params = {"row": index, "run": run}
                text = page.json("/api/compare/text", a="demo", b="quiet", **params)["text"]
                assert text == cell["text"]
    beyond = page.get("/api/compare/text", a="demo", b="quiet", row=len(rows), run=0)
    assert beyond.status_code == 404


def test_any_two_agents_can_be_aligned(page: Page) -> None:
    answer = page.json("/api/compare/rows", a="demo", b="quiet", agent_a="Jack", agent_b="Jill")
    assert answer["agents"] == ["Jack", "Jill"]
    unknown = page.get("/api/compare/rows", a="demo", b="quiet", agent_a="Nemo")
    assert unknown.status_code == 404


def test_three_runs_are_compared_with_the_first(forked: Cli, page: Page) -> None:
    names = ("demo", "quiet", "early")
    shown = page.json("/api/compare", a=names[0], b=names[1], c=names[2])
    for other, pair in zip(names[1:], shown["pairs"], strict=True):
        assert pair == forked.ok("compare", "demo", other, "--json").json
    rows = read_rows(page, a="demo", b="quiet", c="early")
    differing = next(row for row in rows if not row["is_same"])
    assert len(differing["cells"]) == 3


def test_equal_runs_have_no_position(forked: Cli, page: Page) -> None:
    forked.ok("fork", "demo", "--name", "same")
    answer = page.json("/api/compare/rows", a="demo", b="same")
    assert answer["position"] is None
    assert all(row["is_same"] for row in answer["rows"])


def test_the_original_of_a_fork_is_known(page: Page) -> None:
    assert page.session("quiet", "original") == {"original": "demo"}
    assert page.session("demo", "original") == {"original": None}


@pytest.mark.parametrize("params", [{}, {"a": "demo"}, {"a": "demo", "b": "demo"}])
def test_two_different_sessions_are_needed(page: Page, params: dict[str, Any]) -> None:
    assert page.get("/api/compare", **params).status_code == 422


def test_an_unknown_session_is_not_found(page: Page) -> None:
    assert page.get("/api/compare", a="demo", b="nothing").status_code == 404
