"""Sessions of Harken: their logs say everything, their commits where one can go on from."""

from __future__ import annotations

from pathlib import Path

import pytest

from harken.agents.checkpointer import Checkpointer
from harken.core import events as ev
from harken.core.ids import AgentId, MessageId
from harken.session.session import Session
from tests.session_kit import (
    create_agent,
    entry_segment,
    log_answer,
    log_edit,
    log_request,
    log_response,
    log_tool_calls,
    log_tool_result,
    log_turn,
    log_user_message,
    new_session,
)
from tests.unit.index.imported import Imports

ORDERED = "SELECT commit_id FROM messages ORDER BY id"
USAGE = ev.Usage(input_tokens=100, cache_read_tokens=60, cache_write_tokens=10, output_tokens=7)


@pytest.fixture
def session(tmp_path: Path, imports: Imports) -> Session:
    made = new_session(tmp_path)
    imports.logs.append(made.path)
    return made


def commit(imports: Imports, session: Session, agent: AgentId) -> None:
    assert Checkpointer(store=imports.store).commit_pending(session, agent, "turn_boundary")


def test_a_session_without_any_commit_is_there(imports: Imports, session: Session) -> None:
    main = create_agent(session, name="main")
    log_turn(session, main, 1)
    imports.update()
    assert imports.rows("SELECT name, runtime, title FROM sessions") == [("s", "harken", "turn 1")]
    assert imports.rows("SELECT kind, commit_id FROM messages") == [
        ("prompt", None),
        ("response", None),
        ("tool_result", None),
        ("response", None),
    ]
    looked = [("look", imports.messages[2])]
    assert imports.rows("SELECT name, result_id FROM tool_calls") == looked


def test_what_a_client_says_in_a_persons_name_is_no_prompt(
    imports: Imports, session: Session
) -> None:
    main = create_agent(session, name="main", spec={"recorded": "claude-code"})
    log_user_message(session, main, "<system-reminder>It is noon.</system-reminder>")
    log_user_message(session, main, "<system-reminder>It is noon.</system-reminder>\n\nHi")
    imports.update()
    assert imports.column("SELECT kind FROM messages") == ["system", "prompt"]
    assert imports.column("SELECT title FROM sessions") == ["Hi"]


def test_again_only_what_is_new_of_a_log_is_read(imports: Imports, session: Session) -> None:
    main = create_agent(session, name="main")
    calling = log_tool_calls(session, main, "c1")
    request = log_request(session, main)
    imports.update()
    log_response(session, main, request, entry=calling)
    log_tool_result(session, main, "c1")
    imports.update()
    imports.update()
    assert imports.column("SELECT kind FROM messages") == ["response", "tool_result"]
    asked, answer = imports.messages
    assert imports.rows("SELECT message_id, model FROM requests") == [(asked, "")]
    assert imports.column("SELECT result_id FROM tool_calls") == [answer]


def test_messages_know_the_commit_that_they_are_in(imports: Imports, session: Session) -> None:
    main = create_agent(session, name="main")
    log_turn(session, main, 1)
    commit(imports, session, main)
    imports.update()
    log_user_message(session, main, "and now?")
    imports.update()
    assert imports.column(ORDERED) == [1, 1, 1, 1, None]
    log_answer(session, main, "the end")
    commit(imports, session, main)
    imports.update()
    assert imports.column(ORDERED) == [1, 1, 1, 1, 2, 2]
    assert imports.rows("SELECT agent_id, parent_id FROM commits") == [(1, None), (1, 1)]
    assert imports.rows("SELECT name, tip_id FROM agents") == [("", 2)]


def test_a_commit_whose_log_was_not_read_so_far_is_linked_later(
    imports: Imports, session: Session
) -> None:
    main = create_agent(session, name="main")
    log_turn(session, main, 1)
    imports.update()
    commit(imports, session, main)
    logs, imports.logs = imports.logs, []
    imports.update()
    imports.logs = logs
    imports.update()
    assert imports.column(ORDERED) == [1, 1, 1, 1]


def test_usage_and_cost_are_those_of_the_log(imports: Imports, session: Session) -> None:
    main = create_agent(session, name="main")
    log_user_message(session, main)
    request = log_request(session, main)
    said = log_answer(session, main)
    log_response(session, main, request, entry=said, usage=USAGE, cost_usd=0.25, stop_reason="stop")
    commit(imports, session, main)
    imports.update()
    columns = (
        "message_id, model, input_tokens, cache_read_tokens, cache_write_tokens, output_tokens, "
        "cost_usd, is_cost_told, stop_reason"
    )
    found = imports.rows(f"SELECT {columns} FROM requests")
    assert found == [(imports.messages[1], "scripted:x", 30, 60, 10, 7, 0.25, 1, "stop")]


def test_what_is_told_to_another_agent_counts_once(imports: Imports, session: Session) -> None:
    main = create_agent(session, name="main")
    log_user_message(session, main)
    asked = log_tool_calls(session, main, "c1")
    ann = create_agent(session, name="Ann", cause=asked, relation="subagent")
    log_user_message(session, ann, "tea or coffee?", cause=asked)
    said = log_answer(session, ann, "tea")
    log_user_message(session, main, "[Ann]: tea", substance=said)
    imports.update()
    assert imports.rows("SELECT name, parent_id FROM agents") == [("", None), ("Ann", 1)]
    assert imports.rows("SELECT agent_id, kind, is_repeat FROM messages") == [
        (1, "prompt", 0),
        (1, "response", 0),
        (2, "system", 0),
        (2, "response", 0),
        (1, "system", 1),
    ]
    assert imports.column("SELECT count(*) FROM words WHERE words MATCH 'tea'") == [2]


def test_agents_of_one_name_are_several(imports: Imports, session: Session) -> None:
    main = create_agent(session, name="main")
    asked = log_tool_calls(session, main, "c1", "c2")
    for _ in range(2):
        ann = create_agent(session, name="Ann", cause=asked, relation="subagent")
        log_user_message(session, ann, "tea or coffee?", cause=asked)
        log_answer(session, ann, "tea")
        commit(imports, session, ann)
    imports.update()
    assert imports.column("SELECT count(*) FROM agents") == [3]
    assert imports.column("SELECT agent_id FROM commits ORDER BY id") == [2, 2, 3, 3]


def test_a_summary_is_one(imports: Imports, session: Session) -> None:
    main = create_agent(session, name="main")
    log_turn(session, main, 1)
    summary = log_user_message(session, main, "they spoke", cause=MessageId("msg_001"))
    log_edit(session, main, entry_segment(summary), summary=summary)
    commit(imports, session, main)
    imports.update()
    assert imports.column("SELECT kind FROM messages WHERE kind = 'summary'") == ["summary"]
    assert imports.column("SELECT type FROM commits") == ["delta", "compaction"]
    assert imports.column("SELECT count(*) FROM messages") == [5]


def test_how_a_session_ended_is_its_outcome(imports: Imports, session: Session) -> None:
    create_agent(session, name="main")
    session.append(ev.SessionEnded(reason="done"))
    imports.update()
    assert imports.column("SELECT outcome FROM sessions") == ["done"]


def test_a_log_that_is_another_one_now_is_read_anew(imports: Imports, session: Session) -> None:
    main = create_agent(session, name="main")
    log_turn(session, main, 1)
    imports.update()
    session.close()
    data = session.path.read_bytes()
    for other in (data.replace(b"turn 1", b"turn 2") + data[-200:], data[:-300]):
        session.path.write_bytes(other)
        imports.update()
        imports.update()
    assert imports.column("SELECT count(*) FROM sessions") == [1]
    assert imports.column("SELECT count(*) FROM words WHERE words MATCH 'turn'") == [1]


def test_a_torn_line_waits_and_a_bad_one_is_passed_over(imports: Imports, session: Session) -> None:
    main = create_agent(session, name="main")
    log_turn(session, main, 1)
    session.close()
    *lines, last = session.path.read_bytes().splitlines(keepends=True)
    session.path.write_bytes(b"".join([*lines, b"{bad\n", last[:-9]]))
    imports.update()
    before = imports.column("SELECT count(*) FROM requests")
    with session.path.open("ab") as file:
        file.write(last[-9:])
    imports.update()
    assert before == [1]
    assert imports.column("SELECT count(*) FROM requests") == [2]
    assert imports.column("SELECT count(*) FROM messages") == [4]


def test_a_copy_of_a_log_adds_nothing(imports: Imports, session: Session) -> None:
    main = create_agent(session, name="main")
    log_turn(session, main, 1)
    copy = session.path.with_name("copy.jsonl")
    copy.write_bytes(session.path.read_bytes())
    imports.logs.append(copy)
    imports.update()
    assert imports.column("SELECT count(*) FROM messages") == [4]


def test_what_is_no_log_stops_nothing(imports: Imports, session: Session, tmp_path: Path) -> None:
    log_turn(session, create_agent(session, name="main"), 1)
    for name, data in (("a", b""), ("b", b"\x00" * 99), ("c", b'{"event_type": 5}\n')):
        path = tmp_path / f"{name}.jsonl"
        path.write_bytes(data)
        imports.logs.insert(0, path)
    imports.logs.insert(0, tmp_path / "gone.jsonl")
    imports.update()
    assert imports.column("SELECT count(*) FROM messages") == [4]
