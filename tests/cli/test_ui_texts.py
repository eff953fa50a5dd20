"""Whole texts are those that are shown, and no answer is too large or takes too long."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harken.core.events import ActionRewritten, HookVerdict
from harken.core.ids import AgentId, MessageId
from harken.service.viewer.rows import MAX_ANSWER_BYTES
from harken.session.session import Session
from tests.cli.kit import Cli
from tests.cli.ui_kit import Page, show_home
from tests.session_kit import (
    call_dict,
    create_agent,
    log_answer,
    log_request,
    log_response,
    log_tool_calls,
    log_tool_result,
    log_user_message,
    session_options,
)

LONG = "word " * 20_000
WRITTEN, HEARD = LONG + "SECRET-TAIL", LONG + "PUBLIC-TAIL"
OTHER = "[Ann]: " + LONG + "OTHER-TAIL"


def write_rewritten(log: Path) -> tuple[AgentId, AgentId, MessageId, MessageId]:
    """Write an answer and a call that a hook rewrote. Return Ann, Bob, the answer, the call."""
    with Session(log) as session:
        ann, bob, guard = (session.allocate_agent_id() for _ in range(3))
        birth = session.log_agent_created(ann, None, "Ann")
        session.log_agent_created(bob, birth, "Bob")
        session.log_agent_created(guard, birth, "Guard", relation="hook")
        answer = log_answer(session, ann, WRITTEN)
        session.append(
            HookVerdict(
                agent_id=guard,
                watched=ann,
                subject=answer,
                point="response",
                verdict="rewrite",
                text=HEARD,
            )
        )
        session.log_transcript_entry("user", {"role": "user", "content": HEARD}, answer)
        session.log_transcript_entry(bob, {"role": "user", "content": OTHER}, answer)
        call = log_tool_calls(session, ann, "c1", tool="bash", arguments=json.dumps([WRITTEN]))
        session.append(
            ActionRewritten(
                agent_id=ann, call=call, tool="bash", arguments=json.dumps([HEARD]), cause=answer
            )
        )
        log_tool_result(session, ann, "c1", OTHER)
    return ann, bob, answer, call


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Page]:
    (tmp_path / "sessions").mkdir()
    with show_home(tmp_path) as page:
        yield page


def read_text(page: Page, **query: object) -> str:
    text: str = page.session("s", "text", **query)["text"]
    return text


def test_a_whole_text_is_the_version_that_is_shown(page: Page, tmp_path: Path) -> None:
    ann, _, answer, call = write_rewritten(tmp_path / "sessions" / "s.jsonl")
    assert read_text(page, message=answer, part=0) == WRITTEN
    assert read_text(page, message=answer, version="heard") == HEARD
    for version, text in (("written", WRITTEN), ("heard", HEARD)):
        whole = read_text(page, message=call, part=0, version=version)
        assert json.loads(whole) == [text]
    assert read_text(page, message=call, part=0, version="result") == OTHER
    said, called = page.all_items("s", ann)
    rewritten = said["parts"][-1]
    assert (rewritten["kind"], rewritten["length"]) == ("rewritten", len(HEARD))
    assert {"kind": "added", "text": "PUBLIC"} in rewritten["spans"]
    spans = called["parts"][0]["rewritten"]["spans"]
    assert {"kind": "dropped", "text": "SECRET"} in spans
    path = "/api/sessions/s/text"
    for query in ({"version": "diff", "part": 0}, {"part": 1}, {"version": "heard", "part": 0}):
        assert page.get(path, message=answer, **query).status_code == 404
    assert page.get(path, message=answer, version="x").status_code == 422


def test_a_dialog_has_the_lengths_of_whole_texts_and_each_can_be_read(
    page: Page, tmp_path: Path
) -> None:
    ann, bob, *_ = write_rewritten(tmp_path / "sessions" / "s.jsonl")
    agents = f"{ann},{bob}"
    row = page.session("s", "dialog", agents=agents)["items"][0]
    shown, draft, version = row["parts"]
    lengths = [part["length"] for part in row["parts"]]
    assert lengths == [len(HEARD), len(WRITTEN), len(OTHER)]
    assert (shown["version"], draft["version"]) == ("shown", "draft")
    assert draft["name"] == "Ann wrote, and nobody heard"
    assert version["name"].endswith(" heard")
    query = {"message": row["message_id"], "agents": agents}
    assert read_text(page, **query) == HEARD
    assert read_text(page, **query, version="draft") == WRITTEN
    assert read_text(page, **query, version=version["version"]) == OTHER
    assert page.get("/api/sessions/s/text", **query, version="x").status_code == 404
    assert page.get("/api/sessions/s/text", **query, part=0).status_code == 422


def test_a_call_with_many_costly_edits_is_answered_quickly(page: Page, tmp_path: Path) -> None:
    old, new = "\n".join(["a"] * 190), "\n".join(["a", "b"] * 95)
    edits = [{"old_string": old, "new_string": new}] * 200
    with Session(tmp_path / "sessions" / "s.jsonl") as session:
        agent = create_agent(session, relation="primary", name="Ann")
        arguments = json.dumps({"file_path": "a", "edits": edits})
        log_tool_calls(session, agent, "c1", tool="edit", arguments=arguments)
    page.session("s")
    started_at = time.process_time()
    [item] = page.session("s", "items")["items"]
    assert time.process_time() - started_at < 3  # It takes 13 s if each edit is compared.
    [part] = item["parts"]
    assert (part["is_diff_partial"], len(part["diff"])) == (True, 4096)
    whole = read_text(page, message=item["message_id"], part=0, version="diff")
    assert len(whole) == part["diff_length"]


def test_no_answer_is_larger_than_2_mb_and_a_page_continues(page: Page, tmp_path: Path) -> None:
    text = "x" * 60_000
    with Session(tmp_path / "sessions" / "s.jsonl", options=session_options()) as session:
        agent = create_agent(session, relation="primary", name="Ann")
        for number in range(60):
            log_user_message(session, agent, text)
            calls = [f"c{number}-{n}" for n in range(20)]
            log_tool_calls(session, agent, *calls, tool="bash", arguments=json.dumps({"a": text}))
            for call in calls:
                log_tool_result(session, agent, call, text)
    url = "/api/sessions/s/items"
    response = page.get(url, limit=500)
    assert len(response.content) < MAX_ANSWER_BYTES + 10_000
    assert 0 < len(response.json()["items"]) < response.json()["total"] == 120
    items = page.all_items("s", agent)
    assert len(items) == 120
    for view in ("timeline", "steps", "hooks", "dialog"):
        query: dict[str, Any] = {"agents": agent} if view == "dialog" else {}
        answer = page.get(f"/api/sessions/s/{view}", limit=500, **query)
        assert len(answer.content) < MAX_ANSWER_BYTES + 10_000


def test_an_item_with_many_parts_fits_into_an_answer(page: Page, tmp_path: Path) -> None:
    calls = [f"c{n}" for n in range(2000)]
    with Session(tmp_path / "sessions" / "s.jsonl", options=session_options()) as session:
        agent = create_agent(session, relation="primary", name="Ann")
        log_tool_calls(session, agent, *calls, tool="bash", arguments=json.dumps({"a": "x" * 3000}))
    response = page.get("/api/sessions/s/items")
    assert len(response.json()["items"][0]["parts"]) == len(calls)
    assert len(response.content) < MAX_ANSWER_BYTES


def test_a_hit_names_its_agent_and_tells_whether_it_was_heard(page: Page, tmp_path: Path) -> None:
    with Session(tmp_path / "sessions" / "s.jsonl") as session:
        ann, guard = session.allocate_agent_id(), session.allocate_agent_id()
        birth = session.log_agent_created(ann, None, "Ann", relation="primary")
        session.log_agent_created(guard, birth, "Guard", relation="hook")
        hidden = log_answer(session, ann, "The tiger is hidden.")
        session.append(
            HookVerdict(
                agent_id=guard,
                watched=ann,
                subject=hidden,
                point="response",
                verdict="deny",
                text="no",
            )
        )
        shown = log_answer(session, ann, "The tiger is shown.")
    hits = {hit["message_id"]: hit for hit in page.json("/api/search", q="tiger")["hits"]}
    assert {hit["agent"] for hit in hits.values()} == {"Ann"}
    assert (hits[hidden]["is_unheard"], hits[shown]["is_unheard"]) == (True, False)


def test_the_end_of_a_session_is_the_time_of_its_last_event(page: Page, tmp_path: Path) -> None:
    log = tmp_path / "sessions" / "s.jsonl"
    with Session(log) as session:
        agent = create_agent(session, relation="primary", name="Ann")
        log_user_message(session, agent, "Look.")
    last = json.loads(log.read_bytes().splitlines()[-1])["time"]
    os.utime(log, (2_000_000_000, 2_000_000_000))  # As if it was copied later.
    assert page.session("s")["session"]["ended"] == last


def test_details_of_a_message_list_the_calls_that_read_it(demo: Cli) -> None:
    with show_home(demo.home) as page:
        steps = page.session("demo", "steps", agent="agent_001")["steps"]
        heard = page.all_items("demo", "agent_001")
        first = next(item for item in heard if item["label"] == "Heard")
        readers = page.session("demo", f"messages/{first['message_id']}")["readers"]
        numbers = [step["number"] for step in steps]
        assert readers == {"agent": "agent_001", "steps": numbers, "is_more": False}
        for event in page.session("demo", "timeline")["events"]:
            if event.get("source_agent") == "agent_002":
                assert event["lane"] is not None
                break
        else:
            raise AssertionError("no delivery from agent_002")


def test_the_parts_of_a_model_call_are_cut_with_their_lengths(page: Page, tmp_path: Path) -> None:
    with Session(tmp_path / "sessions" / "s.jsonl") as session:
        agent = create_agent(session, relation="primary", name="Ann")
        for _ in range(30):
            log_user_message(session, agent, "x" * 60_000)
        request = log_request(session, agent)
        calls = [call_dict(f"c{n}", arguments="y" * 30_000) for n in range(40)]
        answer = session.log_transcript_entry(agent, {"role": "assistant", "tool_calls": calls})
        log_response(session, agent, request, entry=answer)
        for number in range(40):
            log_tool_result(session, agent, f"c{number}", "z" * 60_000)
    response = page.get("/api/sessions/s/steps/1", limit=1)
    assert len(response.content) < 1_500_000
    step = response.json()
    assert (step["changes_total"], step["changes"]["messages_total"]) == (30, 30)
    assert len(step["changes"]["messages"]) < 10
    shown = step["result"]["answer"]["tool_calls"]
    assert len(shown) < step["result"]["answer"]["tool_calls_total"] == 40
    assert shown[-1]["function"]["arguments_length"] == 30_000


def test_a_timeline_with_very_many_agents_has_as_many_lanes_as_fit(
    page: Page, tmp_path: Path
) -> None:
    with Session(tmp_path / "sessions" / "s.jsonl") as session:
        birth = session.agent(create_agent(session, relation="primary", name="Ann")).birth
        for number in range(300):
            create_agent(session, cause=birth, name=f"{number} " + "n" * 5_000)
    timeline = page.session("s", "timeline", limit=1)
    assert len(timeline["lanes"]) < timeline["lanes_total"] == 301
    assert len(str(timeline["lanes"])) < 1_200_000
    assert len(page.session("s")["agents"]) == 301
