"""A session in memory has the events that a session with a file would log."""

from __future__ import annotations

from pathlib import Path

import pytest

from harken.core import events as ev
from harken.core.clock import format_rfc3339
from harken.core.event_types.spec import AgentSpec, ForeignAgent
from harken.core.ids import AgentId, MessageId
from harken.core.messages import FunctionCall, Message, ToolCall, text_of
from harken.core.stream import Finish
from harken.errors import NameNotFound
from harken.recording.writer.agent_recorder import AgentRecorder
from harken.recording.writer.item import Item
from harken.recording.writer.memory_session import MemorySession, WritableSession
from harken.recording.writer.request import RequestSettings
from harken.session.invariants import check_event
from harken.session.log.reader import iter_events
from harken.session.session import Session, SessionOptions
from harken.session.state import SessionState

NOW_US = 1_800_000_000_000_000
SETTINGS = RequestSettings(model="m", tools=[{"name": "look", "parameters": {}}])
ROOT, CHILD = AgentId("agent_001"), AgentId("agent_002")


def item(text: str, role: str = "user") -> Item:
    return Item.from_message(Message(role, text))  # type: ignore[arg-type]


def create_agent(session: WritableSession, id_: AgentId, cause: MessageId | None = None) -> None:
    spec = AgentSpec(foreign=ForeignAgent("test"))
    relation: ev.Relation = "primary" if cause is None else "subagent"
    session.append(ev.AgentCreated(agent_id=id_, cause=cause, relation=relation, spec=spec))


def begin(session: WritableSession) -> AgentRecorder:
    create_agent(session, ROOT)
    return AgentRecorder(session, ROOT)


def read_texts(recorder: AgentRecorder) -> list[str]:
    context = recorder.session.context(recorder.agent_id)
    assert len(context) == recorder.count == sum(item.size for item in recorder.items)
    return [text_of(message.content) for message in context]


def record(session: WritableSession) -> list[list[str]]:
    """Record two agents in every way. Return their contexts after each step."""
    recorder, contexts = begin(session), []
    request = recorder.log_request([item("Hi"), item("Go on.")], SETTINGS)
    recorder.log_response(
        request, [item("Hello.", "assistant")], finish=Finish(stop_reason="end_turn")
    )
    contexts.append(read_texts(recorder))
    before = [*recorder.items]
    call = ToolCall("c1", FunctionCall("ask", "{}"))
    asked = recorder.append_item(Item.from_message(Message("assistant", None, [call]))).ids[0]
    create_agent(session, CHILD, asked)
    child = AgentRecorder(session, CHILD)
    child.inherit(recorder, 2)
    utterance = child.append_item(item("Tea.", "assistant")).ids[0]
    recorder.append_item(
        Item.from_message(Message("tool", "Tea.", tool_call_id="c1")), substance=utterance
    )
    recorder.log_request_for_context(SETTINGS)
    contexts += [read_texts(recorder), read_texts(child)]
    recorder.restore(before, "rewound")
    recorder.restore(before, "rewound")
    recorder.set_context([item("Summary."), item("Go on.")], reason="compaction", summary=0)
    contexts.append(read_texts(recorder))
    recorder.log_request_for_context(SETTINGS)
    recorder.log_request_for_context(SETTINGS)
    return contexts


def test_events_are_those_of_a_session_with_a_file(tmp_path: Path) -> None:
    options = SessionOptions(durability="none", clock=lambda: NOW_US)
    with Session(tmp_path / "log.jsonl", options=options) as session:
        expected = record(session)
    memory = MemorySession()
    memory.time = format_rfc3339(NOW_US)
    memory.append(ev.SessionStarted(session_id="log", schema_version=ev.SCHEMA_VERSION))
    assert record(memory) == expected
    assert [*iter_events(session.path)] == memory.events
    assert memory.state.describe() == session.state.describe()


def test_contexts_follow_each_step() -> None:
    assert record(MemorySession()) == [
        ["Hi", "Go on.", "Hello."],
        ["Hi", "Go on.", "Hello.", "", "Tea."],
        ["Hi", "Go on.", "Tea."],
        ["Summary.", "Go on."],
    ]


def test_rewind_is_logged_once_and_inherited_entries_are_those_of_the_other_agent() -> None:
    memory = MemorySession()
    record(memory)
    edits = [event for event in memory.events if isinstance(event, ev.TranscriptEdited)]
    assert [(edit.agent_id, edit.reason) for edit in edits] == [
        (CHILD, "inherited"),
        (ROOT, "rewound"),
        (ROOT, "compaction"),
    ]
    first, second = memory.context(ROOT)[-1], memory.context(CHILD)[1]
    assert first is second
    assert edits[1].segments == [ev.Segment(start=0, stop=3)]


def test_request_for_the_context_interrupts_the_open_one() -> None:
    memory = MemorySession()
    recorder = begin(memory)
    recorder.append_item(item("Hi"))
    recorder.log_request_for_context(SETTINGS)
    last = recorder.log_request_for_context(SETTINGS)
    responses = [event for event in memory.events if isinstance(event, ev.LlmResponse)]
    assert [response.stop_reason for response in responses] == ["interrupted"]
    assert recorder.open_request == last
    assert len([event for event in memory.events if isinstance(event, ev.ToolsDefined)]) == 1


def test_child_names_the_tools_of_inherited_calls() -> None:
    memory = MemorySession()
    recorder = begin(memory)
    call = ToolCall("c1", FunctionCall("ask", "{}"))
    recorder.append_item(Item.from_message(Message("assistant", None, [call])))
    create_agent(memory, CHILD, memory.state.agents[ROOT].birth)
    child = AgentRecorder(memory, CHILD)
    child.inherit(recorder, 1)
    child.append_item(Item.from_message(Message("tool", "Tea.", tool_call_id="c1")))
    assert memory.context(CHILD)[-1].name == "ask"


def test_user_messages_have_the_cause_of_the_recorder_unless_they_have_their_own() -> None:
    memory = MemorySession()
    recorder = begin(memory)
    recorder.user_message_cause = memory.state.agents[ROOT].birth
    recorder.append_item(item("Hi"))
    recorder.append_item(item("Hello.", "assistant"))
    piece = memory.append(ev.PieceOfText(agent_id=ROOT, content="Go on.", cause=MessageId("msg_0")))
    recorder.append_item(item("Go on."), substance=piece)
    entries = [event for event in memory.events if isinstance(event, ev.TranscriptEntry)]
    birth = recorder.user_message_cause
    assert [(entry.cause, entry.substance) for entry in entries] == [
        (birth, None),
        (None, None),
        (None, piece),
    ]


def test_unknown_stop_reason_is_none() -> None:
    memory = MemorySession()
    recorder = begin(memory)
    request = recorder.log_request([item("Hi")], SETTINGS)
    recorder.log_response(request, finish=Finish(stop_reason=""))
    response = memory.events[-1]
    assert isinstance(response, ev.LlmResponse)
    assert response.stop_reason is None


def test_events_satisfy_the_invariants_of_a_log() -> None:
    memory = MemorySession()
    memory.append(ev.SessionStarted(session_id="log", schema_version=ev.SCHEMA_VERSION))
    record(memory)
    checked = MemorySession()
    for event in memory.events:
        check_event(checked.state, event)
        checked.append(event)
    assert isinstance(checked.state, SessionState)


def test_unknown_agent_is_named() -> None:
    memory = MemorySession()
    with pytest.raises(NameNotFound, match="agent_009"):
        memory.agent("agent_009")
