"""The routes of the viewer: each has what the command line shows, page by page."""

from __future__ import annotations

import base64
import shlex
from collections.abc import Iterator
from typing import Any

import pytest

from harken.core.events import TranscriptEntry
from harken.core.messages import ImagePart
from harken.session.session import Session
from harken.views.conversation.conversation import Conversations
from harken.views.conversation.items import MAX_TEXT_CHARS
from harken.views.viewer import SessionViewer
from tests.acceptance.shared_data import DATA, needed
from tests.cli.kit import Cli
from tests.cli.test_view_hooks import write_guarded_log
from tests.cli.ui_kit import Page, show_home
from tests.session_kit import create_agent, log_answer, log_user_message

ROOT, JACK, JILL, INNER = "agent_001", "agent_002", "agent_003", "agent_004"
PNG = b"\x89PNG\r\n\x1a\nnot really an image"


@pytest.fixture
def page(demo: Cli) -> Iterator[Page]:
    with show_home(demo.home) as page:
        yield page


def viewer_of(cli: Cli, name: str) -> SessionViewer:
    return SessionViewer(cli.home / "sessions" / f"{name}.jsonl")


def test_about_names_the_home(demo: Cli, page: Page) -> None:
    about = page.json("/api/about")
    assert (about["home"], about["sessions"]) == (str(demo.home), 1)


def test_a_session_has_its_agents_and_the_commands_that_continue_it(demo: Cli, page: Page) -> None:
    answer = page.session("demo")
    assert answer["session"]["title"] == "Let Jack and Jill meet in a cafe."
    assert [row["name"] for row in answer["agents"]] == ["main", "Jack", "Jill", "Inner"]
    assert (answer["primary"], answer["damage"]) == ([ROOT], None)
    assert answer["events"] == len(viewer_of(demo, "demo").events)
    [line] = answer["commands"].values()  # It has no commit that a client could resume.
    assert shlex.split(line) == [
        *("harken", "chat", "--resume", "demo"),
        *("--home", str(demo.home)),
    ]


@pytest.mark.parametrize("limit", [1, 2, 500])
def test_the_pages_of_a_conversation_are_the_whole(demo: Cli, page: Page, limit: int) -> None:
    viewer = viewer_of(demo, "demo")
    conversations = Conversations(viewer.events)
    conversations.add(viewer.events)
    for agent in (ROOT, JACK, JILL, INNER):
        whole = [item.as_json() for item in conversations.items(agent, 0, 10**6)]
        assert page.all_items("demo", agent, limit=limit) == whole
    assert page.session("demo", "items")["agent"] == ROOT


def test_a_call_has_its_result_and_the_agent_that_it_created(page: Page) -> None:
    parts = [part for item in page.all_items("demo", ROOT) for part in item["parts"]]
    calls = [part for part in parts if part["kind"] == "call"]
    assert [call["agents"] for call in calls[:2]] == [[JACK], [JILL]]
    assert all(call["result"]["length"] for call in calls)
    assert calls[0]["subject"].startswith("Jack")


def test_a_dialog_of_several_agents_is_paged(demo: Cli, page: Page) -> None:
    whole = viewer_of(demo, "demo").extract_dialog([JACK, JILL], drafts=True)
    agents = f"{JACK},{JILL}"
    first = page.session("demo", "dialog", agents=agents, limit=1)
    rest = page.session("demo", "dialog", **{"agents": agents, "from": 1})
    assert first["total"] == rest["total"] == len(whole)
    rows = first["items"] + rest["items"]
    assert [row["message_id"] for row in whole] == [row["message_id"] for row in rows]
    assert [row["content"] for row in whole] == [row["parts"][0]["text"] for row in rows]
    assert {part["version"] for row in rows for part in row["parts"]} >= {"shown"}


def test_the_timeline_is_paged_and_shows_deliveries(demo: Cli, page: Page) -> None:
    whole = viewer_of(demo, "demo").timeline().as_json()
    pages = [page.session("demo", "timeline", **{"from": at, "limit": 25}) for at in (0, 25, 50)]
    assert [event for part in pages for event in part["events"]] == whole["marks"]
    assert all(part["lanes"] == whole["lanes"] for part in pages)
    assert {part["total"] for part in pages} == {len(whole["marks"])}


def test_a_message_tells_where_it_came_from_and_went(demo: Cli, page: Page) -> None:
    viewer = viewer_of(demo, "demo")
    said = next(
        event
        for event in viewer.events
        if isinstance(event, TranscriptEntry) and event.agent_id == JACK and event.is_utterance
    )
    answer = page.session("demo", f"messages/{said.message_id}")
    assert answer["message"]["message_id"] == said.message_id
    assert JILL in {hop["agent_id"] for hop in answer["hearers"]}
    heard = next(hop for hop in answer["hearers"] if hop["agent_id"] == JILL)
    assert {hop["message_id"] for hop in answer["effects"]} >= {heard["message_id"]}
    origins = page.session("demo", f"messages/{heard['message_id']}")["origins"]
    assert said.message_id in {hop["message_id"] for hop in origins}
    assert {hop["message_id"] for hop in origins} == {
        event["message_id"] for event in viewer.trace_message_flow(heard["message_id"])[:-1]
    }
    assert (answer["agent"], answer["totals"]["hearers"]) == (JACK, len(answer["hearers"]))
    item = page.session("demo", "items", **{"agent": JACK, "from": answer["index"]})["items"][0]
    assert item["message_id"] == said.message_id
    place = page.session("demo", "find", message=said.message_id)
    assert place == {"agent": JACK, "index": answer["index"]}


def test_a_model_call_shows_what_it_read_and_what_was_new(demo: Cli, page: Page) -> None:
    steps = page.session("demo", "steps", agent=JILL)
    numbers = [step["number"] for step in steps["steps"]]
    assert (steps["total"], len(numbers)) == (3, 3)
    second = page.session("demo", f"steps/{numbers[1]}")
    view = viewer_of(demo, "demo").context(second["step"]["request"]).as_json()
    assert second["messages"] == view["messages"]
    assert (second["is_intact"], second["is_verified"]) == (True, True)
    assert second["changes"]["kept"] == view["kept"]
    assert len(second["changes"]["messages"]) == second["changes_total"]
    pages = [
        page.session("demo", f"steps/{numbers[1]}", **{"from": at, "limit": 1})["messages"]
        for at in range(second["total"])
    ]
    assert [message for part in pages for message in part] == second["messages"]
    assert "rerun demo --at" in second["commands"]["rerun"]
    assert page.session("demo", "steps")["total"] > 3


def test_what_hooks_did_is_what_the_command_line_shows(demo: Cli, page: Page) -> None:
    write_guarded_log(demo.home / "sessions" / "s.jsonl")
    rows = demo.ok("view", "s", "hooks", "--json").json
    answer = page.session("s", "hooks")
    assert (answer["rows"], answer["total"]) == (rows, len(rows))
    assert page.session("s", "hooks", **{"from": 1, "limit": 2})["rows"] == rows[1:3]
    denial = next(row for row in rows if row["kind"] == "denial")
    about = page.session("s", f"messages/{denial['subject']}")
    assert [row["kind"] for row in about["verdicts"]] == ["denial"]


def test_a_long_text_is_read_as_a_whole(demo: Cli, page: Page) -> None:
    text = "word " * MAX_TEXT_CHARS
    with Session(demo.home / "sessions" / "long.jsonl") as session:
        agent = create_agent(session, relation="primary", name="Ann")
        id_ = log_user_message(session, agent, text)
        log_answer(session, agent, "x")
    [part] = page.session("long", "items", limit=1)["items"][0]["parts"]
    assert (len(part["text"]), part["length"]) == (MAX_TEXT_CHARS, len(text))
    query = {"message": id_, "part": part["position"]}
    assert page.session("long", "text", **query) == {"text": text}
    message = page.session("long", f"messages/{id_}")["message"]
    assert (len(message["content"]), message["content_length"]) == (MAX_TEXT_CHARS, len(text))


def test_an_image_is_sent_if_its_data_is_of_a_known_type(demo: Cli, page: Page) -> None:
    svg = b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>"
    with Session(demo.home / "sessions" / "images.jsonl") as session:
        agent = create_agent(session, relation="primary", name="Ann")
        for data in (PNG, svg):
            part = ImagePart(media_type="image/png", data=base64.b64encode(data).decode())
            session.append(TranscriptEntry(agent_id=agent, role="user", content=[part]))
    hashes = [item["parts"][0]["hash"] for item in page.session("images", "items")["items"]]
    shown, hidden = (page.get("/api/sessions/images/media", hash=hash_) for hash_ in hashes)
    assert (shown.status_code, shown.content) == (200, PNG)
    assert shown.headers["content-type"] == "image/png"
    assert (hidden.status_code, b"svg" in hidden.content) == (415, False)
    # A server that has just started finds it as well.
    with show_home(demo.home) as other:
        assert other.get("/api/sessions/images/media", hash=hashes[0]).content == PNG


def test_sessions_are_filtered_and_paged(demo: Cli, page: Page) -> None:
    for number in range(5):
        with Session(demo.home / "sessions" / f"talk-{number}.jsonl") as session:
            agent = create_agent(session, relation="primary", name=f"Ann{number}")
            log_user_message(session, agent, f"About topic {number}.")
    demo.ok("search", "topic")  # It indexes the sessions.
    with show_home(demo.home) as fresh:
        names: list[str] = []
        cursor: str | None = None
        while True:
            found = fresh.json("/api/sessions", limit=2, **({"cursor": cursor} if cursor else {}))
            names += [row["name"] for row in found["sessions"]]
            cursor = found["next"]
            if cursor is None:
                break
        assert (len(names), len(set(names)), found["total"]) == (6, 6, 6)

        def matches(**query: Any) -> list[str]:
            rows = fresh.json("/api/sessions", **query)["sessions"]
            return sorted(row["name"] for row in rows)

        assert matches(text="TOPIC 3") == ["talk-3"]
        assert matches(text="talk-4") == ["talk-4"]
        assert len(matches(agent="main")) == 6
        assert matches(agent="Jack") == ["demo"]
        assert matches(runtime="codex") == []
        assert matches(since="2999-01-01") == matches(until="2000-01-01") == []
        assert matches(min_cost=1) == matches(outcome="success") == []
        assert matches(live="true") == []
        row = fresh.json("/api/sessions", text="talk-1")["sessions"][0]
        assert (row["agents"], row["messages"], row["state"]) == (1, 1, "cut off?")


def test_a_live_session_is_marked_until_its_process_ends(demo: Cli, page: Page) -> None:
    with Session(demo.home / "sessions" / "live.jsonl") as session:
        log_user_message(session, create_agent(session, relation="primary", name="Ann"))
        assert page.session("live")["session"]["is_live"]
        session.end("done")
    assert not page.session("live")["session"]["is_live"]


def test_a_search_finds_messages_with_their_sessions(page: Page) -> None:
    found = page.json("/api/search", q="cafe")
    hit = next(hit for hit in found["hits"] if hit["message_id"] == "msg_003")
    assert (hit["session"], found["is_more"]) == ("demo", False)
    assert "cafe" in "".join(part["text"] for part in hit["snippet"] if part["is_match"])
    assert page.get("/api/search", q="  ").status_code == 422


def test_a_home_without_a_store_has_no_commits(page: Page) -> None:
    assert page.json("/api/commits")["rows"] == []


@needed
def test_imported_sessions_are_shown_like_recorded_ones(cli: Cli) -> None:
    file = DATA / "transcripts/claude-code/simonw+claude-code-transcripts"
    cli.ok("import", str(file))
    with show_home(cli.home) as page:
        rows = page.json("/api/sessions")["sessions"]
        assert rows
        for row in rows:
            assert (row["runtime"], row["is_imported"], row["state"]) == (
                "claude",
                True,
                "imported",
            )
            answer = page.session(row["name"])
            viewer_rows = cli.ok("view", row["name"], "tree", "--json").json
            assert answer["agents"] == viewer_rows
            items = page.all_items(row["name"], answer["primary"][0], limit=7)
            assert items == page.all_items(row["name"], answer["primary"][0])
            commits = page.json("/api/commits", session=row["name"], limit=2)["rows"]
            assert 0 < len(commits) <= 2
            assert answer["commands"]["claude"].startswith("harken resume claude:")
