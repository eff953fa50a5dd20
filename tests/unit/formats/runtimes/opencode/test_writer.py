"""Writing OpenCode exports from OpenCode conversations and from those of other runtimes."""

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
from tests.unit.formats.context_kit import PNG
from tests.unit.formats.native_kit import store_and_load
from tests.unit.formats.runtimes.opencode.test_reader import (
    COMPACTED,
    SENT,
    TALK,
    export_bytes,
    read_tip,
)

NEW = NewSessionInfo(
    id="019f0675-387a", folder="/w", time="2026-02-01T12:00:00.000000Z", model="fake/model"
)


def export(entries: list[ConversationEntry], session: NewSessionInfo = NEW) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(write_session(entries, session))
    return document


def parts(entries: list[ConversationEntry]) -> list[dict[str, Any]]:
    return [part for message in export(entries)["messages"] for part in message["parts"]]


def write_and_read(entries: list[ConversationEntry]) -> list[ConversationEntry]:
    return store_and_load(read_conversation(NATIVE.steps, write_session(entries, NEW)))


def full_context(*messages: Message, **source: Any) -> list[ConversationEntry]:
    return [ConversationEntry(message, None, source or None) for message in messages]


def test_opencode_conversation_round_trips() -> None:
    native_entries = store_and_load(read_tip(export_bytes(*TALK)))
    *back, last = write_and_read(native_entries)
    assert last.message.content == INTERRUPTED  # Its last call is still running.
    assert [entry.message for entry in back] == [entry.message for entry in native_entries]
    for once, entry in zip(native_entries, back, strict=True):
        assert {**(once.source or {}), "id": ""} == {**(entry.source or {}), "id": ""}


@pytest.mark.parametrize("talk", [TALK, SENT, COMPACTED])
def test_written_export_sends_the_same_request(talk: Any) -> None:
    native_entries = store_and_load(read_tip(export_bytes(*talk)))
    assert build_resume_request(write_and_read(native_entries)) == build_resume_request(
        native_entries
    )


def test_ids_ascend_and_times_never_decrease() -> None:
    entries = [
        ConversationEntry(item.message, time)
        for item, time in zip(
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
    assert [entry.time for entry in write_and_read(entries)][1:] == [
        f"{entry.time[:-1]}.000000Z" for entry in entries[1:] if entry.time
    ]


def test_entry_without_a_time_does_not_set_the_session_start() -> None:
    first, *remaining = plain_conversation()
    for time in (None, "noon"):
        document = export([ConversationEntry(first.message, time), *remaining])
        began = parse_rfc3339("2026-01-31T12:00:01Z") // 1000
        assert document["info"]["time"]["created"] == began


def test_each_id_names_this_session() -> None:
    document = export(plain_conversation())
    assert document["info"]["id"] == session_id(NEW)
    assert document["info"]["directory"] == "/w"
    assert document["info"]["title"] == "Is somebody at the door?"
    for message in document["messages"]:
        assert message["info"]["sessionID"] == session_id(NEW)
        assert {part["messageID"] for part in message["parts"]} == {message["info"]["id"]}
    second = NewSessionInfo(id="b", folder="/w", time=NEW.time)
    assert not {session_id(second)} & {session_id(NEW)}


def test_result_is_in_the_part_of_its_call() -> None:
    tool = next(part for part in parts(plain_conversation()) if part["type"] == "tool")
    assert (tool["callID"], tool["tool"]) == ("call_1", "look")
    state = tool["state"]
    assert (state["status"], state["output"]) == ("completed", "Nobody.")
    assert state["input"] == {"at": "the door"}


def test_image_url_that_opencode_would_fetch_becomes_text() -> None:
    image = ImagePart(url="http://127.0.0.1:1/secret.png")
    (part,) = parts(full_context(Message("user", [image])))
    assert (part["type"], part["text"]) == ("text", f"[an image: {image.url}]")


def test_errors_and_images_of_results_are_kept() -> None:
    calls = [ToolCall(id_, FunctionCall("look", "{}")) for id_ in ("a", "b", "c")]
    image = ImagePart("image/png", PNG)
    entries = full_context(
        Message("user", "q"),
        Message("assistant", None, calls),
        Message("tool", "no", tool_call_id="a", is_error=True),
        Message("tool", [TextPart("seen"), image], tool_call_id="b"),
        Message("tool", [TextPart("bad"), image], tool_call_id="c", is_error=True),
    )
    failed, shown_part, both = (part["state"] for part in parts(entries) if part["type"] == "tool")
    assert (failed["status"], failed["error"]) == ("error", "no")
    assert shown_part["attachments"][0]["mime"] == "image/png"
    assert both["output"] == "[error]: bad"
    assert [e.message.content for e in write_and_read(entries)][3] == [TextPart("seen"), image]


def test_unanswered_call_is_closed() -> None:
    message = Message("assistant", "I look.", [ToolCall("c.1", FunctionCall("look", "[1]"))])
    (tool,) = [p for p in parts(full_context(Message("user", "q"), message)) if p["type"] == "tool"]
    assert (tool["callID"], tool["state"]["error"]) == ("c_1", INTERRUPTED)
    assert tool["state"]["input"] == {"input": "[1]"}


def test_cleared_output_stays_cleared_and_synthetic_text_stays_hidden() -> None:
    native_entries = store_and_load(read_tip(export_bytes(*SENT)))
    assert {"role": "tool", "tool_call_id": "c4", "content": CLEARED} in build_resume_request(
        write_and_read(native_entries)
    )
    context_entries = [
        *full_context(Message("user", "Reminder"), kind="system"),
        *plain_conversation(),
    ]
    first = parts(context_entries)[0]
    assert (first["text"], first["synthetic"]) == ("Reminder", True)
    assert export(context_entries)["info"]["title"] == "Is somebody at the door?"


def test_thinking_of_other_runtimes_is_omitted() -> None:
    foreign = Message(
        "assistant",
        [ThinkingPart("Hm.", {"signature": "s"}), UnknownPart("x", "{}"), TextPart("a")],
    )
    kinds = [(part["type"], part.get("text")) for part in parts(full_context(foreign))[1:]]
    assert kinds == [
        ("step-start", None),
        ("text", "[x] {}\n\na"),
        ("step-finish", None),
    ]


def test_texts_of_a_foreign_answer_stay_separate() -> None:
    """OpenCode merges them, even if a call stands between them."""
    call = ToolCall("c", FunctionCall("look", "{}"))
    answer = build_assistant_message([TextPart("one"), TextPart("two"), call, TextPart("three")])
    entries = full_context(Message("user", "q"), answer)
    back = write_and_read(entries)
    assert build_resume_request(back)[1]["content"] == "one\n\ntwo\n\nthree"
    assert write_and_read(back) == back


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("claude-opus-9", ("anthropic", "claude-opus-9")),
        ("gpt-7", ("openai", "gpt-7")),
        ("gemini-9-pro", ("google", "gemini-9-pro")),
        ("acme/m/1", ("acme", "m/1")),
        ("odd", ("opencode", "odd")),
        ("", ("opencode", "big-pickle")),
    ],
)
def test_model_has_the_provider_that_opencode_knows(model: str, expected: tuple[str, str]) -> None:
    session = NewSessionInfo(id="a", folder="/w", time=NEW.time, model=model)
    named_message = export(plain_conversation(), session)["messages"][0]["info"]["model"]
    assert (named_message["providerID"], named_message["modelID"]) == expected


def test_answer_keeps_its_own_model() -> None:
    entries = full_context(Message("user", "q"), Message("assistant", "a"), model="claude-x")
    prompt, response = (message["info"] for message in export(entries)["messages"])
    assert prompt["model"]["providerID"] == "fake"
    assert (response["providerID"], response["modelID"]) == ("anthropic", "claude-x")


def test_format_returns_the_session_id() -> None:
    assert FORMAT.writes
    assert FORMAT.writes(plain_conversation()) != FORMAT.writes(plain_conversation()[:2])
    assert FORMAT.writes([])
