"""Exports that Harken writes: OpenCode has its own back, and others as it can say them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from harken.core.clock import parse_rfc3339
from harken.core.messages import (
    FunctionCall,
    ImagePart,
    Message,
    TextPart,
    ThinkingPart,
    ToolCall,
    UnknownPart,
)
from harken.formats.base import ConversationEntry
from harken.formats.runtimes.base import NewSessionInfo, read_conversation
from harken.formats.runtimes.opencode.messages import CLEARED, INTERRUPTED, build_resume_request
from harken.formats.runtimes.opencode.reader import FORMAT, NATIVE
from harken.formats.runtimes.opencode.writer import session_id, write_session
from harken.formats.tool_calls import build_assistant_message
from harken.testing import plain_conversation
from tests.unit.formats.contexts import PNG
from tests.unit.formats.natives import stored
from tests.unit.formats.runtimes.opencode.test_reader import COMPACTED, SENT, TALK, exported, tip

NEW = NewSessionInfo(
    id="019f0675-387a", folder="/w", time="2026-02-01T12:00:00.000000Z", model="fake/model"
)


def export(entries: list[ConversationEntry], session: NewSessionInfo = NEW) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(write_session(entries, session))
    return made


def parts(entries: list[ConversationEntry]) -> list[dict[str, Any]]:
    return [part for message in export(entries)["messages"] for part in message["parts"]]


def again(entries: list[ConversationEntry]) -> list[ConversationEntry]:
    return stored(read_conversation(NATIVE.steps, write_session(entries, NEW)))


def whole(*messages: Message, **source: Any) -> list[ConversationEntry]:
    return [ConversationEntry(message, None, source or None) for message in messages]


def test_opencode_has_its_own_conversation_back_as_it_was() -> None:
    own = stored(tip(exported(*TALK)))
    *back, closed = again(own)
    assert closed.message.content == INTERRUPTED  # its last call runs still
    assert [entry.message for entry in back] == [entry.message for entry in own]
    for once, entry in zip(own, back, strict=True):
        assert {**(once.source or {}), "id": ""} == {**(entry.source or {}), "id": ""}


@pytest.mark.parametrize("talk", [TALK, SENT, COMPACTED])
def test_what_opencode_sends_of_its_own_it_sends_of_what_is_written(talk: Any) -> None:
    own = stored(tip(exported(*talk)))
    assert build_resume_request(again(own)) == build_resume_request(own)


def test_ids_ascend_and_times_never_go_back() -> None:
    entries = [
        ConversationEntry(one.message, time)
        for one, time in zip(
            plain_conversation(),
            [None, "2026-01-31T12:00:09Z", "2026-01-31T12:00:10Z", "2026-01-31T12:00:05Z"],
            strict=True,
        )
    ]
    messages = export(entries)["messages"]
    created = [message["info"]["time"]["created"] for message in messages]
    assert created == sorted(created)
    ids = [message["info"]["id"] for message in messages]
    assert ids == sorted({*ids})
    assert [entry.time for entry in again(entries)][1:] == [
        f"{entry.time[:-1]}.000000Z" for entry in entries[1:] if entry.time
    ]


def test_an_entry_without_a_time_does_not_say_when_a_session_began() -> None:
    first, *rest = plain_conversation()
    for time in (None, "noon"):
        made = export([ConversationEntry(first.message, time), *rest])
        began = parse_rfc3339("2026-01-31T12:00:01Z") // 1000
        assert made["info"]["time"]["created"] == began


def test_every_id_names_this_session() -> None:
    made = export(plain_conversation())
    assert made["info"]["id"] == session_id(NEW)
    assert made["info"]["directory"] == "/w"
    assert made["info"]["title"] == "Is somebody at the door?"
    for message in made["messages"]:
        assert message["info"]["sessionID"] == session_id(NEW)
        assert {part["messageID"] for part in message["parts"]} == {message["info"]["id"]}
    other = NewSessionInfo(id="b", folder="/w", time=NEW.time)
    assert not {session_id(other)} & {session_id(NEW)}


def test_a_result_stands_in_the_part_of_its_call() -> None:
    tool = next(part for part in parts(plain_conversation()) if part["type"] == "tool")
    assert (tool["callID"], tool["tool"]) == ("call_1", "look")
    state = tool["state"]
    assert (state["status"], state["output"]) == ("completed", "Nobody.")
    assert state["input"] == {"at": "the door"}


def test_an_image_that_opencode_would_have_to_fetch_is_told() -> None:
    there = ImagePart(url="http://127.0.0.1:1/secret.png")
    (part,) = parts(whole(Message("user", [there])))
    assert (part["type"], part["text"]) == ("text", f"[an image: {there.url}]")


def test_errors_and_images_of_results_are_kept() -> None:
    calls = [ToolCall(id_, FunctionCall("look", "{}")) for id_ in ("a", "b", "c")]
    image = ImagePart("image/png", PNG)
    entries = whole(
        Message("user", "q"),
        Message("assistant", None, calls),
        Message("tool", "no", tool_call_id="a", is_error=True),
        Message("tool", [TextPart("seen"), image], tool_call_id="b"),
        Message("tool", [TextPart("bad"), image], tool_call_id="c", is_error=True),
    )
    failed, seen, both = (part["state"] for part in parts(entries) if part["type"] == "tool")
    assert (failed["status"], failed["error"]) == ("error", "no")
    assert seen["attachments"][0]["mime"] == "image/png"
    assert both["output"] == "[error]: bad"
    assert [e.message.content for e in again(entries)][3] == [TextPart("seen"), image]


def test_a_call_that_nobody_answered_is_closed() -> None:
    made = Message("assistant", "I look.", [ToolCall("c.1", FunctionCall("look", "[1]"))])
    (tool,) = [p for p in parts(whole(Message("user", "q"), made)) if p["type"] == "tool"]
    assert (tool["callID"], tool["state"]["error"]) == ("c_1", INTERRUPTED)
    assert tool["state"]["input"] == {"input": "[1]"}


def test_what_was_cleared_stays_cleared_and_what_was_said_by_opencode_hidden() -> None:
    own = stored(tip(exported(*SENT)))
    assert {"role": "tool", "tool_call_id": "c4", "content": CLEARED} in build_resume_request(
        again(own)
    )
    told = [*whole(Message("user", "Reminder"), kind="system"), *plain_conversation()]
    first = parts(told)[0]
    assert (first["text"], first["synthetic"]) == ("Reminder", True)
    assert export(told)["info"]["title"] == "Is somebody at the door?"


def test_thoughts_of_others_are_not_said() -> None:
    foreign = Message(
        "assistant",
        [ThinkingPart("Hm.", {"signature": "s"}), UnknownPart("x", "{}"), TextPart("a")],
    )
    kinds = [(part["type"], part.get("text")) for part in parts(whole(foreign))[1:]]
    assert kinds == [
        ("step-start", None),
        ("text", "[x] {}\n\na"),
        ("step-finish", None),
    ]


def test_the_texts_of_an_answer_of_others_stay_apart() -> None:
    """OpenCode joins them: also those that a call stands between."""
    call = ToolCall("c", FunctionCall("look", "{}"))
    answer = build_assistant_message([TextPart("one"), TextPart("two"), call, TextPart("three")])
    entries = whole(Message("user", "q"), answer)
    back = again(entries)
    assert build_resume_request(back)[1]["content"] == "one\n\ntwo\n\nthree"
    assert again(back) == back


@pytest.mark.parametrize(
    ("model", "known"),
    [
        ("claude-opus-9", ("anthropic", "claude-opus-9")),
        ("gpt-7", ("openai", "gpt-7")),
        ("gemini-9-pro", ("google", "gemini-9-pro")),
        ("acme/m/1", ("acme", "m/1")),
        ("odd", ("opencode", "odd")),
        ("", ("opencode", "big-pickle")),
    ],
)
def test_a_model_has_the_provider_that_opencode_knows_it_from(
    model: str, known: tuple[str, str]
) -> None:
    session = NewSessionInfo(id="a", folder="/w", time=NEW.time, model=model)
    named = export(plain_conversation(), session)["messages"][0]["info"]["model"]
    assert (named["providerID"], named["modelID"]) == known


def test_the_model_of_an_answer_is_its_own() -> None:
    entries = whole(Message("user", "q"), Message("assistant", "a"), model="claude-x")
    asked, answered = (message["info"] for message in export(entries)["messages"])
    assert asked["model"]["providerID"] == "fake"
    assert (answered["providerID"], answered["modelID"]) == ("anthropic", "claude-x")


def test_the_format_names_a_session_by_what_it_says() -> None:
    assert FORMAT.writes
    assert FORMAT.writes(plain_conversation()) != FORMAT.writes(plain_conversation()[:2])
    assert FORMAT.writes([])
