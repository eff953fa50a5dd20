"""Events that the writer refuses. A refusal writes nothing and the session continues."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harken.core import events as ev
from harken.core.event_types.spec import AgentSpec, ForeignAgent
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
    """A session with one agent, `msg_001`, and its input, `msg_002`."""
    with new_session(tmp_path) as session:
        log_user_message(session, create_agent(session))
        yield session


def entry(role: Any = "user", agent: str = ROOT, **members: Any) -> ev.TranscriptEntry:
    return ev.TranscriptEntry(agent_id=AgentId(agent), role=role, **{"content": "x", **members})


def piece(**members: Any) -> ev.PieceOfText:
    return ev.PieceOfText(agent_id=ROOT, content="x", **members)


def birth(id_: str = "agent_002", **members: Any) -> ev.AgentCreated:
    return ev.AgentCreated(agent_id=AgentId(id_), **{"relation": "subagent", **members})


def call(id_: str) -> ToolCall:
    return ToolCall(id_, FunctionCall("look", "{}"))


def id_of(text: str) -> MessageId:
    return MessageId(text)


@pytest.mark.req("S0-11")
def test_substance_with_cause_is_refused(session: Session) -> None:
    both = entry(substance=id_of("msg_002"), cause="msg_001")
    assert_refused(session, both, because="never both")


@pytest.mark.parametrize(
    "nowhere", ["msg_099", "msg_3", "msg_0002", "msg_", "2", "", "agent_001", "msg_-1", "msg_٢"]
)
def test_dangling_references_are_refused(session: Session, nowhere: str) -> None:
    """The id `msg_0002` does not exist: readers look ids up as text."""
    assert_refused(session, entry(substance=id_of(nowhere)), because="substance")
    assert_refused(session, entry(cause=nowhere), because="cause")
    assert_refused(session, entry(cause=["msg_001", nowhere]), because="cause")
    assert_refused(session, piece(cause=nowhere), because="cause")


def test_event_that_references_itself_is_refused(session: Session) -> None:
    next_id = session.next_id()
    assert_refused(session, entry(substance=next_id), because="no such message")
    assert_refused(session, entry(cause=session.next_id()), because="no such message")


def test_empty_cause_list_is_refused(session: Session) -> None:
    assert_refused(session, entry(cause=[]), because="at least one")


@pytest.mark.req("S0-14")
def test_copy_of_a_copy_is_refused_as_original(session: Session) -> None:
    copy = log_user_message(session, ROOT, "[Jack]: hello", substance="msg_002")
    assert_refused(session, entry(substance=copy), because="itself a copy")


@pytest.mark.req("S0-14")
def test_copy_logged_before_the_resume_is_refused_as_original(session: Session) -> None:
    copy = log_user_message(session, ROOT, substance="msg_002")
    resumed = reload_session(session)
    assert_refused(resumed, entry(substance=copy), because="itself a copy")
    resumed.close()


@pytest.mark.req("S0-13")
def test_one_of_several_calls_is_referenced_by_its_id(session: Session) -> None:
    calling = log_tool_calls(session, ROOT, "a", "b.c")
    session.append(piece(cause=f"{calling}.a"))
    session.append(piece(cause=f"{calling}.b.c"))
    assert_refused(session, piece(cause=f"{calling}.b"), because="no call in progress")
    assert_refused(session, piece(cause="msg_002.a"), because="no call in progress")


@pytest.mark.req("S0-13")
def test_single_call_is_referenced_by_its_message(session: Session) -> None:
    calling = log_tool_calls(session, ROOT, "a")
    assert find_line(session, session.append(piece(cause=calling)))["cause"] == calling
    assert_refused(session, piece(cause=f"{calling}.a"), because="no call in progress")


def test_call_with_a_result_is_no_call_in_progress(session: Session) -> None:
    calling = log_tool_calls(session, ROOT, "a", "b")
    log_tool_result(session, ROOT, "a")
    assert_refused(session, piece(cause=f"{calling}.a"), because="no call in progress")
    session.append(piece(cause=f"{calling}.b"))


@pytest.mark.req("S0-15")
def test_piece_needs_a_cause_and_an_author(session: Session) -> None:
    assert_refused(session, piece(), because="has a cause")
    author = ev.PieceOfText(agent_id=AgentId("agent_009"), content="x", cause="msg_001")
    assert_refused(session, author, because="not born")


@pytest.mark.req("S0-18")
def test_second_root_is_refused(session: Session) -> None:
    assert_refused(session, birth(relation="primary"), because="has a root")


@pytest.mark.parametrize("id_", ["agent_001", "user", ""])
def test_agent_is_created_once_and_with_an_id(session: Session, id_: str) -> None:
    assert_refused(session, birth(id_, cause="msg_001"), because="born before|new agent's id")


def test_agent_is_caused_by_an_open_call_or_an_agent_event(session: Session) -> None:
    assert_refused(
        session, birth(cause="msg_002"), because="neither a call in progress nor a birth"
    )
    calling = log_tool_calls(session, ROOT, "a")
    log_tool_result(session, ROOT, "a")
    assert_refused(session, birth(cause=calling), because="neither a call in progress nor a birth")
    session.append(birth(cause="msg_001"))


@pytest.mark.req("S0-20")
def test_agent_created_names_its_relation(session: Session) -> None:
    assert_refused(session, birth(cause="msg_001", relation=None), because="has a relation")
    assert_refused(session, birth(cause="msg_001", relation="primary"), because="has a relation")


@pytest.mark.parametrize("relation", ["subagent", "hook", None])
def test_root_is_primary(tmp_path: Path, relation: Any) -> None:
    with new_session(tmp_path) as empty, pytest.raises(InvalidEvent, match="relation"):
        empty.append(birth("agent_001", relation=relation))


@pytest.mark.req("S0-19")
def test_entry_of_an_unknown_agent_is_refused(session: Session) -> None:
    assert_refused(session, entry(agent="agent_009"), because="not born")
    assert_refused(session, entry(agent=""), because="not born")


def of_an_agent(agent: AgentId | None) -> list[ev.Event]:
    """Return one event of each type that belongs to an agent."""
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
@pytest.mark.parametrize("index", range(13))
def test_event_about_an_unknown_agent_is_refused(
    session: Session, index: int, nobody: AgentId | None
) -> None:
    assert_refused(session, of_an_agent(nobody)[index], because="not born")


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
def test_session_event_with_an_agent_is_refused(session: Session, event: ev.Event) -> None:
    assert_refused(session, event, because="about no agent")


def test_session_starts_once(session: Session) -> None:
    assert_refused(session, ev.SessionStarted(session_id="other"), because="starts once")


@pytest.mark.req("S0-06")
@pytest.mark.parametrize("role", ["developer", "", "User", None, 1])
def test_unknown_roles_are_refused(session: Session, role: Any) -> None:
    assert_refused(session, entry(role), because="role")
    with pytest.raises(InvalidEvent):
        session.log_transcript_entry(ROOT, {"role": role, "content": "x"})


def tool(**members: Any) -> ev.TranscriptEntry:
    return entry("tool", **{"tool_call_id": "a", "name": "look", **members})


@pytest.mark.req("S0-09")
def test_second_result_is_refused(session: Session) -> None:
    log_tool_calls(session, ROOT, "a")
    session.append(tool())
    assert_refused(session, tool(content="more"), because="exactly one result")


@pytest.mark.req("S0-09")
def test_second_result_in_the_same_batch_is_refused(session: Session) -> None:
    log_tool_calls(session, ROOT, "a")
    with pytest.raises(InvalidEvent, match="exactly one result"):
        session.append_all([tool(), tool()])
    assert [e.role for e in session.agent(ROOT).transcript or ()].count("tool") == 0


@pytest.mark.req("S0-09")
def test_second_result_after_a_resume_is_refused(session: Session) -> None:
    log_tool_calls(session, ROOT, "a")
    session.append(tool())
    resumed = reload_session(session)
    assert_refused(resumed, tool(), because="exactly one result")
    resumed.close()


@pytest.mark.req("S0-08")
def test_result_names_a_call_of_its_own_agent_and_its_tool(session: Session) -> None:
    other_agent = create_agent(session, cause="msg_001")
    log_tool_calls(session, other_agent, "a")
    assert_refused(session, tool(), because="no such call open")
    assert_refused(session, tool(agent=USER), because="no such call open")
    assert_refused(session, tool(agent=other_agent, name=None), because="names its call")
    assert_refused(session, tool(agent=other_agent, tool_call_id=None), because="names its call")
    assert_refused(session, tool(agent=other_agent, tool_call_id="b"), because="no such call open")
    session.append(tool(agent=other_agent))


@pytest.mark.parametrize("role", ["user", "assistant", "system"])
def test_only_a_result_has_a_tool_call_id(session: Session, role: str) -> None:
    log_tool_calls(session, ROOT, "a")
    assert_refused(session, entry(role, tool_call_id="a"), because="only a result")


@pytest.mark.req("S0-07")
@pytest.mark.parametrize("role", ["user", "system"])
def test_only_an_assistant_calls_tools(session: Session, role: str) -> None:
    assert_refused(session, entry(role, tool_calls=[call("a")]), because="assistant")


@pytest.mark.req("S0-07")
def test_open_calls_have_distinct_ids(session: Session) -> None:
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
def test_call_of_another_shape_is_refused(session: Session, broken: Any) -> None:
    with pytest.raises(InvalidEvent, match="not a message"):
        session.log_transcript_entry(ROOT, {"role": "assistant", "tool_calls": [broken]})


def test_content_references_each_call_once(session: Session) -> None:
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
    in_another_order = [ToolCallSlot("c"), TextPart("x"), ToolCallSlot("b")]
    session.append(entry("assistant", content=in_another_order, tool_calls=[call("b"), call("c")]))


@pytest.mark.req("S0-22")
def test_request_hash_matches_its_context(session: Session) -> None:
    log_user_message(session, ROOT, "more")
    segments = session.agent(ROOT).segments()
    for context, count in (([], 0), (segments, 1), (segments, 3), ([range_segment(0, 2)], 2)):
        request = ev.LlmRequest(
            agent_id=ROOT, context=context, count=count, context_hash="", model="x"
        )
        assert_refused(session, request, because="those of agent_001's context")


@pytest.mark.req("S0-22")
def test_request_and_preceding_entry_in_one_batch_are_ordered(
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
def test_request_names_defined_tools_and_tools_are_defined_once(
    session: Session,
) -> None:
    with pytest.raises(InvalidEvent, match="no such tools_defined"):
        log_request(session, ROOT, tools=id_of("msg_002"))
    tools = ev.ToolsDefined(tools=[{"name": "look"}], tools_hash="h")
    defined = session.append(tools)
    log_request(session, ROOT, tools=defined)
    assert_refused(session, tools, because="defined before")


@pytest.mark.req("S0-22")
def test_response_answers_the_open_request_of_its_agent(session: Session) -> None:
    other_agent = create_agent(session, cause="msg_001")
    request = log_request(session, ROOT)
    for agent, message_id in ((ROOT, "msg_002"), (ROOT, "msg_099"), (other_agent, request)):
        response = ev.LlmResponse(agent_id=agent, request=id_of(message_id))
        assert_refused(session, response, because="waits for no answer")
    log_response(session, ROOT, request)
    assert_refused(
        session, ev.LlmResponse(agent_id=ROOT, request=request), because="waits for no answer"
    )


def test_other_dangling_members_are_refused(session: Session) -> None:
    request, nowhere = log_request(session, ROOT), id_of("msg_099")
    for event in (
        ev.LlmResponse(agent_id=ROOT, request=request, entry=nowhere),
        ev.TranscriptEdited(agent_id=ROOT, segments=[], summary=nowhere),
        ev.ContextCommitted(agent_id=ROOT, ctx="ctx-1", upto=nowhere),
    ):
        assert_refused(session, event, because="no such message")


def test_only_an_open_call_of_the_agent_is_rewritten(session: Session) -> None:
    calling = log_tool_calls(session, ROOT, "a")
    other_agent = create_agent(session, cause="msg_001")
    for agent, message_id in ((ROOT, "msg_002"), (other_agent, calling), (ROOT, f"{calling}.a")):
        event = ev.ActionRewritten(agent_id=agent, call=message_id, tool="look", arguments="{}")
        assert_refused(session, event, because="no such call open")
    event = ev.ActionRewritten(agent_id=ROOT, call=calling, tool="look", arguments="{}")
    session.append(event)
    log_tool_result(session, ROOT, "a")
    assert_refused(session, event, because="no such call open")


@pytest.mark.req("S0-20")
def test_agent_below_itself_is_refused(session: Session) -> None:
    child = create_agent(session, cause="msg_001")
    grandchild = create_agent(session, cause=session.agents[child].birth, relation="hook")
    for agent, parent in ((ROOT, child), (ROOT, grandchild), (child, grandchild), (child, child)):
        moved = ev.AgentMoved(agent_id=agent, place="subagent", parent=parent)
        assert_refused(session, moved, because="below itself")


@pytest.mark.req("S0-20")
def test_nested_place_needs_a_parent(session: Session) -> None:
    for place in ("subagent", "hook"):
        assert_refused(session, ev.AgentMoved(agent_id=ROOT, place=place), because="needs a parent")
    nobody = ev.AgentMoved(agent_id=ROOT, place="hook", parent=AgentId("agent_009"))
    assert_refused(session, nobody, because="agent_009 was not born")
    child = create_agent(session, cause="msg_001")
    below = ev.AgentMoved(agent_id=child, place="primary", parent=ROOT)
    assert_refused(session, below, because="has no parent")


def test_interlocutor_must_be_an_agent(session: Session) -> None:
    nobody = [AgentId("agent_009")]
    for event in (
        ev.InterlocutorsSet(agent_id=ROOT, speakers=nobody),
        ev.InterlocutorsSet(agent_id=ROOT, listeners=nobody),
    ):
        assert_refused(session, event, because="interlocutor agent_009")


@pytest.mark.parametrize(("start", "stop"), [(0, 2), (-1, 1), (1, 0), (2, 2)])
def test_edit_keeps_only_existing_entries(session: Session, start: int, stop: int) -> None:
    event = ev.TranscriptEdited(agent_id=ROOT, segments=[range_segment(start, stop)])
    assert_refused(session, event, because=f"keeps {start} to {stop} of 1")


def test_edit_names_entries_and_ranges_of_the_context_only(session: Session) -> None:
    request = log_request(session, ROOT)
    for segment, because in (
        (entry_segment(id_of("msg_001")), "no entry msg_001"),
        (entry_segment(id_of("msg_002"), id_of("msg_099")), "no entry msg_099"),
        (ev.Segment(request=request, start=0, stop=1), "ranges of the context"),
        (ev.Segment(loaded=request, start=0, stop=1), "ranges of the context"),
    ):
        event = ev.TranscriptEdited(agent_id=ROOT, segments=[segment])
        assert_refused(session, event, because=because)


def test_two_edits_of_a_batch_are_checked_in_order(session: Session) -> None:
    empty_edit = ev.TranscriptEdited(agent_id=ROOT, segments=[])
    two = ev.TranscriptEdited(agent_id=ROOT, segments=[range_segment(0, 1)])
    with pytest.raises(InvalidEvent, match="0 to 1 of 0"):
        session.append_all([empty_edit, two])
    reload_session(session).close()


def test_call_dicts_and_utterances_are_accepted(session: Session) -> None:
    calls = [call_dict("a", arguments="{ not JSON")]
    session.log_transcript_entry(ROOT, {"role": "assistant", "content": "", "tool_calls": calls})
    log_tool_result(session, ROOT, "a", "Error: bad arguments")
    log_answer(session, ROOT)
    log_edit(session, ROOT, range_segment(0, 4))


def test_recorded_agent_may_have_a_result_of_an_unrecorded_call(tmp_path: Path) -> None:
    with new_session(tmp_path) as session:
        agent = create_agent(session, spec=AgentSpec(foreign=ForeignAgent("codex")))
        for _ in range(2):
            result = {"role": "tool", "content": "x", "tool_call_id": "c9", "name": "look"}
            session.log_transcript_entry(agent, result)
            call = {"id": "c1", "function": {"name": "look", "arguments": "{}"}}
            session.log_transcript_entry(agent, {"role": "assistant", "tool_calls": [call]})
        assert len(reload_session(session).context(agent)) == 4
