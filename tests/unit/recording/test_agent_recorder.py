"""What an agent of another program reads and says is in the log, once."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from harken.core import events as ev
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
from harken.recording.agent_recorder import AgentRecorder
from harken.recording.item import Item, message_key
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


def recorded(session: Session, **more: Any) -> AgentId:
    agent = session.allocate_agent_id()
    session.log_agent_created(agent, spec={"recorded": "test"}, **more)
    return agent


def asked(voice: AgentRecorder, *messages: Message, **more: Any) -> ev.LlmRequest:
    """Ask with these messages; the log then says that the request saw exactly them."""
    items = [Item.from_message(message) for message in messages]
    id_ = voice.log_request(items, model="m", **more)
    request = requests(voice.session)[id_]
    assert saw(voice.session, request) == [text_of(message.content) for message in messages]
    hash_ = ""
    for message in messages:
        hash_ = extend_context_hash(hash_, message)
    assert (request.count, request.context_hash) == (len(messages), hash_)
    return request


def answered(voice: AgentRecorder, message: Message) -> None:
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


def said(session: Session) -> list[str]:
    return [text_of(entry.content) for entry in logged(session, ev.TranscriptEntry)]


def test_a_request_logs_only_what_is_new_of_it(voice: AgentRecorder) -> None:
    asked(voice, SYSTEM, HI)
    answered(voice, HELLO)
    request = asked(voice, SYSTEM, HI, HELLO, MORE)
    assert said(voice.session) == ["You are Jack.", "Hi", "Hello.", "How are you?"]
    assert request.context[0] == Segment(request=request.context[0].request, start=0, stop=2)
    assert not logged(voice.session, ev.TranscriptEdited)


def test_messages_of_what_is_known_are_never_made(voice: AgentRecorder) -> None:
    asked(voice, SYSTEM, HI)

    def never() -> Sequence[Message]:
        raise AssertionError("it was read again")

    known = [Item(message_key(message), never) for message in (SYSTEM, HI)]
    voice.log_request([*known, Item.from_message(MORE)], model="m")
    assert said(voice.session) == ["You are Jack.", "Hi", "How are you?"]


def test_the_same_request_again_costs_one_line(voice: AgentRecorder) -> None:
    asked(voice, SYSTEM, HI)
    voice.log_response(voice.open_request or "", error="overloaded")  # type: ignore[arg-type]
    before = len(list(iter_events(voice.session.path)))
    asked(voice, SYSTEM, HI)
    assert len(list(iter_events(voice.session.path))) == before + 1


def test_what_left_the_context_is_an_edit_of_ranges(voice: AgentRecorder) -> None:
    note = Message("user", "a reminder")
    asked(voice, SYSTEM, HI, note)
    answered(voice, HELLO)
    asked(voice, SYSTEM, HI, HELLO, MORE, reason="rewritten")
    (edit,) = logged(voice.session, ev.TranscriptEdited)
    assert edit.segments == [Segment(start=0, stop=2), Segment(start=3, stop=5)]
    assert edit.reason == "rewritten"
    assert len(said(voice.session)) == 5


def test_what_returns_is_named_and_not_said_again(voice: AgentRecorder) -> None:
    long = Message("assistant", "A long answer.")
    asked(voice, SYSTEM, HI)
    answered(voice, long)
    asked(voice, SYSTEM, MORE)
    asked(voice, SYSTEM, HI, long, MORE)
    assert len(said(voice.session)) == 4
    edit = logged(voice.session, ev.TranscriptEdited)[-1]
    assert [segment.entries is None for segment in edit.segments] == [True, False, True]


def test_a_person_who_says_the_same_again_says_something_new(voice: AgentRecorder) -> None:
    go = Message("user", "Go on.")
    asked(voice, SYSTEM, HI, go)
    asked(voice, SYSTEM, HI)
    asked(voice, SYSTEM, HI, HELLO, go)
    assert said(voice.session).count("Go on.") == 2


def test_the_same_words_twice_in_one_request_are_two_entries(voice: AgentRecorder) -> None:
    asked(voice, SYSTEM, HI, HI)
    asked(voice, SYSTEM, HI, HI, HI)
    assert said(voice.session) == ["You are Jack.", "Hi", "Hi", "Hi"]


def test_a_compaction_names_its_summary(voice: AgentRecorder) -> None:
    summary = Message("user", "So far: a greeting.")
    asked(voice, SYSTEM, HI, HELLO, MORE)
    asked(voice, SYSTEM, summary, MORE, reason="compaction", summary=1)
    (edit,) = logged(voice.session, ev.TranscriptEdited)
    (entry,) = [
        e for e in logged(voice.session, ev.TranscriptEntry) if e.content == summary.content
    ]
    assert (edit.reason, edit.summary) == ("compaction", entry.message_id)


def test_tools_are_defined_once(voice: AgentRecorder) -> None:
    tools = [{"name": "look", "description": "", "parameters": {"minimum": 0}}]
    first = asked(voice, HI, tools=tools)
    second = asked(voice, HI, MORE, tools=[dict(tools[0])])
    (defined,) = logged(voice.session, ev.ToolsDefined)
    assert first.tools == second.tools == defined.message_id
    assert (
        asked(voice, HI, tools=[{**tools[0], "parameters": {"minimum": 0.0}}]).tools != first.tools
    )


def test_a_request_without_an_answer_was_interrupted_by_the_next(voice: AgentRecorder) -> None:
    request = asked(voice, HI)
    asked(voice, HI, MORE)
    (response,) = logged(voice.session, ev.LlmResponse)
    assert (response.request, response.stop_reason) == (request.message_id, "interrupted")


def test_odd_results_are_logged_all_the_same(voice: AgentRecorder) -> None:
    call = ToolCall("c1", FunctionCall("look", "{}"))
    for message in (
        Message("assistant", None, [call, call]),
        Message("tool", "a door", tool_call_id="c1"),
        Message("tool", "a door", tool_call_id="c1"),
        Message("tool", "of nothing"),
        Message("assistant", [TextPart("?"), ToolCallSlot("c9")], [call]),
    ):
        voice.log_request([Item(str(id(message)), [message])], model="m")
    entries = logged(voice.session, ev.TranscriptEntry)
    assert [entry.name for entry in entries] == [None, "look", "look", "unnamed", None]
    assert entries[3].tool_call_id == "unnamed"


class Dressed(Item):
    """An item whose form is told."""

    def __init__(self, message: Message, form: Any, *, alike: str = "", key: str = "") -> None:
        dress = hash(repr(form) + key)
        super().__init__(key or message_key(message), [message], form, dress)
        self.alike = alike

    @property
    def likeness(self) -> str:
        return self.alike


def forms(voice: AgentRecorder, *items: Item) -> Any:
    id_ = voice.log_request(list(items), model="m", wire={"protocol": "test"})
    return (requests(voice.session)[id_].wire or {}).get("forms")


def test_a_form_is_logged_where_it_changes(voice: AgentRecorder) -> None:
    assert forms(voice, Dressed(HI, None)) is None
    more = Dressed(MORE, 1)
    changed = forms(voice, Dressed(HI, {"list": 1}), more)
    assert changed == {"msg_002": {"list": 1}, "msg_005": 1}
    assert forms(voice, Dressed(HI, {"list": 1}), more) is None
    assert forms(voice, Dressed(HI, {"list": 1.0}), more) == {"msg_002": {"list": 1.0}}
    assert forms(voice, Dressed(HI, None), more) == {"msg_002": None}


def test_entries_of_one_item_are_joined(voice: AgentRecorder) -> None:
    both = Item("both", [HI, MORE], None, 1)
    assert forms(voice, both) == {"msg_003": {"joined": True}}
    assert forms(voice, both, Dressed(HELLO, None)) is None


def test_an_answer_is_known_again_by_its_likeness(voice: AgentRecorder) -> None:
    request = voice.log_request([Item.from_message(HI)], model="m", wire={"protocol": "test"})
    voice.log_response(
        request, [Dressed(HELLO, None, alike="hello")], finish=Finish(stop_reason="stop")
    )
    back = Dressed(Message("assistant", "Hello. "), {"text": "Hello. "}, alike="hello", key="k")
    assert forms(voice, Item.from_message(HI), back, Item.from_message(MORE)) == {
        "msg_004": {"text": "Hello. "}
    }
    assert forms(voice, Item.from_message(HI), back, Item.from_message(MORE)) is None
    assert said(voice.session) == ["Hi", "Hello.", "How are you?"]


def test_an_agent_beside_another_names_what_they_share(voice: AgentRecorder) -> None:
    asked(voice, SYSTEM, HI)
    answered(voice, HELLO)
    birth = voice.session.agents[voice.agent_id].birth
    fork = AgentRecorder.forked_from(voice, recorded(voice.session, cause=birth))
    asked(fork, SYSTEM, HI, HELLO, MORE, reason="rewound")
    assert len(said(voice.session)) == 4
    asked(fork, SYSTEM, HI, HELLO, MORE, HELLO)
    asked(voice, SYSTEM, HI, HELLO)


@pytest.mark.parametrize("compacted", [False, True])
def test_a_voice_goes_on_from_its_log(voice: AgentRecorder, *, compacted: bool) -> None:
    both = Item("both", [HI, MORE], {"a": 1}, 1)
    forms(voice, Item.from_message(SYSTEM), both)
    answered(voice, HELLO)
    if compacted:
        voice.log_request([Item.from_message(SYSTEM), Item.from_message(HELLO)], model="m")
    loaded = reload_session(voice.session)
    known = {id_: form for r in requests(loaded).values() for id_, form in forms_of(r)}
    key = lambda messages, _: ("both" if len(messages) > 1 else message_key(messages[0]), "")  # noqa: E731
    resumed = AgentRecorder.from_log(loaded, voice.agent_id, forms=known, known=key)
    assert [heard.key for heard in resumed.items] == [heard.key for heard in voice.items]
    assert (resumed.count, resumed.context_hash) == (voice.count, voice.context_hash)
    assert (resumed.requested_count, resumed.open_request) == (
        voice.requested_count,
        voice.open_request,
    )
    assert forms(resumed, Item.from_message(SYSTEM), both, Item.from_message(HELLO)) is None
    assert len(said(loaded)) == 4


def forms_of(request: ev.LlmRequest) -> Any:
    return ((request.wire or {}).get("forms") or {}).items()


def test_the_same_words_a_thousand_times_cost_no_more_than_others(voice: AgentRecorder) -> None:
    birth = voice.session.agents[voice.agent_id].birth

    def took_s(*, is_same: bool) -> float:
        agent = AgentRecorder(voice.session, recorded(voice.session, cause=birth))
        messages = [Message("user", "ok" if is_same else f"ok {n}") for n in range(3000)]
        items = [Item.from_message(message) for message in messages]
        begun_s = time.process_time()
        agent.log_request(items, model="m")
        return time.process_time() - begun_s

    others_s = took_s(is_same=False)
    assert took_s(is_same=True) < 3 * others_s


def test_the_copy_of_an_answer_is_known_when_it_returns(voice: AgentRecorder) -> None:
    request = voice.log_request([Item.from_message(HI)], model="m")
    voice.log_response(request, [Dressed(HELLO, None, alike="hello")])
    back = Dressed(Message("assistant", "Hello. "), None, alike="hello", key="k")
    voice.log_request([Item.from_message(HI), back, Item.from_message(MORE)], model="m")
    voice.log_request([Item.from_message(HI), Item.from_message(MORE)], model="m")
    voice.log_request([Item.from_message(HI), back, Item.from_message(MORE)], model="m")
    assert said(voice.session) == ["Hi", "Hello.", "How are you?"]
