"""Messages that an agent of another program reads and writes are logged once."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from harken.core import events as ev
from harken.core.event_types.spec import AgentSpec, ForeignAgent
from harken.core.events import Segment
from harken.core.ids import AgentId
from harken.core.messages import (
    FunctionCall,
    Message,
    TextPart,
    ToolCall,
    ToolCallSlot,
    extend_context_hash,
    text_of,
)
from harken.core.stream import Finish
from harken.recording.writer.agent_recorder import AgentRecorder
from harken.recording.writer.item import Item, message_key
from harken.recording.writer.request import RequestSettings
from harken.session.log.reader import iter_events
from harken.session.segments import resolve_context
from harken.session.session import Session
from tests.session_kit import new_session, reload_session

SYSTEM, HI, HELLO, MORE = (
    Message("system", "You are Jack."),
    Message("user", "Hi"),
    Message("assistant", "Hello."),
    Message("user", "How are you?"),
)


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return new_session(tmp_path)


@pytest.fixture
def voice(session: Session) -> AgentRecorder:
    return AgentRecorder(session, recorded(session))


def session_of(voice: AgentRecorder) -> Session:
    assert isinstance(voice.session, Session)
    return voice.session


def recorded(session: Session, **members: Any) -> AgentId:
    agent = session.allocate_agent_id()
    session.log_agent_created(agent, spec=AgentSpec(foreign=ForeignAgent("test")), **members)
    return agent


def record_request(voice: AgentRecorder, *messages: Message, **members: Any) -> ev.LlmRequest:
    """Record a request with these messages and check its context in the log."""
    items = [Item.from_message(message) for message in messages]
    placed = ("reason", "summary")
    settings = {name: members.pop(name) for name in [*members] if name not in placed}
    id_ = voice.log_request(items, RequestSettings(model="m", **settings), **members)
    request = requests(session_of(voice))[id_]
    assert saw(session_of(voice), request) == [text_of(message.content) for message in messages]
    hash_ = ""
    for message in messages:
        hash_ = extend_context_hash(hash_, message)
    assert (request.count, request.context_hash) == (len(messages), hash_)
    return request


def record_answer(voice: AgentRecorder, message: Message) -> None:
    assert voice.open_request is not None
    voice.log_response(
        voice.open_request, [Item.from_message(message)], finish=Finish(stop_reason="end_turn")
    )


def logged(session: Session, kind: type[ev.EventBase]) -> list[Any]:
    return [event for event in iter_events(session.path) if isinstance(event, kind)]


def requests(session: Session) -> dict[Any, ev.LlmRequest]:
    return {event.message_id: event for event in logged(session, ev.LlmRequest)}


def saw(session: Session, request: ev.LlmRequest) -> list[str]:
    entries = {event.message_id: event for event in logged(session, ev.TranscriptEntry)}
    messages = resolve_context(request, requests(session), entries)
    return [text_of(message.content) for message in messages]


def log_texts(session: Session) -> list[str]:
    return [text_of(entry.content) for entry in logged(session, ev.TranscriptEntry)]


def test_request_logs_only_its_new_messages(voice: AgentRecorder) -> None:
    record_request(voice, SYSTEM, HI)
    record_answer(voice, HELLO)
    request = record_request(voice, SYSTEM, HI, HELLO, MORE)
    assert log_texts(session_of(voice)) == ["You are Jack.", "Hi", "Hello.", "How are you?"]
    assert request.context[0] == Segment(request=request.context[0].request, start=0, stop=2)
    assert not logged(session_of(voice), ev.TranscriptEdited)


def test_context_hash_is_that_of_the_characters_in_the_log(voice: AgentRecorder) -> None:
    """JSON joins two surrogates into one character."""
    pair = Message("user", "\ud83d\ude00")
    call = ToolCall("c1", FunctionCall("look", '"\ud83d\ude00"'))
    items = [Item.from_message(pair), Item.from_message(Message("assistant", None, [call]))]
    request_id = voice.log_request(items, RequestSettings(model="m"))
    context = session_of(voice).context(voice.agent_id)
    assert context[0].content == "\N{GRINNING FACE}"
    hash_ = ""
    for message in context:
        hash_ = extend_context_hash(hash_, message)
    assert requests(session_of(voice))[request_id].context_hash == hash_


def test_known_messages_are_not_decoded(voice: AgentRecorder) -> None:
    record_request(voice, SYSTEM, HI)

    def never() -> Sequence[Message]:
        raise AssertionError("it was read again")

    known_items = [Item(message_key(message), never) for message in (SYSTEM, HI)]
    voice.log_request([*known_items, Item.from_message(MORE)], RequestSettings(model="m"))
    assert log_texts(session_of(voice)) == ["You are Jack.", "Hi", "How are you?"]


def test_repeated_request_costs_one_line(voice: AgentRecorder) -> None:
    record_request(voice, SYSTEM, HI)
    voice.log_response(voice.open_request or "", error="overloaded")  # type: ignore[arg-type]
    before = len(list(iter_events(session_of(voice).path)))
    record_request(voice, SYSTEM, HI)
    assert len(list(iter_events(session_of(voice).path))) == before + 1


def test_removed_messages_are_an_edit_of_ranges(voice: AgentRecorder) -> None:
    note = Message("user", "a reminder")
    record_request(voice, SYSTEM, HI, note)
    record_answer(voice, HELLO)
    record_request(voice, SYSTEM, HI, HELLO, MORE, reason="rewritten")
    (edit,) = logged(session_of(voice), ev.TranscriptEdited)
    assert edit.segments == [Segment(start=0, stop=2), Segment(start=3, stop=5)]
    assert edit.reason == "rewritten"
    assert len(log_texts(session_of(voice))) == 5


def test_returning_messages_are_referenced_and_not_repeated(voice: AgentRecorder) -> None:
    long = Message("assistant", "A long answer.")
    record_request(voice, SYSTEM, HI)
    record_answer(voice, long)
    record_request(voice, SYSTEM, MORE)
    record_request(voice, SYSTEM, HI, long, MORE)
    assert len(log_texts(session_of(voice))) == 4
    edit = logged(session_of(voice), ev.TranscriptEdited)[-1]
    assert [segment.entries is None for segment in edit.segments] == [True, False, True]


def test_repeated_user_text_is_a_new_entry(voice: AgentRecorder) -> None:
    go = Message("user", "Go on.")
    record_request(voice, SYSTEM, HI, go)
    record_request(voice, SYSTEM, HI)
    record_request(voice, SYSTEM, HI, HELLO, go)
    assert log_texts(session_of(voice)).count("Go on.") == 2


def test_repeated_text_in_one_request_is_two_entries(voice: AgentRecorder) -> None:
    record_request(voice, SYSTEM, HI, HI)
    record_request(voice, SYSTEM, HI, HI, HI)
    assert log_texts(session_of(voice)) == ["You are Jack.", "Hi", "Hi", "Hi"]


def test_compaction_references_its_summary(voice: AgentRecorder) -> None:
    summary = Message("user", "So far: a greeting.")
    record_request(voice, SYSTEM, HI, HELLO, MORE)
    record_request(voice, SYSTEM, summary, MORE, reason="compaction", summary=1)
    (edit,) = logged(session_of(voice), ev.TranscriptEdited)
    (entry,) = [
        e for e in logged(session_of(voice), ev.TranscriptEntry) if e.content == summary.content
    ]
    assert (edit.reason, edit.summary) == ("compaction", entry.message_id)


def test_tools_are_defined_once(voice: AgentRecorder) -> None:
    tools = [{"name": "look", "description": "", "parameters": {"minimum": 0}}]
    first = record_request(voice, HI, tools=tools)
    second = record_request(voice, HI, MORE, tools=[dict(tools[0])])
    (defined,) = logged(session_of(voice), ev.ToolsDefined)
    assert first.tools == second.tools == defined.message_id
    assert (
        record_request(voice, HI, tools=[{**tools[0], "parameters": {"minimum": 0.0}}]).tools
        != first.tools
    )


def test_unanswered_request_is_interrupted_by_the_next(voice: AgentRecorder) -> None:
    request = record_request(voice, HI)
    record_request(voice, HI, MORE)
    (response,) = logged(session_of(voice), ev.LlmResponse)
    assert (response.request, response.stop_reason) == (request.message_id, "interrupted")


def test_malformed_results_are_logged(voice: AgentRecorder) -> None:
    call = ToolCall("c1", FunctionCall("look", "{}"))
    for message in (
        Message("assistant", None, [call, call]),
        Message("tool", "a door", tool_call_id="c1"),
        Message("tool", "a door", tool_call_id="c1"),
        Message("tool", "of nothing"),
        Message("assistant", [TextPart("?"), ToolCallSlot("c9")], [call]),
    ):
        voice.log_request([Item(str(id(message)), [message])], RequestSettings(model="m"))
    entries = logged(session_of(voice), ev.TranscriptEntry)
    assert [entry.name for entry in entries] == [None, "look", "look", "unnamed", None]
    assert entries[3].tool_call_id == "unnamed"


class FormattedItem(Item):
    """An item with a configurable wire format."""

    def __init__(self, message: Message, form: Any, *, alike: str = "", key: str = "") -> None:
        dress = hash(repr(form) + key)
        super().__init__(key or message_key(message), [message], form, dress)
        self.alike = alike

    @property
    def likeness(self) -> str:
        return self.alike


def forms(voice: AgentRecorder, *items: Item) -> Any:
    id_ = voice.log_request(list(items), RequestSettings(model="m", wire={"protocol": "test"}))
    return (requests(session_of(voice))[id_].wire or {}).get("forms")


def test_wire_format_is_logged_when_it_changes(voice: AgentRecorder) -> None:
    assert forms(voice, FormattedItem(HI, None)) is None
    dressed_item = FormattedItem(MORE, 1)
    changed_forms = forms(voice, FormattedItem(HI, {"list": 1}), dressed_item)
    assert changed_forms == {"msg_002": {"list": 1}, "msg_005": 1}
    assert forms(voice, FormattedItem(HI, {"list": 1}), dressed_item) is None
    assert forms(voice, FormattedItem(HI, {"list": 1.0}), dressed_item) == {
        "msg_002": {"list": 1.0}
    }
    assert forms(voice, FormattedItem(HI, None), dressed_item) == {"msg_002": None}


def test_entries_of_one_item_are_joined(voice: AgentRecorder) -> None:
    both = Item("both", [HI, MORE], None, 1)
    assert forms(voice, both) == {"msg_003": {"joined": True}}
    assert forms(voice, both, FormattedItem(HELLO, None)) is None


def test_answer_is_recognized_by_similarity(voice: AgentRecorder) -> None:
    request = voice.log_request(
        [Item.from_message(HI)], RequestSettings(model="m", wire={"protocol": "test"})
    )
    voice.log_response(
        request, [FormattedItem(HELLO, None, alike="hello")], finish=Finish(stop_reason="stop")
    )
    back = FormattedItem(
        Message("assistant", "Hello. "), {"text": "Hello. "}, alike="hello", key="k"
    )
    assert forms(voice, Item.from_message(HI), back, Item.from_message(MORE)) == {
        "msg_004": {"text": "Hello. "}
    }
    assert forms(voice, Item.from_message(HI), back, Item.from_message(MORE)) is None
    assert log_texts(session_of(voice)) == ["Hi", "Hello.", "How are you?"]


def test_subagent_references_shared_messages(voice: AgentRecorder) -> None:
    record_request(voice, SYSTEM, HI)
    record_answer(voice, HELLO)
    birth = session_of(voice).agents[voice.agent_id].birth
    fork = AgentRecorder.forked_from(voice, recorded(session_of(voice), cause=birth))
    record_request(fork, SYSTEM, HI, HELLO, MORE, reason="rewound")
    assert len(log_texts(session_of(voice))) == 4
    record_request(fork, SYSTEM, HI, HELLO, MORE, HELLO)
    record_request(voice, SYSTEM, HI, HELLO)


@pytest.mark.parametrize("compacted", [False, True])
def test_recorder_resumes_from_its_log(voice: AgentRecorder, *, compacted: bool) -> None:
    both = Item("both", [HI, MORE], {"a": 1}, 1)
    forms(voice, Item.from_message(SYSTEM), both)
    record_answer(voice, HELLO)
    if compacted:
        voice.log_request(
            [Item.from_message(SYSTEM), Item.from_message(HELLO)], RequestSettings(model="m")
        )
    loaded = reload_session(session_of(voice))
    known_forms = {id_: form for r in requests(loaded).values() for id_, form in forms_of(r)}
    key = lambda messages, _: ("both" if len(messages) > 1 else message_key(messages[0]), "")  # noqa: E731
    resumed = AgentRecorder.from_log(loaded, voice.agent_id, forms=known_forms, known=key)
    assert [item.key for item in resumed.items] == [item.key for item in voice.items]
    assert (resumed.count, resumed.context_hash) == (voice.count, voice.context_hash)
    assert (resumed.requested_count, resumed.open_request) == (
        voice.requested_count,
        voice.open_request,
    )
    assert forms(resumed, Item.from_message(SYSTEM), both, Item.from_message(HELLO)) is None
    assert len(log_texts(loaded)) == 4


def forms_of(request: ev.LlmRequest) -> Any:
    return ((request.wire or {}).get("forms") or {}).items()


def test_thousand_equal_texts_cost_no_more_than_others(voice: AgentRecorder) -> None:
    birth = session_of(voice).agents[voice.agent_id].birth

    def took_s(*, is_same: bool) -> float:
        agent = AgentRecorder(session_of(voice), recorded(session_of(voice), cause=birth))
        messages = [Message("user", "ok" if is_same else f"ok {n}") for n in range(3000)]
        items = [Item.from_message(message) for message in messages]
        begun_s = time.process_time()
        agent.log_request(items, RequestSettings(model="m"))
        return time.process_time() - begun_s

    others_s = took_s(is_same=False)
    assert took_s(is_same=True) < 3 * others_s


def test_copied_answer_is_recognized_when_it_returns(voice: AgentRecorder) -> None:
    request = voice.log_request([Item.from_message(HI)], RequestSettings(model="m"))
    voice.log_response(request, [FormattedItem(HELLO, None, alike="hello")])
    back = FormattedItem(Message("assistant", "Hello. "), None, alike="hello", key="k")
    voice.log_request(
        [Item.from_message(HI), back, Item.from_message(MORE)], RequestSettings(model="m")
    )
    voice.log_request([Item.from_message(HI), Item.from_message(MORE)], RequestSettings(model="m"))
    voice.log_request(
        [Item.from_message(HI), back, Item.from_message(MORE)], RequestSettings(model="m")
    )
    assert log_texts(session_of(voice)) == ["Hi", "Hello.", "How are you?"]
