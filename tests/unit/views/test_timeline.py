from __future__ import annotations

import pytest

from harken.core import events as ev
from harken.core.ids import MessageId
from harken.views.timeline import timeline
from harken.views.viewer import SessionViewer
from tests.unit.views.examples import EXAMPLE_1, HI, JACK, JILL, ROOT
from tests.unit.views.log_builder import LogBuilder


@pytest.mark.req("S1-13")
def test_timeline_has_all_events_in_order_with_agents_as_lanes(cafe: SessionViewer) -> None:
    view = timeline(cafe.events)
    assert [mark.message_id for mark in view.marks] == [line["message_id"] for line in EXAMPLE_1]
    assert [lane.agent_id for lane in view.lanes] == [ROOT, JACK, JILL]
    for mark, line in zip(view.marks, EXAMPLE_1, strict=True):
        assert mark.lane is not None
        assert view.lanes[mark.lane].agent_id == line["agent_id"]
    jack = view.lanes[1]
    assert (jack.name, jack.first, jack.last, jack.events) == ("Jack", "msg_004", "msg_020", 5)
    assert view.marks[14].text == HI


@pytest.mark.req("S1-13")
def test_turn_begins_when_the_user_addresses_the_primary_agent(play: LogBuilder) -> None:
    jack = play.create_agent("Jack", by=play.root)
    guard = play.create_agent("Guard", by=play.root, relation="hook")
    first = play.hears(play.root, "Hi")
    play.hears(jack, "File changed: data.json")
    play.hears(play.root, "[hook Guard]: hm", cause=play.says(guard, "COMMENT: hm"))
    second = play.hears(play.root, "Go on")
    last = play.says(play.root, "Done")
    turns = {mark.message_id: mark.turn for mark in timeline(play.viewer().events).marks}
    assert turns[MessageId("msg_001")] == 0
    assert (turns[first], turns[second], turns[last]) == (1, 2, 2)


def test_turns_follow_the_primary_agent(play: LogBuilder) -> None:
    above = play.create_agent("Above", by=play.root)
    play.moves(above, "primary")
    play.moves(play.root, "subagent", above)
    play.hears(play.root, "not the user")
    input_id = play.hears(above, "Hi")
    turns = {mark.message_id: mark.turn for mark in timeline(play.viewer().events).marks}
    assert (turns[input_id], list(turns.values()).count(1)) == (1, 1)


def test_every_mark_has_a_description(play: LogBuilder) -> None:
    play.hears(play.root, "Hi")
    tools = ev.ToolsDefined(tools=[{"name": "look"}], tools_hash="h")
    request = play.asks(play.root, tools=play.session.append(tools))
    play.answers(play.root, request, "Hello")
    call = play.calls(play.root, ("look", "{}"), text="I look.")
    rewrite = ev.ActionRewritten(agent_id=play.root, call=call, tool="look", arguments="[]")
    play.session.append(rewrite)
    play.piece(play.root, "a piece", call)
    play.result(play.root, call, "a cat")
    jack = play.create_agent("Jack", by=play.root)
    play.moves(jack, "hook", play.root)
    play.moves(jack, "gone")
    play.session.append(ev.InterlocutorsSet(agent_id=play.root, speakers=[play.root], listeners=[]))
    play.session.end("bye")
    marks = timeline(play.viewer().events).marks
    assert [mark.text for mark in marks] == [
        "play, schema version 2",
        "Root, primary",
        "Hi",
        "look",
        "scripted:play reads 1 message",
        "Hello",
        "stop, 10 tokens in, 2 tokens out, 0.5 USD",
        "I look.\nlook {}",
        f"{call}: look []",
        "a piece",
        "a cat",
        'task {"not": "read"}',
        "Jack, subagent",
        "Created: Jack",
        "hook of Root",
        "gone",
        "speakers: Root; listeners: none",
        "bye",
    ]
    assert (marks[0].lane, marks[1].lane) == (None, 0)


def test_user_has_a_lane_if_the_log_has_user_display_events(play: LogBuilder) -> None:
    play.hears("user", "[REDACTED]", play.says(play.root, "1234"))
    view = timeline(play.viewer().events)
    assert [lane.name for lane in view.lanes] == ["Root", "user"]
    assert view.as_json()["marks"][-1]["lane"] == 1


def test_event_of_an_unknown_type_shows_its_members(play: LogBuilder) -> None:
    strange = ev.event_from_dict({"event_type": "new", "message_id": "msg_9", "time": "", "x": [1]})
    assert timeline([strange]).marks[0].text == '{"x":[1]}'
