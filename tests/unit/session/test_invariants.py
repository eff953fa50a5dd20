"""What the writer refuses. A refusal writes nothing and the session goes on."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harken.core import events as ev
from harken.core.ids import USER, AgentId, MessageId
from harken.core.messages import FunctionCall, TextPart, ToolCall, ToolCallSlot
from harken.errors import InvalidEvent
from harken.session.session import Session
from tests.session_kit import (
    assert_refused,
    call_dict,
    create_agent,
    entry_segment,
    find_line,
    hash_context,
    log_answer,
    log_edit,
    log_request,
    log_response,
    log_tool_calls,
    log_tool_result,
    log_user_message,
    new_session,
    range_segment,
    reload_session,
)

ROOT = AgentId("agent_001")


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    """A session with one agent, its birth `msg_001`, and what it heard, `msg_002`."""
    with new_session(tmp_path) as session:
        log_user_message(session, create_agent(session))
        yield session


def entry(role: Any = "user", agent: str = ROOT, **more: Any) -> ev.TranscriptEntry:
    return ev.TranscriptEntry(agent_id=AgentId(agent), role=role, **{"content": "x", **more})


def piece(**more: Any) -> ev.PieceOfText:
    return ev.PieceOfText(agent_id=ROOT, content="x", **more)


def birth(id_: str = "agent_002", **more: Any) -> ev.AgentCreated:
    return ev.AgentCreated(agent_id=AgentId(id_), **{"relation": "subagent", **more})


def call(id_: str) -> ToolCall:
    return ToolCall(id_, FunctionCall("look", "{}"))


def id_of(text: str) -> MessageId:
    return MessageId(text)


@pytest.mark.req("S0-11")
def test_substance_and_cause_together_are_refused(session: Session) -> None:
    both = entry(substance=id_of("msg_002"), cause="msg_001")
    assert_refused(session, both, because="never both")


@pytest.mark.parametrize(
    "nowhere", ["msg_099", "msg_3", "msg_0002", "msg_", "2", "", "agent_001", "msg_-1", "msg_٢"]
)
def test_what_points_nowhere_is_refused(session: Session, nowhere: str) -> None:
    """The third form of an id, `msg_0002`, counts as none: readers look ids up as text."""
    assert_refused(session, entry(substance=id_of(nowhere)), because="substance")
    assert_refused(session, entry(cause=nowhere), because="cause")
    assert_refused(session, entry(cause=["msg_001", nowhere]), because="cause")
    assert_refused(session, piece(cause=nowhere), because="cause")


def test_an_event_cannot_point_at_itself(session: Session) -> None:
    own = session.next_id()
    assert_refused(session, entry(substance=own), because="no such message")
    assert_refused(session, entry(cause=session.next_id()), because="no such message")


def test_an_empty_list_is_no_cause(session: Session) -> None:
    assert_refused(session, entry(cause=[]), because="at least one")


@pytest.mark.req("S0-14")
def test_a_copy_is_nobodys_original(session: Session) -> None:
    copy = log_user_message(session, ROOT, "[Jack]: hello", substance="msg_002")
    assert_refused(session, entry(substance=copy), because="itself a copy")


@pytest.mark.req("S0-14")
def test_a_copy_of_before_the_resume_is_nobodys_original_either(session: Session) -> None:
    copy = log_user_message(session, ROOT, substance="msg_002")
    resumed = reload_session(session)
    assert_refused(resumed, entry(substance=copy), because="itself a copy")
    resumed.close()


@pytest.mark.req("S0-13")
def test_one_of_several_calls_is_named_with_its_id(session: Session) -> None:
    calling = log_tool_calls(session, ROOT, "a", "b.c")
    session.append(piece(cause=f"{calling}.a"))
    session.append(piece(cause=f"{calling}.b.c"))
    assert_refused(session, piece(cause=f"{calling}.b"), because="no call in progress")
    assert_refused(session, piece(cause="msg_002.a"), because="no call in progress")


@pytest.mark.req("S0-13")
def test_an_only_call_is_named_by_its_message(session: Session) -> None:
    calling = log_tool_calls(session, ROOT, "a")
    assert find_line(session, session.append(piece(cause=calling)))["cause"] == calling
    assert_refused(session, piece(cause=f"{calling}.a"), because="no call in progress")


def test_a_call_that_has_its_result_is_no_call_in_progress(session: Session) -> None:
    calling = log_tool_calls(session, ROOT, "a", "b")
    log_tool_result(session, ROOT, "a")
    assert_refused(session, piece(cause=f"{calling}.a"), because="no call in progress")
    session.append(piece(cause=f"{calling}.b"))


@pytest.mark.req("S0-15")
def test_a_piece_needs_a_cause_and_an_author(session: Session) -> None:
    assert_refused(session, piece(), because="has a cause")
    author = ev.PieceOfText(agent_id=AgentId("agent_009"), content="x", cause="msg_001")
    assert_refused(session, author, because="not born")


@pytest.mark.req("S0-18")
def test_a_second_root_is_refused(session: Session) -> None:
    assert_refused(session, birth(relation="primary"), because="has a root")


@pytest.mark.parametrize("id_", ["agent_001", "user", ""])
def test_nobody_is_born_twice_or_without_an_id(session: Session, id_: str) -> None:
    assert_refused(session, birth(id_, cause="msg_001"), because="born before|new agent's id")


def test_a_birth_is_caused_by_a_call_in_progress_or_by_a_birth(session: Session) -> None:
    assert_refused(session, birth(cause="msg_002"), because="no call in progress and no birth")
    calling = log_tool_calls(session, ROOT, "a")
    log_tool_result(session, ROOT, "a")
    assert_refused(session, birth(cause=calling), because="no call in progress and no birth")
    session.append(birth(cause="msg_001"))


@pytest.mark.req("S0-20")
def test_a_birth_says_what_is_born(session: Session) -> None:
    assert_refused(session, birth(cause="msg_001", relation=None), because="has a relation")
    assert_refused(session, birth(cause="msg_001", relation="primary"), because="has a relation")


@pytest.mark.parametrize("relation", ["subagent", "hook", None])
def test_a_root_is_primary(tmp_path: Path, relation: Any) -> None:
    with new_session(tmp_path) as empty, pytest.raises(InvalidEvent, match="relation"):
        empty.append(birth("agent_001", relation=relation))


@pytest.mark.req("S0-19")
def test_who_was_not_born_has_no_entries(session: Session) -> None:
    assert_refused(session, entry(agent="agent_009"), because="not born")
    assert_refused(session, entry(agent=""), because="not born")


def of_an_agent(agent: AgentId | None) -> list[ev.Event]:
    """One event of each type that is about an agent."""
    return [
        ev.AgentConfigured(agent_id=agent, name="x"),
        ev.AgentStateSaved(agent_id=agent, state=1),
        ev.AgentMoved(agent_id=agent, place="gone"),
        ev.InterlocutorsSet(agent_id=agent),
        ev.TranscriptEdited(agent_id=agent, segments=[]),
        ev.ContextLoaded(agent_id=agent, ctx="ctx-1", count=0, context_hash=""),
        ev.ContextCommitted(agent_id=agent, ctx="ctx-1"),
        ev.LlmRequest(agent_id=agent, context=[], count=0, context_hash="", model="x"),
        ev.LlmResponse(agent_id=agent, request=id_of("msg_002")),
        ev.ActionRewritten(agent_id=agent, call="msg_002", tool="x", arguments="{}"),
        ev.MemoryOperation(agent_id=agent, memory_type="LTM", operation="READ"),
        ev.TranscriptEntry(agent_id=agent, role="user"),
        ev.PieceOfText(agent_id=agent, content="x", cause="msg_002"),
    ]


@pytest.mark.parametrize("nobody", [None, AgentId("agent_009"), AgentId("")])
@pytest.mark.parametrize("at", range(13))
def test_every_event_about_an_agent_needs_one_that_was_born(
    session: Session, at: int, nobody: AgentId | None
) -> None:
    assert_refused(session, of_an_agent(nobody)[at], because="not born")


@pytest.mark.parametrize(
    "event",
    [
        ev.SessionStarted(agent_id=ROOT, session_id="s"),
        ev.SessionEnded(agent_id=ROOT),
        ev.SessionRepaired(agent_id=ROOT, source="x"),
        ev.ContentPurged(agent_id=ROOT, places=1),
        ev.ToolsDefined(agent_id=ROOT, tools=[], tools_hash="h"),
    ],
)
def test_an_event_of_the_session_is_about_no_agent(session: Session, event: ev.Event) -> None:
    assert_refused(session, event, because="about no agent")


def test_a_session_starts_once(session: Session) -> None:
    assert_refused(session, ev.SessionStarted(session_id="other"), because="starts once")


@pytest.mark.req("S0-06")
@pytest.mark.parametrize("role", ["developer", "", "User", None, 1])
def test_other_roles_are_refused(session: Session, role: Any) -> None:
    assert_refused(session, entry(role), because="role")
    with pytest.raises(InvalidEvent):
        session.log_transcript_entry(ROOT, {"role": role, "content": "x"})


def tool(**more: Any) -> ev.TranscriptEntry:
    return entry("tool", **{"tool_call_id": "a", "name": "look", **more})


@pytest.mark.req("S0-09")
def test_a_second_result_is_refused(session: Session) -> None:
    log_tool_calls(session, ROOT, "a")
    session.append(tool())
    assert_refused(session, tool(content="more"), because="exactly one result")


@pytest.mark.req("S0-09")
def test_a_second_result_is_refused_in_the_same_batch_too(session: Session) -> None:
    log_tool_calls(session, ROOT, "a")
    with pytest.raises(InvalidEvent, match="exactly one result"):
        session.append_all([tool(), tool()])
    assert [e.role for e in session.agent(ROOT).transcript or ()].count("tool") == 1


@pytest.mark.req("S0-09")
def test_a_second_result_is_refused_after_a_resume_too(session: Session) -> None:
    log_tool_calls(session, ROOT, "a")
    session.append(tool())
    resumed = reload_session(session)
    assert_refused(resumed, tool(), because="exactly one result")
    resumed.close()


@pytest.mark.req("S0-08")
def test_a_result_names_a_call_of_its_own_agent_and_its_tool(session: Session) -> None:
    other = create_agent(session, cause="msg_001")
    log_tool_calls(session, other, "a")
    assert_refused(session, tool(), because="no such call open")
    assert_refused(session, tool(agent=USER), because="no such call open")
    assert_refused(session, tool(agent=other, name=None), because="names its call")
    assert_refused(session, tool(agent=other, tool_call_id=None), because="names its call")
    assert_refused(session, tool(agent=other, tool_call_id="b"), because="no such call open")
    session.append(tool(agent=other))


@pytest.mark.parametrize("role", ["user", "assistant", "system"])
def test_only_a_result_has_a_tool_call_id(session: Session, role: str) -> None:
    log_tool_calls(session, ROOT, "a")
    assert_refused(session, entry(role, tool_call_id="a"), because="only a result")


@pytest.mark.req("S0-07")
@pytest.mark.parametrize("role", ["user", "system"])
def test_only_an_assistant_calls_tools(session: Session, role: str) -> None:
    assert_refused(session, entry(role, tool_calls=[call("a")]), because="assistant")


@pytest.mark.req("S0-07")
def test_call_ids_tell_open_calls_apart(session: Session) -> None:
    assert_refused(session, entry("assistant", tool_calls=[]), because="at least one")
    assert_refused(
        session, entry("assistant", tool_calls=[call("")]), because="empty or used twice"
    )
    assert_refused(session, entry("assistant", tool_calls=[call("a")] * 2), because="used twice")
    log_tool_calls(session, ROOT, "a")
    assert_refused(session, entry("assistant", tool_calls=[call("a")]), because="used twice")
    log_tool_result(session, ROOT, "a")
    log_tool_calls(session, ROOT, "a")


@pytest.mark.req("S0-07")
@pytest.mark.parametrize(
    "broken",
    [
        {"id": "a"},
        {"function": {"name": "look", "arguments": "{}"}},
        {"id": "a", "function": {"name": "look", "arguments": {}}},
        {"id": "a", "function": {"arguments": "{}"}},
        "a",
    ],
)
def test_a_call_of_another_shape_is_refused(session: Session, broken: Any) -> None:
    with pytest.raises(InvalidEvent, match="not a message"):
        session.log_transcript_entry(ROOT, {"role": "assistant", "tool_calls": [broken]})


def test_a_content_that_places_calls_places_each_once(session: Session) -> None:
    parts = [TextPart("x"), ToolCallSlot("a")]
    for calls in ([call("a"), call("b")], [call("b")]):
        assert_refused(
            session, entry("assistant", content=parts, tool_calls=calls), because="each of them"
        )
    twice = entry(
        "assistant", content=[ToolCallSlot("a"), ToolCallSlot("a")], tool_calls=[call("a")]
    )
    assert_refused(session, twice, because="each of them")
    session.append(entry("assistant", content=parts, tool_calls=[call("a")]))


@pytest.mark.req("S0-22")
def test_a_request_names_the_context_as_it_is(session: Session) -> None:
    log_user_message(session, ROOT, "more")
    segments = session.agent(ROOT).segments()
    for context, count in (([], 0), (segments, 1), (segments, 3), ([range_segment(0, 2)], 2)):
        request = ev.LlmRequest(
            agent_id=ROOT, context=context, count=count, context_hash="", model="x"
        )
        assert_refused(session, request, because="those of agent_001's context")


@pytest.mark.req("S0-22")
def test_a_request_and_the_entry_before_it_may_come_in_one_batch_only_in_order(
    session: Session,
) -> None:
    stale = ev.LlmRequest(
        agent_id=ROOT,
        context=session.agent(ROOT).segments(),
        count=1,
        context_hash=hash_context(session.context(ROOT)),
        model="x",
    )
    with pytest.raises(InvalidEvent, match="context"):
        session.append_all([entry(), stale])


@pytest.mark.req("S0-22")
def test_a_request_names_tools_that_were_defined_and_they_are_defined_once(
    session: Session,
) -> None:
    with pytest.raises(InvalidEvent, match="no such tools_defined"):
        log_request(session, ROOT, tools=id_of("msg_002"))
    tools = ev.ToolsDefined(tools=[{"name": "look"}], tools_hash="h")
    defined = session.append(tools)
    log_request(session, ROOT, tools=defined)
    assert_refused(session, tools, because="defined before")


@pytest.mark.req("S0-22")
def test_a_response_answers_the_open_request_of_its_agent(session: Session) -> None:
    other = create_agent(session, cause="msg_001")
    request = log_request(session, ROOT)
    for agent, named in ((ROOT, "msg_002"), (ROOT, "msg_099"), (other, request)):
        response = ev.LlmResponse(agent_id=agent, request=id_of(named))
        assert_refused(session, response, because="waits for no answer")
    log_response(session, ROOT, request)
    assert_refused(
        session, ev.LlmResponse(agent_id=ROOT, request=request), because="waits for no answer"
    )


def test_other_members_that_point_nowhere_are_refused(session: Session) -> None:
    request, nowhere = log_request(session, ROOT), id_of("msg_099")
    for event in (
        ev.LlmResponse(agent_id=ROOT, request=request, entry=nowhere),
        ev.TranscriptEdited(agent_id=ROOT, segments=[], summary=nowhere),
        ev.ContextCommitted(agent_id=ROOT, ctx="ctx-1", upto=nowhere),
    ):
        assert_refused(session, event, because="no such message")


def test_only_an_open_call_of_the_agent_is_rewritten(session: Session) -> None:
    calling = log_tool_calls(session, ROOT, "a")
    other = create_agent(session, cause="msg_001")
    for agent, named in ((ROOT, "msg_002"), (other, calling), (ROOT, f"{calling}.a")):
        event = ev.ActionRewritten(agent_id=agent, call=named, tool="look", arguments="{}")
        assert_refused(session, event, because="no such call open")
    event = ev.ActionRewritten(agent_id=ROOT, call=calling, tool="look", arguments="{}")
    session.append(event)
    log_tool_result(session, ROOT, "a")
    assert_refused(session, event, because="no such call open")


@pytest.mark.req("S0-20")
def test_nobody_stands_below_himself(session: Session) -> None:
    child = create_agent(session, cause="msg_001")
    grandchild = create_agent(session, cause=session.agents[child].birth, relation="hook")
    for agent, parent in ((ROOT, child), (ROOT, grandchild), (child, grandchild), (child, child)):
        moved = ev.AgentMoved(agent_id=agent, place="subagent", parent=parent)
        assert_refused(session, moved, because="below itself")


@pytest.mark.req("S0-20")
def test_a_place_below_needs_somebody_above(session: Session) -> None:
    for place in ("subagent", "hook"):
        assert_refused(session, ev.AgentMoved(agent_id=ROOT, place=place), because="needs a parent")
    nobody = ev.AgentMoved(agent_id=ROOT, place="hook", parent=AgentId("agent_009"))
    assert_refused(session, nobody, because="agent_009 was not born")
    child = create_agent(session, cause="msg_001")
    below = ev.AgentMoved(agent_id=child, place="primary", parent=ROOT)
    assert_refused(session, below, because="below nobody")


def test_an_interlocutor_was_born(session: Session) -> None:
    nobody = [AgentId("agent_009")]
    for event in (
        ev.InterlocutorsSet(agent_id=ROOT, speakers=nobody),
        ev.InterlocutorsSet(agent_id=ROOT, listeners=nobody),
    ):
        assert_refused(session, event, because="interlocutor agent_009")


@pytest.mark.parametrize(("start", "stop"), [(0, 2), (-1, 1), (1, 0), (2, 2)])
def test_an_edit_keeps_only_what_is_there(session: Session, start: int, stop: int) -> None:
    event = ev.TranscriptEdited(agent_id=ROOT, segments=[range_segment(start, stop)])
    assert_refused(session, event, because=f"keeps {start} to {stop} of 1")


def test_an_edit_names_entries_and_ranges_of_the_context_only(session: Session) -> None:
    request = log_request(session, ROOT)
    for segment, because in (
        (entry_segment(id_of("msg_001")), "no entry msg_001"),
        (entry_segment(id_of("msg_002"), id_of("msg_099")), "no entry msg_099"),
        (ev.Segment(request=request, start=0, stop=1), "ranges of the context"),
        (ev.Segment(loaded=request, start=0, stop=1), "ranges of the context"),
    ):
        event = ev.TranscriptEdited(agent_id=ROOT, segments=[segment])
        assert_refused(session, event, because=because)


def test_two_edits_of_a_batch_are_checked_one_after_the_other(session: Session) -> None:
    one = ev.TranscriptEdited(agent_id=ROOT, segments=[])
    two = ev.TranscriptEdited(agent_id=ROOT, segments=[range_segment(0, 1)])
    with pytest.raises(InvalidEvent, match="0 to 1 of 0"):
        session.append_all([one, two])
    reload_session(session).close()


def test_call_dicts_and_utterances_pass(session: Session) -> None:
    calls = [call_dict("a", arguments="{ not JSON")]
    session.log_transcript_entry(ROOT, {"role": "assistant", "content": "", "tool_calls": calls})
    log_tool_result(session, ROOT, "a", "Error: bad arguments")
    log_answer(session, ROOT)
    log_edit(session, ROOT, range_segment(0, 4))


def test_a_recorded_agent_may_have_read_a_result_of_a_call_that_nobody_saw(tmp_path: Path) -> None:
    with new_session(tmp_path) as session:
        agent = create_agent(session, spec={"recorded": "codex"})
        for _ in range(2):
            result = {"role": "tool", "content": "x", "tool_call_id": "c9", "name": "look"}
            session.log_transcript_entry(agent, result)
            call = {"id": "c1", "function": {"name": "look", "arguments": "{}"}}
            session.log_transcript_entry(agent, {"role": "assistant", "tool_calls": [call]})
        assert len(reload_session(session).context(agent)) == 4
