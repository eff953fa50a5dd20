"""The statistics of the viewer: those of the command line, in parts, as far as they are indexed."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from harken.cli.main import run_cli
from tests.cli.git_kit import Repository, Session
from tests.cli.kit import Cli
from tests.cli.large_home import PROJECTS, write_large_home
from tests.cli.ui_kit import Page, show_home

COUNT = 24
PATIENCE_S = 60


@pytest.fixture
def talks(cli: Cli) -> Cli:
    """A home with sessions in several projects, which are indexed."""
    write_large_home(cli.home, COUNT)
    cli.ok("stats")
    return cli


def read(page: Page, **query: Any) -> dict[str, Any]:
    """Return the statistics, without how much of the home they cover."""
    answer = page.json("/api/stats", **query)
    assert answer.pop("index")["pending"] == 0
    assert answer.pop("totals")
    members: dict[str, Any] = answer
    return members


@pytest.mark.parametrize(
    "query",
    [
        {},
        {"runtime": "harken"},
        {"project": "app"},
        {"project": PROJECTS[2]},
        {"since": "2026-01-01"},
        {"until": "2026-12-31", "runtime": "harken"},
    ],
)
def test_the_statistics_are_those_of_the_command_line(talks: Cli, query: dict[str, str]) -> None:
    options = [text for name, value in query.items() for text in (f"--{name}", value)]
    with show_home(talks.home) as page:
        assert read(page, **query) == talks.ok("stats", "--json", *options).json


def test_the_statistics_of_a_session_have_its_profile(talks: Cli) -> None:
    with show_home(talks.home) as page:
        answer = read(page, session="talk-00003")
        assert answer == talks.ok("stats", "--json", "talk-00003").json
        assert answer["profile"]["bins"]
        assert page.get("/api/stats", session="none").status_code == 404


@pytest.mark.parametrize("query", [{"project": "nowhere"}, {"runtime": "none"}])
def test_an_unknown_name_is_not_found(talks: Cli, query: dict[str, Any]) -> None:
    with show_home(talks.home) as page:
        assert page.get("/api/stats", **query).status_code == 404
        assert page.get("/api/stats", since="soon").status_code == 422


def test_an_empty_home_has_empty_statistics(cli: Cli) -> None:
    with show_home(cli.home) as page:
        answer = page.json("/api/stats")
    assert (answer["sessions"], answer["usage"]["cost_usd"]) == ([], None)
    assert not (cli.home / "facts.db").exists()


def test_new_sessions_are_indexed_and_then_counted(tmp_path: Path) -> None:
    write_large_home(tmp_path, COUNT)
    with show_home(tmp_path) as page:
        until = time.monotonic() + PATIENCE_S
        while (answer := page.json("/api/stats"))["index"]["pending"]:
            assert answer["totals"]["sessions"] <= COUNT
            assert time.monotonic() < until
        assert answer["totals"]["sessions"] == COUNT


def test_a_session_that_is_not_indexed_yet_says_so(tmp_path: Path) -> None:
    write_large_home(tmp_path, COUNT)
    with show_home(tmp_path) as page:
        until = time.monotonic() + PATIENCE_S
        while (response := page.get("/api/stats", session="talk-00001")).status_code == 503:
            assert response.json()["error"]["code"] == "busy"
            assert time.monotonic() < until
        assert response.json()["session"]["tool_calls"] == 1


def test_a_session_that_cannot_be_indexed_says_so_and_not_later(talks: Cli) -> None:
    (talks.home / "sessions" / "damaged.jsonl").write_bytes(b"not a log\n")
    with show_home(talks.home) as page:
        deadline = time.monotonic() + PATIENCE_S
        while (response := page.get("/api/stats", session="damaged")).status_code == 503:
            assert time.monotonic() < deadline, response.text
            time.sleep(0.1)
        assert response.status_code == 422
        assert "damaged: has no statistics" in response.json()["error"]["message"]


def test_the_tools_of_a_kind_of_agents_are_all_there(cli: Cli, tmp_path: Path) -> None:
    session = Session(Repository(tmp_path)).ask("Use them all")
    for number in range(60):
        session.call(f"tool_{number}")
    cli.ok("import", session.save(tmp_path))
    cli.ok("stats")
    with show_home(cli.home) as page:
        answer = read(page)
        assert len(answer["tools"]["templates"][0]["tools"]) == 60
        assert answer == cli.ok("stats", "--json").json


def test_long_lists_are_cut_and_read_in_ranges(tmp_path: Path) -> None:
    write_large_home(tmp_path, 620)
    assert run_cli(["search", "--home", str(tmp_path), "report"], {}) == 0
    with show_home(tmp_path) as page:
        answer = page.json("/api/stats")
        assert answer["totals"]["sessions"] == 620
        rows = answer["sessions"]
        assert len(rows) <= 500
        while len(rows) < 620:
            part = page.json("/api/stats/rows", **{"list": "sessions", "from": len(rows)})
            assert part["total"] == 620
            rows += part["rows"]
        assert len({row["session"] for row in rows}) == 620
        tools = page.json("/api/stats/rows", list="tools.tools", limit=1)
        assert [row["name"] for row in tools["rows"]] == [answer["tools"]["tools"][0]["name"]]
        assert page.get("/api/stats/rows", list="usage").status_code == 422
