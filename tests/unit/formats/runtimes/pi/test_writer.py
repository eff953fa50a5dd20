"""Conversations as sessions of Pi."""

from __future__ import annotations

import json
from typing import Any

from harken.core.messages import FunctionCall, ImagePart, Message, TextPart, ToolCall
from harken.formats.base import ConversationEntry
from harken.formats.runtimes.base import NewSessionInfo, read_conversation
from harken.formats.runtimes.pi.messages import NO_RESULT, build_resume_request
from harken.formats.runtimes.pi.reader import NATIVE, iter_steps
from harken.formats.runtimes.pi.writer import CUSTOM, write_session
from harken.testing import plain_conversation
from tests.unit.formats.natives import lines, read
from tests.unit.formats.runtimes.pi.test_reader import (
    HEAD,
    HIDDEN,
    IMAGE,
    THOUGHT,
    answered,
    asked,
    called,
    entry,
    linear,
    resulted,
    tip,
)

SESSION = NewSessionInfo(id="0199-b", folder="/home/jill", time="2026-01-31T12:00:00Z")


def records(
    entries: list[ConversationEntry], session: NewSessionInfo = SESSION
) -> list[dict[str, Any]]:
    return [json.loads(line) for line in write_session(entries, session).splitlines()]


def again(entries: list[ConversationEntry]) -> list[ConversationEntry]:
    return read_conversation(iter_steps, write_session(entries, SESSION))


SIGNED = {"type": "text", "text": "what?", "textSignature": "s"}
OWN = linear(
    asked("Look."),
    answered(THOUGHT, "I look.", called("c1", path="a", n=1.0), called("c2|fc_+9"), HIDDEN),
    resulted("c1"),
    resulted("c2|fc_+9", IMAGE, error=True),
    answered(stop="aborted"),
    {"role": "user", "content": [IMAGE, SIGNED], "timestamp": 7},
    answered("Done."),
)


def test_what_pi_said_comes_back_with_its_names_times_and_usage() -> None:
    assert again(tip(OWN)) == tip(OWN)


def test_it_is_sent_as_it_was() -> None:
    assert build_resume_request(again(tip(OWN))) == build_resume_request(tip(OWN))


def test_the_header_says_where_and_an_entry_names_the_one_before() -> None:
    header, *found = records(plain_conversation())
    assert header == {
        "type": "session",
        "version": 3,
        "id": "0199-b",
        "timestamp": "2026-01-31T12:00:00.000Z",
        "cwd": "/home/jill",
    }
    assert [one["parentId"] for one in found] == [None, *(one["id"] for one in found[:-1])]
    assert all(len(one["id"]) == 8 for one in found)


def test_answers_of_others_have_what_pi_needs_and_count_no_token_twice() -> None:
    asked_, answer, result, _ = (one["message"] for one in records(plain_conversation())[1:])
    assert asked_["timestamp"] == 1769860800000
    assert (answer["stopReason"], answer["provider"], answer["model"]) == (
        "toolUse",
        "unknown",
        "unknown",
    )
    assert {answer["usage"][name] for name in ("input", "output", "cacheRead", "cacheWrite")} == {0}
    assert answer["usage"]["totalTokens"] > 10
    assert (result["toolName"], result["isError"]) == ("look", False)


def test_an_answer_of_pi_without_counts_gets_some() -> None:
    said = {name: value for name, value in answered("Hi").items() if name != "usage"}
    answer = records(tip(linear(asked("?"), said)))[-1]["message"]
    assert answer["usage"]["totalTokens"] > 0


def test_a_model_that_pi_may_have_is_named_with_who_offers_it() -> None:
    said = ConversationEntry(Message("assistant", "Hi"), source={"model": "claude-haiku-4-5"})
    answer = records([ConversationEntry(Message("user", "?")), said])[-1]["message"]
    assert (answer["provider"], answer["api"]) == ("anthropic", "anthropic-messages")


def test_the_title_comes_first_and_a_model_that_is_chosen_last() -> None:
    session = NewSessionInfo(id="s", folder="/", time="", title="Tea", model="openai/gpt-5")
    _, title, *_, chosen = records(plain_conversation(), session)
    assert (title["type"], title["name"]) == ("session_info", "Tea")
    assert (chosen["type"], chosen["provider"], chosen["modelId"]) == (
        "model_change",
        "openai",
        "gpt-5",
    )
    found, reading = read(NATIVE, write_session(plain_conversation(), session))
    assert reading.title == "Tea"
    assert sum(len(step.entries) for step in found) == 4


def test_what_a_runtime_said_in_the_users_name_is_a_custom_message() -> None:
    said = ConversationEntry(Message("user", "Be kind."), source={"kind": "system"})
    record = records([said])[1]
    assert (record["type"], record["customType"], record["content"]) == (
        "custom_message",
        CUSTOM,
        [{"type": "text", "text": "Be kind."}],
    )
    assert again(again([said])) == again([said])


def test_a_compacted_conversation_is_read_as_it_was() -> None:
    data = lines(
        HEAD,
        entry("a", None, asked("a")),
        entry("b", "a", answered("b")),
        {"type": "compaction", "id": "c", "parentId": "b", "summary": "S", "firstKeptEntryId": "b"},
        entry("d", "c", asked("d")),
    )
    assert [one.message for one in again(tip(data))] == [one.message for one in tip(data)]
    assert build_resume_request(again(tip(data))) == build_resume_request(tip(data))


def test_calls_are_closed_and_addresses_of_images_told() -> None:
    url = ImagePart(url="https://example.org/a.png")
    call = ToolCall("a", FunctionCall("look", "{}"))
    said = [Message("user", [TextPart("See"), url]), Message("assistant", None, [call])]
    found = [one.message for one in again([ConversationEntry(message) for message in said])]
    assert found[0].content == [TextPart("See"), TextPart("[an image: https://example.org/a.png]")]
    assert found[2] == Message("tool", NO_RESULT, None, "a", None, is_error=True)


def test_ids_that_pi_cuts_are_told_apart_where_it_cuts_them() -> None:
    one, two = (ToolCall(id_, FunctionCall("look", "{}")) for id_ in ("a|1", "a|2"))
    said = [Message("user", "?"), Message("assistant", None, [one, two])]
    said += [Message("tool", id_, tool_call_id=id_) for id_ in ("a|1", "a|2")]
    requested = build_resume_request(again([ConversationEntry(message) for message in said]))
    ids = [call["id"] for call in requested[1]["tool_calls"]]
    assert len({*ids}) == 2
    assert [message["tool_call_id"] for message in requested[2:]] == ids
