"""The import of other runtimes' sessions by the viewer: what is found, one job, its end."""

from __future__ import annotations

import multiprocessing
import os
import signal
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.shared_data import DATA, needed
from tests.cli.imports_kit import wait_for_import, write_claude_session, write_damaged_session
from tests.cli.kit import Cli
from tests.cli.ui_kit import BEARER, Page, show_home

RUNTIMES = {"runtimes": ["claude"]}
MAX_MEDIAN_S = 0.2


@pytest.fixture
def user(tmp_path: Path) -> Path:
    """A folder of a user with three sessions of Claude Code."""
    for number in range(3):
        write_claude_session(tmp_path / "user", number)
    return tmp_path / "user"


@pytest.fixture
def page(cli: Cli, user: Path) -> Iterator[Page]:
    with show_home(cli.home, user_folder=user) as page:
        yield page


def test_what_is_found_is_listed_and_nothing_is_imported(cli: Cli, user: Path, page: Page) -> None:
    subagent = user / ".claude/projects/cafe/agent-1.jsonl"
    subagent.write_bytes(b"{}\n")
    [source] = page.json("/api/import/sources")["sources"]
    files = list((user / ".claude/projects").rglob("*.jsonl"))
    assert source["name"] == "Claude Code"
    assert source["folders"] == [str(user / ".claude/projects")]
    assert (source["files"], source["sessions"], source["new_files"]) == (4, 3, 4)
    assert source["size_bytes"] == sum(file.stat().st_size for file in files)
    assert page.json("/api/import")["phase"] == "none"
    assert page.json("/api/sessions")["total"] == 0
    assert not (cli.home / "store.db").exists()


def test_an_import_is_that_of_the_command_line(cli: Cli, user: Path, page: Page) -> None:
    assert page.post("/api/import", RUNTIMES).json()["phase"] == "searching"
    state = wait_for_import(page)
    assert (state["phase"], state["error"]) == ("done", None)
    assert (state["sessions"], state["files"], state["of_files"]) == (3, 3, 3)
    assert state["messages"] == 12
    assert page.json("/api/import/sources")["sources"][0]["new_files"] == 0
    rows = cli.ok("sessions", "--json").json
    other = cli.home.with_name("other")
    cli.ok("import", "--home", str(other), str(user))
    assert rows == cli.ok("sessions", "--json", "--home", str(other)).json
    assert {row["facts"] for row in page.json("/api/sessions")["sessions"]} == {"current"}

    write_claude_session(user, 7)
    page.post("/api/import", RUNTIMES)
    state = wait_for_import(page)
    assert (state["sessions"], state["unchanged"], state["of_files"]) == (1, 3, 1)


def test_problems_are_listed_with_the_names_of_files(user: Path, page: Page) -> None:
    damaged = write_damaged_session(user, 9)
    page.post("/api/import", RUNTIMES)
    state = wait_for_import(page)
    [problem] = state["problems"]
    assert (problem["source"], problem["is_partial"]) == (str(damaged), True)
    assert "1 line could not be parsed" in problem["reason"]
    assert (state["problem_count"], state["sessions"]) == (1, 4)


def test_a_second_import_is_refused_while_one_runs(page: Page) -> None:
    page.post("/api/import", RUNTIMES)
    refused = page.post("/api/import", RUNTIMES)
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "busy")
    assert wait_for_import(page)["phase"] == "done"
    assert page.post("/api/import", RUNTIMES).status_code == 200
    wait_for_import(page)


def test_a_cancelled_import_can_be_continued(page: Page) -> None:
    page.post("/api/import", RUNTIMES)
    assert page.post("/api/import/cancel", {}).json()["is_cancelling"]
    state = wait_for_import(page)
    assert (state["phase"], state["is_cancelling"], state["error"]) == ("cancelled", False, None)
    page.post("/api/import", RUNTIMES)
    assert wait_for_import(page)["phase"] == "done"
    assert page.json("/api/sessions")["total"] == 3
    assert page.post("/api/import/cancel", {}).json()["phase"] == "done"  # Nothing to cancel.


def test_a_process_that_dies_is_a_failed_import(page: Page) -> None:
    page.post("/api/import", RUNTIMES)
    for process in multiprocessing.active_children():
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
    state = wait_for_import(page)
    assert (state["phase"], state["ended"] is None) == ("failed", False)
    assert "ended unexpectedly" in state["error"]
    page.post("/api/import", RUNTIMES)
    assert wait_for_import(page)["phase"] == "done"


def test_the_end_of_the_server_ends_the_import(cli: Cli, user: Path) -> None:
    before = multiprocessing.active_children()
    with show_home(cli.home, user_folder=user) as page:
        page.post("/api/import", RUNTIMES)
        assert multiprocessing.active_children() != before
    assert multiprocessing.active_children() == before


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"runtimes": ["claude", "codex"]}, 422),  # There is nothing of Codex.
        ({"runtimes": []}, 422),
        ({"runtimes": "claude"}, 422),
        ({"runtimes": ["claude"], "paths": ["/etc"]}, 422),
        (["claude"], 422),
    ],
)
def test_an_invalid_request_imports_nothing(page: Page, body: object, status: int) -> None:
    response = page.post("/api/import", body)
    assert response.status_code == status
    assert "\n" not in response.json()["error"]["message"]
    assert page.json("/api/import")["phase"] == "none"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({**BEARER, "Origin": "http://evil.example"}, 403),
        ({**BEARER, "Host": "evil.example"}, 403),
    ],
)
def test_a_foreign_page_cannot_import(page: Page, headers: dict[str, str], status: int) -> None:
    for path in ("/api/import", "/api/import/cancel"):
        assert page.post(path, RUNTIMES, headers=headers).status_code == status
    assert page.json("/api/import")["phase"] == "none"


@needed
@pytest.mark.full
def test_the_server_answers_while_it_imports(cli: Cli, tmp_path: Path) -> None:
    user = tmp_path / "large"
    for folder, runtime in ((".claude/projects", "claude-code"), (".codex/sessions", "codex")):
        (user / folder).parent.mkdir(parents=True)
        (user / folder).symlink_to(DATA / "transcripts" / runtime)
    latencies = []
    with show_home(cli.home, user_folder=user) as page:
        page.post("/api/import", {"runtimes": ["claude", "codex"]})
        while page.json("/api/import")["phase"] in ("searching", "reading", "indexing"):
            started_at = time.perf_counter()
            page.json("/api/sessions")
            latencies.append(time.perf_counter() - started_at)
        assert page.json("/api/import")["phase"] == "done"
    assert statistics.median(latencies) < MAX_MEDIAN_S, sorted(latencies)[-5:]
