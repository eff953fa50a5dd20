"""The list and the search of many sessions answer at once, also before the sessions are indexed."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from harken.cli.commands.ui.listing.session_filter import MAX_READ_LOGS
from harken.cli.commands.ui.listing.session_list import SessionList
from harken.cli.main import run_cli
from harken.config.home import Home
from harken.session.session import Session
from tests.call_counts import count_c_calls
from tests.cli.ui_kit import Page, show_home
from tests.session_kit import create_agent, log_user_message, session_options

LIGHTHOUSE_EVERY = 10
PATIENCE_S = 60


def write_logs(home: Path, count: int, words: str = "") -> None:
    """Write logs with a message each; every tenth has a word that the others lack."""
    folder = home / "sessions"
    folder.mkdir()
    for number in range(count):
        with Session(folder / f"s-{number}.jsonl", options=session_options()) as session:
            agent = create_agent(session, relation="primary", name="main")
            place = "the lighthouse" if number % LIGHTHOUSE_EVERY == 0 else "the harbor"
            log_user_message(session, agent, f"Who saw {place}? {words}")
            session.end()


def search_until_complete(page: Page) -> list[Any]:
    """Search until all is indexed. Return the answers."""
    answers = []
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        answers.append(page.json("/api/search", q="lighthouse"))
        if answers[-1]["index"] is None:
            return answers
        page.json("/api/sessions", limit=1)
        time.sleep(0.1)
    raise AssertionError(answers[-1]["index"])


def test_a_search_of_much_new_content_does_not_wait_for_its_index(tmp_path: Path) -> None:
    write_logs(tmp_path, 30, "w " * 30_000)
    with show_home(tmp_path) as page:
        first, *_, last = search_until_complete(page)
    assert (first["total"], first["hits"]) == (0, [])
    index = first["index"]
    assert (index["pending"], index["failed"], index["error"]) == (30, 0, None)
    assert (last["total"], len(last["hits"])) == (3, 3)


def test_a_search_indexes_a_little_new_content_itself(tmp_path: Path) -> None:
    write_logs(tmp_path, 30)
    with show_home(tmp_path) as page:
        answer = page.json("/api/search", q="lighthouse")
    assert (answer["total"], answer["index"]) == (3, None)


def test_a_search_of_what_is_indexed_finds_it_while_more_is_indexed(tmp_path: Path) -> None:
    write_logs(tmp_path, 30)
    assert run_cli(["search", "--home", str(tmp_path), "harbor"], {}) == 0
    with Session(tmp_path / "sessions" / "late.jsonl", options=session_options()) as session:
        agent = create_agent(session, relation="primary", name="main")
        log_user_message(session, agent, "The lighthouse again. " + "w " * 600_000)
    with show_home(tmp_path) as page:
        first, *_, last = search_until_complete(page)
    assert (first["total"], first["index"]["pending"]) == (3, 1)
    assert last["total"] == 4


@pytest.mark.parametrize(("is_indexed", "opened"), [(False, 1), (True, 0)])
def test_a_list_costs_one_look_at_each_log(tmp_path: Path, is_indexed: bool, opened: int) -> None:
    count = 150
    write_logs(tmp_path, count)
    if is_indexed:
        assert run_cli(["search", "--home", str(tmp_path), "harbor"], {}) == 0
    sessions = SessionList(Home(str(tmp_path)))
    calls = count_c_calls(
        lambda: sessions.current().find_unindexed(), frozenset({"stat", "lstat", "fstat", "open"})
    )
    looks = calls["stat"] + calls["lstat"] + calls["fstat"]
    # A log that is opened is checked to be a file.
    assert looks <= (1 + opened) * count + 20
    assert calls["open"] <= opened * count + 5


def test_a_text_is_looked_up_in_a_bounded_number_of_logs(tmp_path: Path) -> None:
    count = MAX_READ_LOGS + 60
    write_logs(tmp_path, count)
    with show_home(tmp_path) as page:
        answer = page.json("/api/sessions", text="lighthouse", limit=500)
        assert answer["total"] == MAX_READ_LOGS / LIGHTHOUSE_EVERY
        assert answer["left_out"]["unindexed"] == 60
        # A name needs no log, and the titles that were read are known now.
        assert page.json("/api/sessions", text=f"s-{count - 1}")["total"] == 1
        again = page.json("/api/sessions", text="lighthouse", limit=500)
        assert again["total"] == count / LIGHTHOUSE_EVERY
        assert again["left_out"]["unindexed"] == 0
