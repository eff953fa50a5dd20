"""The list of sessions of the viewer: its filters, what they cannot know, and who waits for whom."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harken.cli.commands.ui.listing.session_list import Listing, SessionList
from harken.cli.main import run_cli
from harken.config.home import Home
from harken.core.events import Usage
from harken.session.session import Session
from tests.cli.git_kit import Repository
from tests.cli.git_kit import Session as Transcripted
from tests.cli.kit import Cli
from tests.cli.large_home import AGENTS, PROJECTS, TOOLS, write_large_home
from tests.cli.ui_kit import Page, show_home
from tests.session_kit import create_agent, log_answer, log_request, log_response, log_user_message

COUNT = 24
PATIENCE_S = 60


@pytest.fixture
def home(tmp_path: Path) -> Path:
    write_large_home(tmp_path, COUNT)
    return tmp_path


def index(home: Path) -> None:
    """Bring the index up to date, as a search does."""
    assert run_cli(["search", "--home", str(home), "report"], {}) == 0


def names(page: Page, **query: Any) -> list[str]:
    """Return the names of the sessions that match, in order."""
    return [row["name"] for row in page.json("/api/sessions", limit=500, **query)["sessions"]]


def expected(value: str, values: tuple[str, ...]) -> list[str]:
    """Return the sessions of the large home that have this value, the newest first."""
    numbers = range(values.index(value), COUNT, len(values))
    return [f"talk-{number:05}" for number in reversed(numbers)]


def wait_for_index(page: Page) -> Any:
    """Return the list of sessions when all are indexed."""
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        answer = page.json("/api/sessions", limit=500)
        if not answer["index"]["pending"] and not answer["index"]["is_running"]:
            return answer
        time.sleep(0.05)
    raise AssertionError(answer["index"])


@pytest.mark.parametrize(("name", "values"), [("agent", AGENTS), ("tool", TOOLS)])
def test_a_filter_finds_exactly_the_sessions_with_a_name(
    home: Path, name: str, values: tuple[str, ...]
) -> None:
    index(home)
    with show_home(home) as page:
        for value in values:
            assert names(page, **{name: value}) == expected(value, values)
        assert names(page, **{name: "nobody"}) == []
        assert len(names(page, agent="main")) == COUNT  # That is each main conversation.


def test_an_outcome_a_project_and_a_day_are_filters(home: Path) -> None:
    index(home)
    with show_home(home) as page:
        failed = [f"talk-{number:05}" for number in reversed(range(0, COUNT, 3))]
        assert names(page, outcome="error") == failed
        assert names(page, project=PROJECTS[0]) == expected(PROJECTS[0], PROJECTS)
        assert len(names(page, project="app")) == COUNT // 2  # Two projects have this name.
        day = {"since": "2026-01-01", "until": "2026-01-01"}
        assert len(names(page, **day)) == COUNT  # `until` includes the day.
        assert names(page, since="2026-01-02") == names(page, until="2025-12-31") == []
        choices = page.json("/api/choices")
        assert sorted(choices["agents"]) == sorted(AGENTS)
        assert sorted(choices["tools"]) == sorted(TOOLS)
        assert choices["projects"] == sorted(PROJECTS)
        assert choices["outcomes"] == ["success", "error"]


def test_a_cost_that_is_unknown_is_left_out_and_counted(home: Path) -> None:
    for name, usage in {"priced": 0.5, "unpriced": None}.items():
        with Session(home / "sessions" / f"{name}.jsonl") as session:
            agent = create_agent(session, relation="primary", name="Dora")
            log_user_message(session, agent)
            request = log_request(session, agent)
            entry = log_answer(session, agent)
            log_response(
                session, agent, request, entry=entry, cost_usd=usage, usage=Usage(output_tokens=5)
            )
    index(home)
    with show_home(home) as page:
        assert names(page, min_cost=0.1) == names(page, max_cost=1, agent="Dora") == ["priced"]
        assert names(page, min_cost=1) == names(page, max_cost=0.4) == []
        answer = page.json("/api/sessions", agent="Dora", min_cost=0.1)
        assert answer["left_out"] == {"unindexed": 0, "unpriced": 1}


def test_sessions_that_are_not_indexed_are_counted_until_they_are(home: Path) -> None:
    with show_home(home) as page:
        answer = page.json("/api/sessions", tool=TOOLS[0])
        assert (answer["total"], answer["left_out"]["unindexed"]) == (0, COUNT)
        assert answer["index"]["pending"] == COUNT
        first = wait_for_index(page)["sessions"][0]
        assert (first["agents"], first["messages"], first["facts"]) == (1, 4, "current")
        answer = page.json("/api/sessions", tool=TOOLS[0])
        assert (answer["total"], answer["left_out"]["unindexed"]) == (COUNT // 2, 0)


def test_a_session_that_grows_keeps_its_known_facts(home: Path) -> None:
    index(home)
    path = home / "sessions" / "talk-00000.jsonl"
    with show_home(home) as page, Session.load(path) as session:
        agent = next(iter(session.agents))
        log_user_message(session, agent, "One more.")
        row = page.session("talk-00000")["session"]
        assert (row["facts"], row["messages"], row["outcome"]) == ("behind", 4, None)
        assert "talk-00000" in names(page, agent=AGENTS[0])
        assert page.json("/api/sessions", outcome="error")["left_out"]["unindexed"] == 1


@pytest.mark.parametrize("folder", ["-trials/worktrees", r"C:\trials\retagger", "./here"])
def test_each_project_that_is_offered_is_found(cli: Cli, tmp_path: Path, folder: str) -> None:
    session = Transcripted(Repository(tmp_path))
    session.transcript.shared = {"cwd": folder}
    session.ask("Begin").call("Read", file_path="a")
    cli.ok("import", session.save(tmp_path))
    with show_home(cli.home) as page:
        (project,) = page.json("/api/choices")["projects"]
        assert page.json("/api/sessions", project=project)["total"] == 1
        assert page.json("/api/sessions", project=f"{project}/below")["total"] == 0


def test_a_damaged_log_is_not_indexed_again_and_again(home: Path) -> None:
    (home / "sessions" / "damaged.jsonl").write_bytes(b"not a log\n")
    with show_home(home) as page:
        state = wait_for_index(page)["index"]
        assert (state["failed"], state["pending"], state["is_running"]) == (1, 0, False)
        assert page.json("/api/sessions", tool="x")["left_out"]["unindexed"] == 1


@pytest.mark.parametrize(
    "query",
    [
        {"min_cost": "-1"},
        {"limit": "501"},
        {"since": "soon"},
        {"colour": "red"},
        {"live": "perhaps"},
    ],
)
def test_an_invalid_filter_is_refused_in_one_line(home: Path, query: dict[str, Any]) -> None:
    with show_home(home) as page:
        response = page.get("/api/sessions", **query)
        assert response.status_code == 422
        assert "\n" not in response.json()["error"]["message"]


def test_an_empty_filter_is_none_and_a_repeated_one_is_refused(home: Path) -> None:
    with show_home(home) as page:
        assert page.json("/api/sessions", tool="", min_cost="", live="")["total"] == COUNT
        assert page.get("/api/sessions?tool=a&tool=b").status_code == 422


def test_a_session_tells_which_reading_it_shows(home: Path) -> None:
    with show_home(home) as page:
        answer = page.session("talk-00001")
        assert answer["generation"] == page.session("talk-00001", "items")["generation"]


class SlowList(SessionList):
    """A list whose second reading waits until the test lets it go on."""

    def __init__(self, home: Home) -> None:
        super().__init__(home)
        self.is_reading, self.may_go_on = threading.Event(), threading.Event()

    def _read(self, facts: Any) -> Listing:
        if self._listing is not None:
            self.is_reading.set()
            assert self.may_go_on.wait(PATIENCE_S)
        return super()._read(facts)


@pytest.fixture
def slow_list(home: Path) -> Iterator[SlowList]:
    slow = SlowList(Home(str(home)))
    yield slow
    slow.may_go_on.set()


def test_a_request_does_not_wait_for_another_one_that_reads_the_folder(
    home: Path, slow_list: SlowList
) -> None:
    before = slow_list.current()
    os.utime(home / "sessions" / "talk-00003.jsonl")
    until = time.monotonic() + PATIENCE_S
    reader = threading.Thread(target=lambda: _read_until(slow_list, until))
    reader.start()
    assert slow_list.is_reading.wait(PATIENCE_S)
    assert slow_list.current() is before
    slow_list.may_go_on.set()
    reader.join(PATIENCE_S)
    assert slow_list.current().sessions[0].name == "talk-00003"
    assert before.sessions[0].name == f"talk-{COUNT - 1:05}"  # A listing never changes.


def _read_until(sessions: SlowList, until: float) -> None:
    """Ask for the list until it is read again."""
    while time.monotonic() < until and not sessions.is_reading.is_set():
        sessions.current()
        time.sleep(0.02)
