"""The session: agents, entries, pieces and listeners."""

from pathlib import Path
from typing import Any

import pytest

from harken.core import events as ev
from harken.core.ids import AgentId
from harken.core.logged_string import LoggedString
from harken.core.messages import Message, TextPart
from harken.errors import InvalidEvent, NameNotFound
from harken.session.session import Session
from tests.session_kit import (
    call_dict,
    context_texts,
    create_agent,
    find_line,
    fold_log,
    log_answer,
    log_request,
    log_tool_calls,
    log_tool_result,
    log_user_message,
    new_session,
    read_lines,
    read_message_ids,
    reload_session,
    session_options,
)

ROOT = AgentId("agent_001")
BIRTH = "msg_001"


@pytest.mark.req("S0-03")
def test_agent_ids_are_assigned_in_order_and_never_reused(tmp_path: Path) -> None:
    with new_session(tmp_path) as session:
        agent_ids = [session.allocate_agent_id() for _ in range(3)]
        session.log_agent_created(agent_ids[2])
        agent_ids += [session.allocate_agent_id() for _ in range(2)]
    assert agent_ids == [f"agent_{n:03d}" for n in range(1, 6)]


@pytest.mark.req("S0-03")
def test_foreign_agent_ids_are_kept_without_collisions(tmp_path: Path) -> None:
    with new_session(tmp_path) as session:
        session.log_agent_created("agent_root")
        session.log_agent_created("agent_007", "msg_001")
        session.log_agent_created("jill", "msg_001")
        log_user_message(session, "agent_root")
    session = Session.load(session.path, options=session_options())
    assert list(session.agents) == ["agent_root", "agent_007", "jill"]
    assert session.allocate_agent_id() == "agent_008"
    session.close()


@pytest.mark.req("S0-24", "S0-23")
def test_id_of_a_terminated_agent_is_not_reused_after_a_resume(session: Session) -> None:
    jack = create_agent(session, cause=BIRTH)
    assert jack == "agent_002"
    session.append(ev.AgentMoved(agent_id=jack, place="gone"))
    session = reload_session(session)
    assert create_agent(session, cause=BIRTH) == "agent_003"
    session.close()


def test_id_of_an_uncreated_agent_is_reused_only_after_a_resume(
    session: Session,
) -> None:
    assert session.allocate_agent_id() == "agent_002"
    assert session.allocate_agent_id() == "agent_003"
    session = reload_session(session)
    assert session.allocate_agent_id() == "agent_002"
    session.close()


@pytest.mark.req("S0-25", "S0-18")
def test_agent_created_may_have_cause_name_and_model(session: Session) -> None:
    calling = log_tool_calls(session, ROOT, "a")
    id_ = session.log_agent_created("agent_002", calling, "Jack", "anthropic/x")
    record = find_line(session, id_)
    want = {"agent_id": "agent_002", "cause": calling, "name": "Jack"}
    assert record.items() >= {**want, "language_model": "anthropic/x"}.items()
    assert not find_line(session, BIRTH).keys() & {"cause", "name", "language_model"}


@pytest.mark.req("S0-19")
def test_agent_created_precedes_the_pending_system_prompt(tmp_path: Path) -> None:
    with new_session(tmp_path) as session:
        root = session.allocate_agent_id()
        session.defer_messages(root, [Message("system", "You are root.")])
        assert len(read_lines(session.path)) == 1
        session.log_agent_created(root)
        calling = log_tool_calls(session, root, "a")
        jack = session.allocate_agent_id()
        session.defer_messages(jack, [Message("system", "You are Jack."), Message("user", "Go.")])
        birth = session.log_agent_created(jack, calling)
        log_user_message(session, jack, "hello")
    after_birth = [line for line in read_lines(session.path) if line.get("agent_id") == jack]
    assert after_birth[0]["message_id"] == birth
    assert [line.get("content") for line in after_birth] == [None, "You are Jack.", "Go.", "hello"]
    assert [line.get("cause") for line in after_birth] == [calling, calling, calling, None]
    assert "cause" not in find_line(session, "msg_002")


def test_pending_prompt_survives_a_refused_agent_event(session: Session) -> None:
    session.defer_messages(AgentId("agent_002"), [Message("system", "You are Jack.")])
    with pytest.raises(InvalidEvent):
        session.log_agent_created("agent_002", "msg_099")
    session.log_agent_created("agent_002", BIRTH)
    assert context_texts(session, "agent_002") == ["You are Jack."]


@pytest.mark.req("S0-29")
def test_registry_lists_all_agents_without_transcripts(
    session: Session,
) -> None:
    jack = create_agent(session, cause=BIRTH, name="Jack", language_model="m")
    log_answer(session, jack)
    session.append(ev.AgentMoved(agent_id=jack, place="gone"))
    session = reload_session(session)
    for id_ in session.agents:
        session.evict(id_)
    (root, removed_agent) = session.agents.values()
    assert (root.id, root.place, removed_agent.id) == (ROOT, "primary", jack)
    assert (removed_agent.name, removed_agent.language_model, removed_agent.place) == (
        "Jack",
        "m",
        "gone",
    )
    assert (root.transcript, removed_agent.transcript) == (None, None)
    session.close()


def test_unknown_agent_error_lists_existing_agents(session: Session) -> None:
    for look in (session.agent, session.evict, session.context):
        with pytest.raises(
            NameNotFound, match=r"agent 'jill' not found; existing agents: agent_001"
        ):
            look("jill")


@pytest.mark.req("S0-06", "S0-26")
def test_entry_has_the_members_of_its_message(session: Session) -> None:
    calling = session.log_transcript_entry(
        ROOT, {"role": "assistant", "content": "hm", "tool_calls": [call_dict("a", "look")]}
    )
    answer = session.log_transcript_entry(
        ROOT, {"role": "tool", "content": "x", "tool_call_id": "a", "name": "look"}
    )
    system = session.log_transcript_entry(ROOT, {"role": "system", "content": "s"}, cause=BIRTH)
    copy = session.log_transcript_entry(ROOT, {"role": "user", "content": "c"}, answer)
    frame = {"message_id", "event_type", "agent_id", "time", "sum"}
    records = [
        {k: v for k, v in line.items() if k not in frame} for line in read_lines(session.path)[2:]
    ]
    assert records == [
        {"role": "assistant", "content": "hm", "tool_calls": [call_dict("a", "look")]},
        {"role": "tool", "content": "x", "tool_call_id": "a", "name": "look"},
        {"role": "system", "content": "s", "cause": BIRTH},
        {"role": "user", "content": "c", "substance": answer},
    ]
    assert [calling, answer, system, copy] == ["msg_002", "msg_003", "msg_004", "msg_005"]


@pytest.mark.req("S0-07")
@pytest.mark.parametrize("arguments", ['{"b": 1,  "a":1.0}', "{", "", "nul\0 \ud800", '"\\u00e9"'])
def test_arguments_are_kept_exactly(session: Session, arguments: str) -> None:
    calling = log_tool_calls(session, ROOT, "a", arguments=arguments)
    session = reload_session(session)
    (call,) = find_line(session, calling)["tool_calls"]
    assert call == {
        "id": "a",
        "type": "function",
        "function": {"name": "look", "arguments": arguments},
    }
    (open_call,) = session.agents[ROOT].open_calls.values()
    assert open_call.arguments == arguments
    session.close()


@pytest.mark.req("S0-08", "S0-13")
def test_result_resolves_to_the_calling_entry(session: Session) -> None:
    calling = log_tool_calls(session, ROOT, "a", "b")
    open_calls = {call.id: call.reference for call in session.agents[ROOT].open_calls.values()}
    assert open_calls == {"a": f"{calling}.a", "b": f"{calling}.b"}
    for id_ in "ba":
        log_tool_result(session, ROOT, id_)
    records = [line for line in read_lines(session.path) if line.get("role") == "tool"]
    assert [(line["tool_call_id"], line["name"]) for line in records] == [
        ("b", "look"),
        ("a", "look"),
    ]
    only = log_tool_calls(session, ROOT, "a")
    assert session.agents[ROOT].open_calls["a"].reference == only


@pytest.mark.req("S0-12")
def test_substance_and_cause_may_reference_any_event_type(session: Session) -> None:
    piece = session.log_piece_of_text(ROOT, "x", BIRTH)
    saved = session.append(ev.AgentStateSaved(agent_id=ROOT, state=1))
    original = log_answer(session, ROOT)
    for id_ in ("msg_000", BIRTH, piece, saved, original):
        assert (
            find_line(session, log_user_message(session, ROOT, substance=id_))["substance"] == id_
        )
        assert find_line(session, log_user_message(session, ROOT, cause=id_))["cause"] == id_
    several = [BIRTH, piece, saved, original]
    assert find_line(session, log_user_message(session, ROOT, cause=several))["cause"] == several


@pytest.mark.req("S0-14")
def test_formatted_or_rewritten_copy_references_its_original(
    session: Session,
) -> None:
    jill = create_agent(session, cause=BIRTH)
    original = log_answer(session, ROOT, "password: 1234")
    copy_id = log_user_message(session, jill, "[Jack]: password: [REDACTED]", substance=original)
    assert "substance" not in find_line(session, original)
    assert find_line(session, copy_id)["substance"] == original


@pytest.mark.req("S0-15", "S0-27")
def test_piece_has_author_content_and_cause_and_no_transcript(
    session: Session,
) -> None:
    calling = log_tool_calls(session, ROOT, "a")
    first = session.log_piece_of_text(ROOT, LoggedString("Meet!", calling), calling)
    two = session.log_piece_of_text(ROOT, "Both", [calling, first])
    records = [find_line(session, id_) for id_ in (first, two)]
    assert [(t["agent_id"], t["content"], t["cause"]) for t in records] == [
        (ROOT, "Meet!", calling),
        (ROOT, "Both", [calling, first]),
    ]
    assert all("substance" not in t for t in records)
    transcript = session.agent(ROOT).transcript or []
    assert [entry.message_id for entry in transcript] == [calling]


@pytest.mark.req("S0-16")
def test_text_for_n_agents_is_one_piece_and_n_entries(session: Session) -> None:
    jack, jill = (create_agent(session, cause=BIRTH) for _ in range(2))
    piece = session.log_piece_of_text(ROOT, "Meet!", log_tool_calls(session, ROOT, "a"))
    for agent in (jack, jill):
        log_user_message(session, agent, "Meet!", substance=piece)
    records = [line for line in read_lines(session.path) if line.get("content") == "Meet!"]
    assert [line["event_type"] for line in records] == ["piece_of_text", *["transcript_entry"] * 2]
    assert [line.get("substance") for line in records] == [None, piece, piece]


def test_content_may_be_a_logged_string_or_a_list_of_parts(session: Session) -> None:
    log_user_message(session, ROOT, LoggedString("hi", "msg_000"))
    parts = [{"type": "text", "text": "look"}, {"type": "image", "url": "http://x"}]
    session.log_transcript_entry(ROOT, {"role": "user", "content": parts})
    contents = [line["content"] for line in read_lines(session.path)[2:]]
    assert contents == ["hi", parts]
    assert isinstance((session.agent(ROOT).transcript or [])[1].content, list)


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"role": "user", "content": 5},
        {"role": "assistant", "tool_calls": "a"},
    ],
)
def test_invalid_message_is_refused(session: Session, message: dict[str, Any]) -> None:
    with pytest.raises(InvalidEvent, match="not a message"):
        session.log_transcript_entry(ROOT, message)
    assert len(read_lines(session.path)) == 2


def test_logged_event_is_independent_of_caller_objects(session: Session) -> None:
    event = ev.TranscriptEntry(agent_id=ROOT, role="user", content=[TextPart("a")])
    session.append(event)
    assert isinstance(event.content, list)
    event.content.append(TextPart("b"))
    session.append(event)
    assert [len(content) for content in context_texts(session, ROOT)] == [1, 2]
    assert read_message_ids(session.path)[2:] == ["msg_002", "msg_003"]
    assert fold_log(session.path).describe() == session.state.describe()


def test_batch_may_reference_its_own_earlier_events(session: Session) -> None:
    answer_event = ev.TranscriptEntry(agent_id=ROOT, role="assistant", content="hi")
    request = log_request(session, ROOT)
    answer = ev.LlmResponse(agent_id=ROOT, request=request, entry=session.next_id())
    assert session.append_all([answer_event, answer]) == ["msg_003", "msg_004"]
    assert session.append_all([]) == []


def test_listeners_receive_the_events_of_a_group_after_its_write(session: Session) -> None:
    received: list[tuple[str, bool, int]] = []

    def listen(event: ev.Event) -> None:
        is_written = event.message_id in read_message_ids(session.path)
        received.append((event.message_id, is_written, session.state.next_message))

    session.add_listener(listen)
    session.append_all([ev.AgentStateSaved(agent_id=ROOT, state=n) for n in range(2)])
    session.append(ev.AgentStateSaved(agent_id=ROOT, state=2))
    assert received == [("msg_002", True, 4), ("msg_003", True, 4), ("msg_004", True, 5)]


def test_listener_may_append_and_may_fail(session: Session) -> None:
    def save_what_was_said(event: ev.Event) -> None:
        if isinstance(event, ev.TranscriptEntry):
            session.append(ev.AgentStateSaved(agent_id=ROOT, state=event.content))

    def fail(event: ev.Event) -> None:
        raise ZeroDivisionError

    session.add_listener(save_what_was_said)
    log_user_message(session, ROOT, "one")
    session.add_listener(fail)
    with pytest.raises(ZeroDivisionError):
        log_user_message(session, ROOT, "two")
    state = session.state.describe()
    assert [line["event_type"] for line in read_lines(session.path)[2:]] == [
        "transcript_entry",
        "agent_state_saved",
    ] * 2
    assert fold_log(session.path).describe() == state
