"""Writing conversations as Pi sessions."""

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
from tests.unit.formats.native_kit import encode_lines, read_steps
from tests.unit.formats.runtimes.pi.test_reader import (
    HEAD,
    HIDDEN,
    IMAGE,
    THOUGHT,
    assistant_message,
    entry,
    linear_session,
    read_tip,
    tool_call,
    tool_result,
    user_message,
)

SESSION = NewSessionInfo(id="0199-b", folder="/home/jill", time="2026-01-31T12:00:00Z")


def records(
    entries: list[ConversationEntry], session: NewSessionInfo = SESSION
) -> list[dict[str, Any]]:
    return [json.loads(line) for line in write_session(entries, session).splitlines()]


def write_and_read(entries: list[ConversationEntry]) -> list[ConversationEntry]:
    return read_conversation(iter_steps, write_session(entries, SESSION))


SIGNED = {"type": "text", "text": "what?", "textSignature": "s"}
OWN = linear_session(
    user_message("Look."),
    assistant_message(
        THOUGHT, "I look.", tool_call("c1", path="a", n=1.0), tool_call("c2|fc_+9"), HIDDEN
    ),
    tool_result("c1"),
    tool_result("c2|fc_+9", IMAGE, error=True),
    assistant_message(stop="aborted"),
    {"role": "user", "content": [IMAGE, SIGNED], "timestamp": 7},
    assistant_message("Done."),
)


def test_pi_conversation_round_trips_with_ids_times_and_usage() -> None:
    assert write_and_read(read_tip(OWN)) == read_tip(OWN)


def test_written_session_sends_the_same_request() -> None:
    assert build_resume_request(write_and_read(read_tip(OWN))) == build_resume_request(
        read_tip(OWN)
    )


def test_header_names_the_folder_and_entries_name_their_parents() -> None:
    header, *result = records(plain_conversation())
    assert header == {
        "type": "session",
        "version": 3,
        "id": "0199-b",
        "timestamp": "2026-01-31T12:00:00.000Z",
        "cwd": "/home/jill",
    }
    assert [item["parentId"] for item in result] == [None, *(item["id"] for item in result[:-1])]
    assert all(len(item["id"]) == 8 for item in result)


def test_foreign_answers_get_required_members_without_counting_tokens_twice() -> None:
    prompt, answer, result, _ = (record["message"] for record in records(plain_conversation())[1:])
    assert prompt["timestamp"] == 1769860800000
    assert (answer["stopReason"], answer["provider"], answer["model"]) == (
        "toolUse",
        "unknown",
        "unknown",
    )
    assert {answer["usage"][name] for name in ("input", "output", "cacheRead", "cacheWrite")} == {0}
    assert answer["usage"]["totalTokens"] > 10
    assert (result["toolName"], result["isError"]) == ("look", False)


def test_answer_of_pi_without_usage_gets_one() -> None:
    texts = {name: value for name, value in assistant_message("Hi").items() if name != "usage"}
    answer = records(read_tip(linear_session(user_message("?"), texts)))[-1]["message"]
    assert answer["usage"]["totalTokens"] > 0


def test_model_that_pi_may_offer_is_named_with_its_provider() -> None:
    message = ConversationEntry(Message("assistant", "Hi"), source={"model": "claude-haiku-4-5"})
    answer = records([ConversationEntry(Message("user", "?")), message])[-1]["message"]
    assert (answer["provider"], answer["api"]) == ("anthropic", "anthropic-messages")


def test_title_comes_first_and_the_selected_model_last() -> None:
    session = NewSessionInfo(id="s", folder="/", time="", title="Tea", model="openai/gpt-5")
    _, title, *_, model_change = records(plain_conversation(), session)
    assert (title["type"], title["name"]) == ("session_info", "Tea")
    assert (model_change["type"], model_change["provider"], model_change["modelId"]) == (
        "model_change",
        "openai",
        "gpt-5",
    )
    result, reading = read_steps(NATIVE, write_session(plain_conversation(), session))
    assert reading.title == "Tea"
    assert sum(len(step.entries) for step in result) == 4


def test_synthetic_user_text_becomes_a_custom_message() -> None:
    message = ConversationEntry(Message("user", "Be kind."), source={"kind": "system"})
    record = records([message])[1]
    assert (record["type"], record["customType"], record["content"]) == (
        "custom_message",
        CUSTOM,
        [{"type": "text", "text": "Be kind."}],
    )
    assert write_and_read(write_and_read([message])) == write_and_read([message])


def test_compacted_conversation_round_trips() -> None:
    data = encode_lines(
        HEAD,
        entry("a", None, user_message("a")),
        entry("b", "a", assistant_message("b")),
        {"type": "compaction", "id": "c", "parentId": "b", "summary": "S", "firstKeptEntryId": "b"},
        entry("d", "c", user_message("d")),
    )
    assert [item.message for item in write_and_read(read_tip(data))] == [
        item.message for item in read_tip(data)
    ]
    assert build_resume_request(write_and_read(read_tip(data))) == build_resume_request(
        read_tip(data)
    )


def test_calls_are_closed_and_image_urls_become_text() -> None:
    url = ImagePart(url="https://example.org/a.png")
    call = ToolCall("a", FunctionCall("look", "{}"))
    answer = [Message("user", [TextPart("See"), url]), Message("assistant", None, [call])]
    result = [
        new_entry.message
        for new_entry in write_and_read([ConversationEntry(message) for message in answer])
    ]
    assert result[0].content == [TextPart("See"), TextPart("[an image: https://example.org/a.png]")]
    assert result[2] == Message("tool", NO_RESULT, None, "a", None, is_error=True)


def test_ids_that_pi_truncates_stay_distinct_after_truncation() -> None:
    first, two = (ToolCall(id_, FunctionCall("look", "{}")) for id_ in ("a|1", "a|2"))
    answer = [Message("user", "?"), Message("assistant", None, [first, two])]
    answer += [Message("tool", id_, tool_call_id=id_) for id_ in ("a|1", "a|2")]
    requested = build_resume_request(
        write_and_read([ConversationEntry(message) for message in answer])
    )
    ids = [call["id"] for call in requested[1]["tool_calls"]]
    assert len({*ids}) == 2
    assert [message["tool_call_id"] for message in requested[2:]] == ids
