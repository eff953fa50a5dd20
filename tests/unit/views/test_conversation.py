"""Conversations as numbered items: what a fresh read has, a growing one has, each item once."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from harken.cli.commands.demo import play
from harken.core.canonical import to_json_line
from harken.core.events import (
    ActionRewritten,
    AgentConfigured,
    Event,
    HookVerdict,
    TranscriptEntry,
    decode_event,
)
from harken.core.ids import AgentId
from harken.core.messages import ContentPart, ImagePart, TextPart, ThinkingPart, ToolCall
from harken.views.conversation.conversation import Conversations
from harken.views.conversation.images import decode_image, hash_image
from harken.views.conversation.items import (
    MAX_TEXT_CHARS,
    CallItem,
    ConversationItem,
    ImageItem,
    RewrittenItem,
    TextItem,
)
from harken.views.links import Links
from harken.views.viewer import SessionViewer
from tests.session_kit import (
    call_dict,
    create_agent,
    log_answer,
    log_tool_calls,
    log_tool_result,
    log_user_message,
    new_session,
    session_options,
)
from tests.unit.views.examples import EXAMPLE_1, EXAMPLE_2, Line

MAX = 10**6


def decode_lines(lines: Sequence[Line]) -> list[Event]:
    return [decode_event(to_json_line({"time": "", **line})) for line in lines]


def play_demo(folder: Path) -> list[Event]:
    """Return the events of two agents that meet, one of them with an inner voice."""
    play(folder / "demo.jsonl", session_options())
    return read_events(folder / "demo.jsonl")


def read_events(log: Path) -> list[Event]:
    return SessionViewer(log).events.events


def read(events: Sequence[Event]) -> Conversations:
    """Return the conversations of all events, read at once."""
    conversations = Conversations(Links(events))
    conversations.add(events)
    return conversations


def items_of(events: Sequence[Event], agent: str = "agent_001") -> list[ConversationItem]:
    return read(events).items(agent, 0, MAX)


def follow(events: Sequence[Event], agent: str, step: int) -> list[ConversationItem]:
    """Return the items that upserts by index give while the events are added in steps."""
    links = Links(())
    conversations = Conversations(links)
    items: dict[int, ConversationItem] = {}
    for start in range(0, len(events), step):
        new = events[start : start + step]
        links.extend(new)
        conversations.add(new)
        for index in conversations.find_changed(agent, start):
            items[index] = conversations.items(agent, index, index + 1)[0]
    assert sorted(items) == list(range(len(items)))
    return [items[index] for index in range(len(items))]


@pytest.mark.parametrize("step", [1, 3, 1000])
@pytest.mark.parametrize("source", ["first", "second", "demo"])
def test_a_session_that_grows_has_the_items_of_a_fresh_read(
    source: str, step: int, tmp_path: Path
) -> None:
    examples = {"first": EXAMPLE_1, "second": EXAMPLE_2}
    events = decode_lines(examples[source]) if source in examples else play_demo(tmp_path)
    agents = Links(events).names.latest_names
    assert any(items_of(events, agent) for agent in agents)
    for agent in agents:
        assert follow(events, agent, step) == items_of(events, agent)


def test_changes_after_a_restart_are_those_of_the_events_since(tmp_path: Path) -> None:
    with new_session(tmp_path) as session:
        agent = create_agent(session, relation="primary", name="Ann")
        log_user_message(session, agent)
        log_tool_calls(session, agent, "c1")
        before = len(read_events(session.path))
        log_tool_result(session, agent, "c1", "found")
        log_answer(session, agent)
        conversations = read(read_events(session.path))
    assert conversations.find_changed(agent, before) == [1, 2]
    assert conversations.find_changed(agent, before + 1) == [2]
    assert conversations.find_changed(agent, len(read_events(session.path))) == []


def test_a_result_is_in_its_call_and_not_an_item(tmp_path: Path) -> None:
    with new_session(tmp_path) as session:
        agent = create_agent(session, relation="primary", name="Ann")
        log_tool_calls(session, agent, "c1", "c2", tool="bash", arguments='{"command": "ls"}')
        log_tool_result(session, agent, "c2", "two")
        conversations = read(read_events(session.path))
    [item] = conversations.items(agent, 0, MAX)
    first, second = item.parts
    assert isinstance(first, CallItem)
    assert isinstance(second, CallItem)
    assert (first.subject, first.result, first.position) == ("ls", None, 0)
    assert second.result is not None
    assert (second.result.text, second.result.is_error, second.position) == ("two", False, 1)
    assert conversations.find_index(second.result.message_id) == (agent, 0)


def test_the_parts_of_an_answer_are_items_by_label_in_order(tmp_path: Path) -> None:
    content: list[ContentPart] = [ThinkingPart("hm"), TextPart("I look."), TextPart("Now.")]
    with new_session(tmp_path) as session:
        agent = create_agent(session, relation="primary", name="Ann")
        session.append(
            TranscriptEntry(
                agent_id=agent,
                role="assistant",
                content=content,
                tool_calls=[msgspec.convert(call_dict("c1"), ToolCall)],
            )
        )
        items = items_of(read_events(session.path))
    assert [item.label for item in items] == ["Thought", "Action"]
    assert [part.__class__.__name__ for part in items[1].parts] == [
        "TextItem",
        "TextItem",
        "CallItem",
    ]


def test_an_image_is_a_hash_and_a_result_has_its_images(tmp_path: Path) -> None:
    data = base64.b64encode(b"\x89PNG\r\n\x1a\nrest").decode()
    image = ImagePart(media_type="image/png", data=data)
    linked = ImagePart(url="https://example.org/a.png")
    inside = ImagePart(url=f"data:image/png;base64,{data}")
    with new_session(tmp_path) as session:
        agent = create_agent(session, relation="primary", name="Ann")
        session.append(
            TranscriptEntry(agent_id=agent, role="user", content=[image, linked, inside])
        )
        log_tool_calls(session, agent, "c1")
        session.append(
            TranscriptEntry(
                agent_id=agent, role="tool", content=[image], tool_call_id="c1", name="look"
            )
        )
        heard, called = items_of(read_events(session.path))
    first, second, third = heard.parts
    assert isinstance(first, ImageItem)
    assert isinstance(second, ImageItem)
    assert (first.hash, first.media_type, first.size) == (hash_image(image), "image/png", 12)
    assert [part.is_shown for part in (first, second)] == [True, False]
    assert (second.hash, second.url) == (None, "https://example.org/a.png")
    assert third == first
    [call] = called.parts
    assert isinstance(call, CallItem)
    assert call.result is not None
    assert call.result.images == [first]
    assert decode_image(image) == b"\x89PNG\r\n\x1a\nrest"
    assert decode_image(ImagePart(data="not base64!")) is None


def test_a_long_text_is_cut_and_can_be_read_as_a_whole(tmp_path: Path) -> None:
    text = "x" * (MAX_TEXT_CHARS + 1)
    with new_session(tmp_path) as session:
        agent = create_agent(session, relation="primary", name="Ann")
        id_ = log_user_message(session, agent, text)
        conversations = read(read_events(session.path))
    [part] = conversations.items(agent, 0, 1)[0].parts
    assert isinstance(part, TextItem)
    assert (len(part.text), part.length, part.position) == (MAX_TEXT_CHARS, len(text), 0)
    assert conversations.find_text(id_, 0) == conversations.find_text(id_) == text
    assert conversations.find_text(id_, 1) is None
    assert conversations.find_text("msg_999") is None


def test_an_agent_that_is_renamed_has_its_new_name_in_all_items(tmp_path: Path) -> None:
    with new_session(tmp_path) as session:
        agent = create_agent(session, relation="primary", name="Ann")
        log_answer(session, agent)
        before = len(read_events(session.path))
        session.append(AgentConfigured(agent_id=agent, name="Eve"))
        conversations = read(read_events(session.path))
        assert follow(read_events(session.path), agent, 1) == conversations.items(agent, 0, MAX)
    assert conversations.find_changed(agent, before) == [0]
    assert conversations.items(agent, 0, 1)[0].author_name == "Eve"


def test_an_answer_of_another_agent_in_a_group_chat_names_its_speaker(tmp_path: Path) -> None:
    with new_session(tmp_path) as session:
        chat = create_agent(session, relation="primary", name="main")
        call = log_tool_calls(session, chat, "c1", tool="task")
        surfer = create_agent(session, cause=call, name="WebSurfer")
        log_tool_result(session, chat, "c1")
        for name in ("WebSurfer", "main", "Nobody", None):
            message = {"role": "assistant", "content": "hi", **({"name": name} if name else {})}
            session.log_transcript_entry(chat, message)
        items = read(read_events(session.path)).items(chat, 0, MAX)
    assert [(item.author, item.author_name) for item in items[1:]] == [
        (surfer, "WebSurfer"),
        (chat, "main"),
        (None, "Nobody"),
        (chat, "main"),
    ]


def test_a_rewritten_answer_and_call_have_both_texts(tmp_path: Path) -> None:
    with new_session(tmp_path) as session:
        agent, guard = session.allocate_agent_id(), session.allocate_agent_id()
        birth = session.log_agent_created(agent, None, "Ann")
        session.log_agent_created(guard, birth, "Guard", relation="hook")
        answer = log_answer(session, agent, "The code is 1234.")
        session.append(
            HookVerdict(
                agent_id=guard,
                watched=agent,
                subject=answer,
                point="response",
                verdict="rewrite",
                text="The code is secret.",
            )
        )
        session.log_transcript_entry(
            "user", {"role": "user", "content": "The code is secret."}, answer
        )
        call = log_tool_calls(session, agent, "c1", tool="bash", arguments='{"command": "rm"}')
        session.append(
            ActionRewritten(
                agent_id=agent, call=call, tool="bash", arguments='{"command": "ls"}', cause=answer
            )
        )
        events = read_events(session.path)
        assert follow(events, agent, 1) == items_of(events)
    said, called = items_of(events)
    assert (said.label, said.note) == ("Draft", "rewritten by Guard")
    rewritten = said.parts[-1]
    assert isinstance(rewritten, RewrittenItem)
    assert (rewritten.text, rewritten.hook_name) == ("The code is secret.", "Guard")
    assert [span.kind for span in rewritten.spans] == ["same", "dropped", "added", "same"]
    [part] = called.parts
    assert isinstance(part, CallItem)
    assert part.rewritten is not None
    assert part.rewritten.arguments == '{"command": "ls"}'


def test_a_call_names_the_agents_that_it_created(tmp_path: Path) -> None:
    with new_session(tmp_path) as session:
        agent = create_agent(session, relation="primary", name="Ann")
        call = log_tool_calls(session, agent, "c1", tool="task")
        child = create_agent(session, cause=call, name="Bob")
        [item] = items_of(read_events(session.path))
    [part] = item.parts
    assert isinstance(part, CallItem)
    assert part.agents == [child]


def test_an_unknown_agent_has_no_items() -> None:
    conversations = read([])
    assert conversations.items("agent_009", 0, MAX) == []
    assert conversations.find_changed("agent_009", 0) == []
    assert conversations.find_index("msg_001") is None
    assert conversations.count(AgentId("x")) == 0
