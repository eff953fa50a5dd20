from __future__ import annotations

import pytest

from harken.core.events import Event, TranscriptEntry, event_from_dict
from harken.core.ids import AgentId
from harken.core.messages import FunctionCall, ThinkingPart, ToolCall
from harken.views.filter import select, utterances
from harken.views.viewer import SessionViewer
from tests.unit.views.examples import JACK, ROOT
from tests.unit.views.log_builder import LogBuilder


def ids(events: object) -> list[str]:
    return [str(event.message_id) for event in events]  # type: ignore[attr-defined]


@pytest.mark.req("S0-10")
def test_utterance_is_assistant_content_without_calls(
    cafe: SessionViewer,
) -> None:
    assert ids(utterances(cafe.events)) == ["msg_015", "msg_018"]


@pytest.mark.req("S0-10")
@pytest.mark.parametrize(
    ("entry", "is_one"),
    [
        (TranscriptEntry(role="assistant", content="Hi"), True),
        (TranscriptEntry(role="assistant", content="Hi", tool_calls=[]), True),
        (TranscriptEntry(role="assistant", content=[ThinkingPart("hm")]), True),
        (TranscriptEntry(role="assistant", content=""), False),
        (TranscriptEntry(role="assistant"), False),
        (TranscriptEntry(role="user", content="Hi"), False),
        (TranscriptEntry(role="system", content="Hi"), False),
        (TranscriptEntry(role="tool", content="Hi", tool_call_id="c"), False),
        (
            TranscriptEntry(
                role="assistant", content="Hi", tool_calls=[ToolCall("c", FunctionCall("f", "{}"))]
            ),
            False,
        ),
    ],
)
def test_utterance_predicate(entry: Event, is_one: bool) -> None:
    assert bool(list(utterances([entry]))) == is_one


@pytest.mark.req("S0-10")
def test_drafts_are_no_utterances(play: LogBuilder) -> None:
    guard = play.create_agent("Guard", by=play.root, relation="hook")
    denied, passed, pending = (play.says(play.root, text) for text in ("no", "yes", "maybe"))
    play.gives_verdict(guard, "response", denied, "DENY: be kind")
    play.gives_verdict(guard, "response", passed, "OK")
    play.gives_answer(play.root, passed)
    play.gives_verdict(guard, "response", pending, "OK")
    assert ids(utterances(play.viewer().events)) == [passed]


@pytest.mark.req("S1-12")
def test_events_are_filtered_by_type_agent_and_role(cafe: SessionViewer) -> None:
    events = cafe.events
    assert ids(select(events, event_type="agent_created")) == ["msg_001", "msg_004", "msg_008"]
    assert ids(select(events, agent_id=JACK, role="user")) == ["msg_013", "msg_020"]
    assert ids(select(events, role="system")) == ["msg_005", "msg_009"]
    assert ids(select(events, agent_id=ROOT, event_type="piece_of_text")) == ["msg_012"]
    assert len(list(select(events))) == 20
    assert ids(select(events, agent_id="nobody")) == []


@pytest.mark.req("S1-12")
def test_events_are_filtered_by_reference(cafe: SessionViewer) -> None:
    events = list(cafe.events)
    assert ids(select(events, link="msg_011")) == ["msg_012", "msg_016", "msg_019"]
    assert ids(select(events, link="msg_011", by="cause")) == ["msg_012"]
    assert ids(select(events, link="msg_011", by="call", role="tool")) == ["msg_016", "msg_019"]
    assert ids(select(events, by="substance", agent_id=JACK)) == ["msg_013", "msg_020"]
    assert ids(select(events, link="msg_012", by="cause")) == []


@pytest.mark.req("S1-12")
def test_single_call_of_several_is_a_separate_reference(play: LogBuilder) -> None:
    call = play.calls(play.root, ("discuss", "{}"), ("look", "{}"))
    first, second = f"{call}.discuss_{call}_0", f"{call}.look_{call}_1"
    piece = play.piece(play.root, "Hi?", first)
    first_result, two = play.result(play.root, call, "Hi"), play.result(play.root, call, "a cat")
    events = play.viewer().events
    assert ids(select(events, link=first)) == [piece, first_result]
    assert ids(select(events, link=second)) == [two]
    assert ids(select(events, link=call)) == [piece, first_result, two]


def test_event_of_an_unknown_type_is_filtered_by_its_members() -> None:
    """A member of an unknown event type is a reference only if it has the form of first_result."""
    new = {
        "event_type": "new",
        "message_id": "m",
        "agent_id": "a",
        "role": "user",
        "cause": ["b", 1],
    }
    unknown_event = {"event_type": "odd", "message_id": "n", "agent_id": 7, "role": 7, "cause": 7}
    same = {"event_type": "new", "message_id": "s", "substance": "b"}
    events = [event_from_dict(new), event_from_dict(unknown_event), event_from_dict(same)]
    assert ids(select(events, role="user", agent_id=AgentId("a"), link="b")) == ["m"]
    assert ids(select(events, event_type="odd")) == ["n"]
    assert ids(select(events, link="b", by="substance")) == ["s"]
    assert ids(select(events, by="cause")) == ["m"]
