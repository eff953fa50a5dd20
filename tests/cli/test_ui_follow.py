"""A page that follows a session has each item once, in order, also after the server restarts."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest

from harken.core.ids import AgentId
from harken.session.session import Session
from tests.cli.kit import HARKEN, Cli
from tests.cli.ui_kit import Page, show_home
from tests.forks import processes
from tests.session_kit import (
    create_agent,
    log_answer,
    log_tool_calls,
    log_tool_result,
    log_turn,
    log_user_message,
)

ANN = "agent_001"
MEETING = "Let Jack and Jill meet in a cafe."


def create_pair(session: Session) -> list[AgentId]:
    """Log the creation of Ann and of Bob below her."""
    ann = create_agent(session, name="Ann", relation="primary")
    return [ann, create_agent(session, cause=session.agent(ann).birth, name="Bob")]


class LivePage:
    """What a page keeps of a session: the items by index, and the number of events."""

    def __init__(self) -> None:
        self.items: dict[int, Any] = {}
        self.events = 0
        self.is_live = True
        self.lines = 0

    def apply(self, change: Any) -> None:
        """Write the changed items to their places."""
        for row in change["items"]:
            self.items[row["index"]] = row["item"]
        assert change["resume"] >= self.events
        self.events = change["resume"]
        self.is_live = change.get("is_live", self.is_live)
        self.lines += 1


def wait_for_log(home: Path, name: str) -> None:
    log = home / "sessions" / f"{name}.jsonl"
    deadline = time.monotonic() + 20
    while not log.exists() or log.read_bytes().count(b"\n") < 2:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_followed_session_has_all_items_once_while_the_server_restarts(tmp_path: Path) -> None:
    home, live, restarts = tmp_path / "home", LivePage(), 0
    log = home / "sessions" / "busy.jsonl"
    log.parent.mkdir(parents=True)
    command = [sys.executable, "-m", "tests.cli.ui_writer", str(log), "1000"]
    root = Path(__file__).parents[2]
    with subprocess.Popen(command, cwd=root) as writer:
        wait_for_log(home, "busy")
        while live.is_live or live.events < 1000:
            with (
                show_home(home) as page,
                page.follow("busy", panels=ANN, events=live.events) as changes,
            ):
                for change in changes:
                    live.apply(change)
                    if live.lines % 2 == 0 or not live.is_live:
                        break  # The page loses its connection, and the server ends.
            restarts += 1
        assert writer.wait(timeout=20) == 0
    with show_home(home) as page:
        fresh = page.all_items("busy", ANN)
    assert restarts > 1
    assert len(fresh) == 750
    assert sorted(live.items) == list(range(len(fresh)))
    assert [live.items[index] for index in range(len(fresh))] == fresh


def test_a_page_that_has_all_events_gets_the_changes_only(demo: Cli) -> None:
    log = demo.home / "sessions" / "small.jsonl"
    with Session(log) as session, show_home(demo.home) as page:
        agent = create_agent(session, relation="primary", name="Ann")
        log_user_message(session, agent, "Look.")
        log_tool_calls(session, agent, "c1")
        opened = page.session("small", "items", agent=agent)
        assert opened["total"] == 2
        with page.follow("small", panels=agent, events=opened["events"]) as changes:
            first = next(changes)
            assert (first["items"], first["is_live"]) == ([], True)
            log_tool_result(session, agent, "c1", "found")
            change = next(changes)
            assert [row["index"] for row in change["items"]] == [1]
            assert change["items"][0]["item"]["parts"][0]["result"]["text"] == "found"
            assert (change["total"], len(change["tree"]["rows"])) == (2, 1)
            log_answer(session, agent, "Done.")
            change = next(changes)
            assert [row["index"] for row in change["items"]] == [2]
            session.close()
            while change.get("is_live", True):
                change = next(changes)


def test_all_views_of_a_session_that_grows_are_those_of_a_fresh_read(tmp_path: Path) -> None:
    log = tmp_path / "sessions" / "grows.jsonl"
    log.parent.mkdir()
    views = ("", "items", "timeline", "steps", "hooks", "dialog")

    def read(page: Page) -> list[Any]:
        answers = [
            page.session("grows", view, **({"agents": ANN} if view == "dialog" else {}))
            for view in views
        ]
        del answers[0]["session"]  # The list of sessions may be a second older.
        for answer in answers:
            assert len(answer.pop("generation")) == 16
        return answers

    with Session(log) as session, show_home(tmp_path) as page:
        agent = create_agent(session, relation="primary", name="Ann")
        for number in range(3):
            log_turn(session, agent, number)
            grown = read(page)
            with show_home(tmp_path) as other:
                assert grown == read(other)
        step = page.session("grows", "steps/6")
        assert (step["is_intact"], step["changes"]["kept"], step["total"]) == (True, 9, 11)


def test_many_changes_arrive_in_lines_of_at_most_500_items(tmp_path: Path) -> None:
    log = tmp_path / "sessions" / "long.jsonl"
    log.parent.mkdir()
    with Session(log) as session:
        agent = create_agent(session, relation="primary", name="Ann")
        for number in range(1201):
            log_user_message(session, agent, f"message {number}")
    with show_home(tmp_path) as page, page.follow("long", panels=agent) as changes:
        lines = [next(changes) for _ in range(3)]
    assert [len(line["items"]) for line in lines] == [500, 500, 201]
    # A page that loses its connection after the first line asks for all of them again.
    assert [line["resume"] for line in lines] == [0, 0, 1203]
    assert [line["events"] for line in lines] == [1203, 1203, 1203]


def test_the_server_ends_although_pages_follow(demo: Cli) -> None:
    started_at = time.monotonic()
    with show_home(demo.home) as page, page.follow("demo") as changes:
        next(changes)
        page_changes = changes
    assert time.monotonic() - started_at < 20
    del page_changes


def test_a_session_that_is_removed_ends_the_stream_with_the_reason(demo: Cli) -> None:
    with show_home(demo.home) as page, page.follow("demo") as changes:
        next(changes)
        (demo.home / "sessions" / "demo.jsonl").unlink()
        assert next(changes)["error"]["code"] in ("unknown_name", "store_failed")
        with pytest.raises(StopIteration):
            next(changes)


def purge(home: Path, text: str) -> None:
    command = [str(HARKEN), "store", "purge", "--yes", "--home", str(home)]
    processes.run(command, input=text.encode(), check=True, capture_output=True)


def test_a_purged_session_is_read_again(demo: Cli) -> None:
    with show_home(demo.home) as page:
        before = page.all_items("demo", ANN)
        generation = page.session("demo", "items")["generation"]
        purge(demo.home, MEETING)
        after = page.all_items("demo", ANN)
        assert page.session("demo", "items")["generation"] != generation
    assert len(before) == len(after)
    assert MEETING in str(before)
    assert MEETING not in str(after)


@pytest.mark.parametrize("panel", [ANN, f"{ANN},agent_002"])
def test_a_page_that_follows_a_purged_session_gets_all_items_anew(demo: Cli, panel: str) -> None:
    with show_home(demo.home) as page, page.follow("demo", panels=panel) as changes:
        first = next(changes)
        assert MEETING in str(first["items"])
        purge(demo.home, MEETING)
        # While the log is purged, lines may say that a process writes it.
        second = next(line for line in changes if line["generation"] != first["generation"])
        assert [row["index"] for row in second["items"]] == list(range(second["total"]))
        assert MEETING not in str(second)
        seen = {"events": first["resume"], "generation": first["generation"]}
        with page.follow("demo", panels=panel, **seen) as later:
            assert next(later)["items"] == second["items"]
        seen = {"events": second["resume"], "generation": second["generation"]}
        with page.follow("demo", panels=panel, **seen) as later:
            assert next(later)["items"] == []


def test_a_log_whose_content_is_replaced_in_its_file_is_read_again(tmp_path: Path) -> None:
    folder = tmp_path / "sessions"
    folder.mkdir()
    contents: list[bytes] = []
    for text in ("first " * 50, "other"):
        log = folder / f"{len(contents)}.jsonl"
        with Session(log) as session:
            agent = create_agent(session, relation="primary", name="Ann")
            log_user_message(session, agent, text)
        contents.append(log.read_bytes())
    log = folder / "0.jsonl"
    with show_home(tmp_path) as page:
        for content in (contents[1], contents[0], contents[1], contents[0]):
            before = page.session("0")
            log.write_bytes(content)  # In the same file.
            after = page.session("0", "items")
            assert page.session("0")["damage"] is None
            assert ("other" in str(after)) == (content == contents[1])
            assert before["damage"] is None


def test_a_damaged_log_that_is_restored_is_read_again_and_keeps_its_pages(demo: Cli) -> None:
    log = demo.home / "sessions" / "demo.jsonl"
    content = log.read_bytes()
    lines = content.splitlines(keepends=True)
    damaged = b"".join([*lines[:9], lines[9].replace(b"a", b"b"), *lines[10:]])
    log.write_bytes(damaged)
    with show_home(demo.home) as page:
        assert "line 10" in page.session("demo")["damage"]
        first = page.session("demo", "items")
        log.write_bytes(damaged + b"{}\n")  # It is as damaged as before.
        time.sleep(1.2)
        assert page.session("demo", "items") == first
        log.write_bytes(content)
        deadline = time.monotonic() + 10
        while page.session("demo")["damage"] is not None:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        restored = page.session("demo", "items")
    assert restored["generation"] != first["generation"]
    assert restored["events"] == len(lines)


def test_a_dialog_is_followed_by_position(tmp_path: Path) -> None:
    log = tmp_path / "sessions" / "talk.jsonl"
    log.parent.mkdir()
    with Session(log) as session, show_home(tmp_path) as page:
        agent, other = create_pair(session)
        said = log_answer(session, agent, "Hello.")
        agents = f"{agent},{other}"
        opened = page.session("talk", "dialog", agents=agents)
        assert opened["total"] == 1
        with page.follow("talk", panels=agents, events=opened["events"]) as changes:
            assert next(changes)["items"] == []
            session.log_transcript_entry(other, {"role": "user", "content": "Goodbye."}, said)
            change = next(changes)
            assert [row["index"] for row in change["items"]] == [0]
            assert change["items"][0]["item"]["parts"][1]["text"] == "Goodbye."
            log_user_message(session, agent, "More.")
            change = next(changes)
            assert [row["index"] for row in change["items"]] == [1]
        fresh = page.session("talk", "dialog", agents=agents)
        assert (fresh["total"], fresh["items"][1]) == (2, change["items"][0]["item"])


@pytest.mark.parametrize(
    "query",
    [
        {"panels": f"{ANN};{ANN}", "events": "1"},
        {"panels": ";".join([ANN] * 17)},
        {"panels": ANN, "events": "-1"},
        {"agent": ANN},
    ],
)
def test_panels_that_do_not_fit_their_events_are_refused(demo: Cli, query: dict[str, str]) -> None:
    path = "/api/sessions/demo/follow"
    with show_home(demo.home) as page:
        assert page.get(f"{path}?{urlencode(query)}").status_code == 422


def test_one_stream_has_the_changes_of_all_panels(tmp_path: Path) -> None:
    log = tmp_path / "sessions" / "talk.jsonl"
    log.parent.mkdir()
    with Session(log) as session, show_home(tmp_path) as page:
        ann, bob = create_pair(session)
        log_user_message(session, ann, "old")
        panels = f"{ann};{bob};{ann},{bob}"
        opened = page.session("talk", "items", agent=ann)["events"]
        with page.follow("talk", panels=panels, events=f"{opened};0;{opened}") as changes:
            lines = [next(changes) for _ in range(3)]
            assert [line["panel"] for line in lines] == [0, 1, 2]
            assert [len(line["items"]) for line in lines] == [0, 0, 0]
            assert ["is_live" in line for line in lines] == [False, False, True]
            log_answer(session, bob, "Hello.")
            lines = [next(changes) for _ in range(3)]
        assert [len(line["items"]) for line in lines] == [0, 1, 1]
        assert {line["resume"] for line in lines} == {opened + 1}


def test_many_changes_of_a_panel_are_sent_before_those_of_the_next(tmp_path: Path) -> None:
    log = tmp_path / "sessions" / "long.jsonl"
    log.parent.mkdir()
    with Session(log) as session:
        agents = create_pair(session)
        for number in range(700):
            for agent in agents:
                log_user_message(session, agent, f"message {number}")
    with show_home(tmp_path) as page, page.follow("long", panels=";".join(agents)) as changes:
        lines = [next(changes) for _ in range(4)]
    assert [(line["panel"], len(line["items"])) for line in lines] == [
        (0, 500),
        (0, 200),
        (1, 500),
        (1, 200),
    ]
    assert [line["resume"] > 0 for line in lines] == [False, True, False, True]
    assert ["agents" in line for line in lines] == [False, False, False, True]


def test_a_connection_that_breaks_leaves_the_server_running(demo: Cli) -> None:
    with show_home(demo.home) as page:
        for _ in range(20):
            with page.follow("demo") as changes:
                next(changes)
        assert page.json("/api/about")["sessions"] == 1
        with pytest.raises(httpx.HTTPStatusError):
            page.get("/api/sessions/none/follow").raise_for_status()
