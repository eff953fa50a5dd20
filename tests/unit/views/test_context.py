from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from harken.core import events as ev
from harken.core.ids import AgentId, MessageId
from harken.core.messages import ChatMessage, Message, extend_context_hash
from harken.errors import HarkenError, NameNotFound
from harken.views.context import ContextMessage, context
from harken.views.model_calls import placeholders
from harken.views.tree import tree
from tests.unit.views.log_builder import LogBuilder


def texts(rows: Sequence[ContextMessage]) -> list[object]:
    return [row.message.content for row in rows]


def test_context_equals_the_model_input(play: LogBuilder) -> None:
    play.hears(play.root, "Hi")
    first = play.asks(play.root, parameters={"temperature": 0})
    play.answers(play.root, first, "Hello")
    play.hears(play.root, "Go on")
    second = play.asks(play.root)
    play.answers(play.root, second, "On")
    view = context(play.viewer().events, second)
    assert texts(view.messages) == ["Hi", "Hello", "Go on"]
    assert [row.message.role for row in view.messages] == ["user", "assistant", "user"]
    assert view.verified
    assert (view.agent_id, view.model, view.previous) == (play.root, "scripted:play", first)
    assert context(play.viewer().events, first).parameters == {"temperature": 0}


def test_call_is_resolved_by_request_response_or_answer(play: LogBuilder) -> None:
    play.hears(play.root, "Hi")
    request = play.asks(play.root)
    answer = play.answers(play.root, request, "Hello")
    response = play.session.state.last_id
    events = play.viewer().events
    assert {context(events, id_).request for id_ in (request, response, answer)} == {request}


def test_new_messages_are_relative_to_the_agents_previous_request(play: LogBuilder) -> None:
    jack = play.create_agent("Jack", by=play.root)
    play.hears(play.root, "Hi")
    before = play.asks(play.root)
    play.hears(jack, "Ho")
    play.asks(jack)
    play.hears(play.root, "Go on")
    play.hears(play.root, "and on")
    request = play.asks(play.root)
    view = context(play.viewer().events, request)
    assert view.previous == before
    assert [row.message.content for row in view.messages if row.new] == ["Go on", "and on"]
    assert view.dropped == []


def test_all_messages_of_a_first_context_are_new(play: LogBuilder) -> None:
    play.hears(play.root, "Hi")
    request = play.asks(play.root)
    view = context(play.viewer().events, request)
    assert (view.previous, [row.new for row in view.messages]) == (None, [True])


def test_context_after_a_compaction_lists_dropped_messages(play: LogBuilder) -> None:
    for text in ("one", "two", "three"):
        play.hears(play.root, text)
    full = play.asks(play.root)
    summary = play.hears(play.root, "summary of one and two", cause=full)
    segments = [ev.Segment(entries=[summary]), ev.Segment(start=2, stop=3)]
    edit = ev.TranscriptEdited(agent_id=play.root, segments=segments, summary=summary)
    play.session.append(edit)
    short = play.asks(play.root)
    events = play.viewer().events
    view = context(events, short)
    assert texts(view.messages) == ["summary of one and two", "three"]
    assert [row.new for row in view.messages] == [True, False]
    assert [(row.position, row.message.content) for row in view.dropped] == [(0, "one"), (1, "two")]
    assert view.verified
    assert texts(context(events, full).messages) == ["one", "two", "three"]


def test_context_shows_where_a_cached_prefix_ends(play: LogBuilder) -> None:
    def cached_prefix(request: str) -> tuple[int, str | None]:
        view = context(play.viewer().events, request)
        return view.kept, view.broken_by

    play.hears(play.root, "one")
    assert cached_prefix(play.asks(play.root)) == (0, None)
    play.hears(play.root, "two")
    assert cached_prefix(play.asks(play.root)) == (1, None)
    dropped = ev.TranscriptEdited(
        agent_id=play.root, segments=[ev.Segment(start=0, stop=1)], reason="drop"
    )
    play.session.append(dropped)
    play.hears(play.root, "three")
    assert cached_prefix(play.asks(play.root)) == (1, "messages")
    tools = play.session.append(ev.ToolsDefined(tools=[{"name": "look"}], tools_hash="h"))
    assert cached_prefix(play.asks(play.root, tools=tools)) == (0, "tools")


def test_tools_of_a_call_are_shown_in_full(play: LogBuilder) -> None:
    schema = [{"name": "look", "input_schema": {}}]
    play.hears(play.root, "Hi")
    tools = play.session.append(ev.ToolsDefined(tools=schema, tools_hash="h"))
    request = play.asks(play.root, tools=tools)
    assert context(play.viewer().events, request).tools == schema


def test_request_is_shown_as_json(play: LogBuilder) -> None:
    input_id = play.hears(play.root, "Hi")
    request = play.asks(play.root)
    view = context(play.viewer().events, request).as_json()
    assert view["messages"] == [
        {
            "position": 0,
            "message_id": input_id,
            "new": True,
            "message": {"role": "user", "content": "Hi"},
        }
    ]
    assert view["verified"] is True


OLD = [Message("user", "from a commit"), Message("assistant", "indeed")]


def _load(_: ev.ContextLoaded) -> Sequence[ChatMessage]:
    return OLD


@pytest.fixture
def loaded(tmp_path: Path) -> tuple[LogBuilder, MessageId]:
    play = LogBuilder(tmp_path, resolver=_load)
    context_hash = ""
    for message in OLD:
        context_hash = extend_context_hash(context_hash, message)
    load = ev.ContextLoaded(agent_id=play.root, ctx="ctx-0123", count=2, context_hash=context_hash)
    play.session.append(load)
    play.hears(play.root, "Hi")
    request = play.asks(play.root)
    play.session.close()
    return play, request


def test_loaded_commit_is_read_through_the_resolver(
    loaded: tuple[LogBuilder, MessageId],
) -> None:
    play, request = loaded
    view = context(play.viewer().events, request, resolver=_load)
    assert texts(view.messages) == ["from a commit", "indeed", "Hi"]
    assert [row.loaded for row in view.messages] == ["msg_002", "msg_002", None]
    assert view.verified


def test_context_without_store_has_placeholders_and_is_unverified(
    loaded: tuple[LogBuilder, MessageId],
) -> None:
    play, request = loaded
    view = context(play.viewer().events, request)
    assert texts(view.messages) == [
        "[message 0 of ctx-0123, which is in a store that is not open]",
        "[message 1 of ctx-0123, which is in a store that is not open]",
        "Hi",
    ]
    assert not view.verified
    assert len(tree(play.viewer().events)) == 1


def test_unknown_model_call_error_lists_the_calls(play: LogBuilder) -> None:
    input_id = play.hears(play.root, "Hi")
    request = play.asks(play.root)
    with pytest.raises(NameNotFound, match=f"model call '{input_id}'.*{request}"):
        context(play.viewer().events, input_id)


def test_request_with_a_missing_reference_is_an_error_on_one_line() -> None:
    def request(id_: str, segment: ev.Segment) -> ev.LlmRequest:
        return ev.LlmRequest(
            message_id=MessageId(id_),
            agent_id=AgentId("a"),
            context=[segment],
            count=1,
            context_hash="",
            model="m",
        )

    lacking = request("msg_001", ev.Segment(entries=[MessageId("msg_000")]))
    with pytest.raises(HarkenError, match="msg_001 saw 'msg_000', which this log lacks"):
        context([lacking], "msg_001")
    later = request("msg_001", ev.Segment(request=MessageId("msg_001"), start=0, stop=1))
    with pytest.raises(HarkenError, match="a later request"):
        context([later], "msg_001")


def test_placeholders_match_the_message_count_of_the_commit() -> None:
    event = ev.ContextLoaded(ctx="ctx-1", count=3, context_hash="")
    assert len(placeholders(event)) == 3
