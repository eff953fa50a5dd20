"""Reading Gemini CLI chats."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harken.core.messages import FunctionCall, Message, TextPart, ToolCall
from harken.errors import FormatError
from harken.formats.base import ConversationEntry
from harken.formats.runtimes.base import ReadReport
from harken.formats.runtimes.gemini_cli.reader import NATIVE
from harken.formats.runtimes.gemini_cli.resume_request import (
    ANY_SIGNATURE,
    INTERRUPTED,
    build_resume_request,
)
from harken.testing import odd_conversation, plain_conversation
from tests.unit.formats.native_kit import (
    HOSTILE,
    encode_lines,
    open_source,
    read_context,
    read_steps,
    store_and_load,
    texts_of_entries,
)

HEAD = {
    "sessionId": "0199-a",
    "projectHash": "f" * 64,
    "startTime": "2026-01-31T12:00:00.000Z",
    "kind": "main",
}


def user_record(id_: str, content: Any = None) -> dict[str, Any]:
    time = "2026-01-31T12:00:01.000Z"
    return {"id": id_, "timestamp": time, "type": "user", "content": content or id_}


def answer_record(id_: str, content: Any = "", **options: Any) -> dict[str, Any]:
    return {**user_record(id_), "type": "gemini", "content": content, **options}


def call_record(id_: str, *, result: Any = None, **options: Any) -> dict[str, Any]:
    call = {"id": id_, "name": "look", "args": {"at": id_}, **options}
    return call if result is None else {**call, "result": result}


def response_record(id_: str, **response: Any) -> dict[str, Any]:
    return {"functionResponse": {"id": id_, "name": "look", "response": response}}


def chat(*records: dict[str, Any] | bytes) -> bytes:
    return encode_lines(HEAD, *records)


def read_tip(data: bytes) -> list[ConversationEntry]:
    steps, reading = read_steps(NATIVE, data)
    return read_context(steps, reading.tips.get(""))


def read_texts(data: bytes) -> list[object]:
    return [content for _, content in texts_of_entries(read_tip(data))]


def rewrite_record(*messages: dict[str, Any]) -> dict[str, Any]:
    return {"$set": {"messages": list(messages)}}


THOUGHT = {"subject": "Plan", "description": "I look.", "timestamp": "2026-01-31T12:00:02Z"}
OLD = [
    user_record("a"),
    answer_record(
        "b",
        "Look:",
        thoughts=[THOUGHT],
        toolCalls=[
            call_record("c1", result=[response_record("c1", output="seen")], status="success")
        ],
        tokens={"input": 10, "output": 2, "thoughts": 3, "cached": 4, "tool": 0, "total": 15},
        model="gemini-2.5-pro",
    ),
]
NEW = [
    user_record("a", [{"text": "a"}]),
    answer_record(
        "b",
        [
            {"text": "**Plan** I look.", "thought": True},
            {"text": "Look:"},
            {"functionCall": {"id": "c1", "name": "look", "args": {"at": "c1"}}},
        ],
        tokens=OLD[1]["tokens"],
        model="gemini-2.5-pro",
    ),
    user_record("r", [response_record("c1", output="seen")]),
]


def test_message_is_read_the_same_in_each_shape() -> None:
    document = json.dumps({**HEAD, "messages": OLD}, indent=2).encode()
    entries = read_tip(document)
    assert [entry.message for entry in read_tip(chat(*OLD))] == [entry.message for entry in entries]
    prompt, answer, result = (entry.message for entry in read_tip(chat(*NEW)))
    assert [prompt, answer] == [entry.message for entry in entries[:2]]
    assert result == entries[2].message
    assert entries[1].source == {
        "id": "b",
        "model": "gemini-2.5-pro",
        "usage": {
            "input_tokens": 10,
            "output_tokens": 5,
            "cache_read_tokens": 4,
            "reasoning_tokens": 3,
        },
    }


def test_json_document_is_distinguished_from_json_lines() -> None:
    document = json.dumps({**HEAD, "messages": OLD}, indent=2).encode()
    steps, reading = read_steps(NATIVE, document)
    assert (reading.session_id, reading.title, len(steps)) == ("0199-a", "a", 1)
    assert reading.used_lines == reading.lines == document.count(b"\n") + 1
    assert NATIVE.is_session_file("session-x.json", document)
    assert NATIVE.is_session_file("session-x.jsonl", chat())
    with pytest.raises(FormatError):
        read_steps(NATIVE, document[:-5])


def test_repeated_id_is_a_later_version_in_the_same_position() -> None:
    data = chat(
        user_record("a"), answer_record("b", "half"), user_record("c"), answer_record("b", "whole")
    )
    assert read_texts(data) == ["a", "whole", "c"]
    _, reading = read_steps(NATIVE, data)
    assert dict(reading.uninterpreted) == {"sessionId": 1, "older version/gemini": 1}


def test_rewind_removes_a_message_and_its_successors() -> None:
    data = chat(
        user_record("a"),
        answer_record("b"),
        user_record("c"),
        answer_record("d", "x"),
        {"$rewindTo": "c"},
        user_record("e"),
    )
    steps, reading = read_steps(NATIVE, data)
    assert read_texts(data) == ["a", "e"]
    ((_, branch),) = reading.branches
    assert [content for _, content in texts_of_entries(read_context(steps, branch))] == [
        "a",
        "c",
        "x",
    ]
    assert read_texts(chat(user_record("a"), {"$rewindTo": "unknown"}, user_record("b"))) == ["b"]
    assert read_texts(chat(user_record("a"), answer_record("b", "x"), {"$rewindTo": "b"})) == ["a"]


def test_full_message_list_that_repeats_the_state_changes_nothing() -> None:
    repeated = user_record("b_response", [response_record("c1", output="seen")])
    data = chat(
        *OLD, rewrite_record(user_record("a", [{"text": "a"}]), NEW[1], repeated), user_record("d")
    )
    assert read_tip(data)[:3] == read_tip(chat(*OLD))
    assert read_texts(data)[-1] == "d"


def test_message_list_with_omissions_is_a_compaction() -> None:
    data = chat(
        user_record("a"),
        answer_record("b", "x"),
        rewrite_record(user_record("s", "summary"), answer_record("t", "ok")),
        user_record("e"),
    )
    steps, _ = read_steps(NATIVE, data)
    assert [step.type for step in steps] == ["delta", "compaction", "delta"]
    assert read_texts(data) == ["summary", "ok", "e"]


def test_shorter_message_list_is_a_rewind() -> None:
    data = chat(
        user_record("a"),
        answer_record("b", "x"),
        user_record("c"),
        rewrite_record(user_record("a"), answer_record("b", "x")),
    )
    _, reading = read_steps(NATIVE, data)
    assert read_texts(data) == ["a", "x"]
    assert len(reading.branches) == 1
    assert read_texts(
        data + encode_lines(rewrite_record(user_record("a"), answer_record("b"), user_record("c")))
    ) == ["a", "x", "c"]


def test_results_and_failures_are_distinguished() -> None:
    calls = [
        call_record("c1", result="plain"),
        call_record("c2", result=[response_record("c2", error="no")]),
        call_record("c3", result=[response_record("c3", output="odd")], status="error"),
        call_record("c4", result=[response_record("c4", output=1, more=[2])]),
        call_record("c5"),
    ]
    results = [
        e.message
        for e in read_tip(chat(answer_record("b", toolCalls=calls)))
        if e.message.role == "tool"
    ]
    assert {result.name for result in results} == {"look"}
    assert [(result.content, result.is_error, result.tool_call_id) for result in results] == [
        ("plain", False, "c1"),
        ("no", True, "c2"),
        ([TextPart("odd", extra='{"functionResponse":{"response":"output"}}')], True, "c3"),
        (
            [TextPart('{"output":1,"more":[2]}', extra='{"functionResponse":{"response":"json"}}')],
            False,
            "c4",
        ),
    ]


def test_records_outside_the_conversation_are_counted() -> None:
    data = chat(
        {**user_record("i"), "type": "info"},
        b"torn{",
        user_record("a"),
        {"$set": {"lastUpdated": ""}},
    )
    _, reading = read_steps(NATIVE, data)
    assert read_texts(data) == ["a"]
    assert len(reading.bad) == 1
    assert reading.uninterpreted["$set"] == 1


def call_part(id_: str, **options: Any) -> dict[str, Any]:
    return {"functionCall": {"id": id_, "name": "look", "args": {"at": id_}}, **options}


PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
PICTURE = {"inlineData": {"mimeType": "image/png", "data": PIXEL}}
SENT = [
    user_record("x", "<session_context>old</session_context>"),
    user_record("a"),
    user_record("s", "/help"),
    user_record("p", [PICTURE, {"text": "what?"}]),
    answer_record(
        "b", "B", thoughts=[THOUGHT], toolCalls=[call_record("c1", result="one"), call_record("c2")]
    ),
    answer_record(
        "c", toolCalls=[call_record("", id="", result=[response_record("", error="no"), PICTURE])]
    ),
    answer_record(
        "d", [{"text": "D", "thoughtSignature": "c2ln"}, call_part("c4", thoughtSignature="z")]
    ),
    answer_record(
        "e",
        thoughts=[THOUGHT],
        toolCalls=[call_record("c5", result=[response_record("c5", output="5", x=1)])],
    ),
]


def test_request_equals_that_of_the_client() -> None:
    unnamed = "synth_look_1cf2647a9b508251be42553c5f003a88"
    assert build_resume_request(store_and_load(read_tip(chat(*SENT)))) == [
        {"role": "user", "parts": [{"text": "a"}, PICTURE, {"text": "what?"}]},
        {
            "role": "model",
            "parts": [
                {"text": "B"},
                call_part("c1", thoughtSignature=ANY_SIGNATURE),
                call_part("c2"),
            ],
        },
        {"role": "user", "parts": [response_record("c1", output="one")]},
        {
            "role": "model",
            "parts": [{"functionCall": {"id": unnamed, "name": "look", "args": {"at": ""}}}],
        },
        {"role": "user", "parts": [response_record(unnamed, error="no"), PICTURE]},
        {
            "role": "model",
            "parts": [
                {"text": "D", "thoughtSignature": "c2ln"},
                call_part("c4", thoughtSignature="z"),
                call_part("c5", thoughtSignature=ANY_SIGNATURE),
            ],
        },
        {"role": "user", "parts": [response_record("c5", output="5", x=1)]},
        {"role": "model", "parts": [{"text": INTERRUPTED}]},
    ]


def test_conversations_of_other_runtimes_can_be_sent() -> None:
    roles = [turn["role"] for turn in build_resume_request(plain_conversation())]
    assert roles == ["user", "model", "user", "model"]
    assert build_resume_request(odd_conversation())


def test_growing_file_changes_only_its_last_step() -> None:
    document = chat(
        user_record("a"),
        answer_record("b", "x"),
        user_record("c"),
        answer_record("d", "y"),
        user_record("e"),
    )
    full, _ = read_steps(NATIVE, document)
    for end in range(document.index(b"\n") + 1, len(document), 5):
        steps, _ = read_steps(NATIVE, document[:end])
        assert steps[:-1] == full[: max(0, len(steps) - 1)]


@pytest.mark.parametrize("data", HOSTILE)
def test_hostile_bytes_are_rejected_or_reported(data: bytes) -> None:
    for document in (data, chat(data), chat(user_record("a")) + data + b"\n"):
        reading = ReadReport()
        try:
            steps = list(NATIVE.steps(open_source(document), reading))
        except FormatError:
            continue
        store_and_load([entry for step in steps for entry in step.entries])


IDS = st.sampled_from(["a", "b", "b_response", "c", ""])
MESSAGE = st.builds(
    lambda message, id_: {**message, "id": id_},
    st.sampled_from(
        [*OLD, *NEW, *SENT, answer_record("z", {"text": 5}), user_record("y", [5, "x", {}, []])]
    ),
    IDS,
)
RECORD = (
    MESSAGE
    | st.builds(lambda all_: rewrite_record(*all_), st.lists(MESSAGE, max_size=4))
    | st.builds(lambda id_: {"$rewindTo": id_}, IDS)
    | st.just({**HEAD, "messages": [5, {}]})
)


@given(st.lists(RECORD))
def test_any_lines_are_read(records: list[dict[str, Any]]) -> None:
    steps, _ = read_steps(NATIVE, chat(*records))
    build_resume_request(store_and_load([entry for step in steps for entry in step.entries]))


def test_ids_lose_the_name_prefix_of_the_client() -> None:
    def call(id_: str) -> ToolCall:
        return ToolCall(id_, FunctionCall("look", "{}"))

    request_items = build_resume_request(
        [
            ConversationEntry(Message("user", "Look.")),
            ConversationEntry(Message("assistant", None, [call("look__c1"), call("c2")])),
            ConversationEntry(Message("tool", "a", tool_call_id="look__c1", name="look")),
            ConversationEntry(Message("tool", "b", tool_call_id="c2", name="look")),
        ]
    )
    ids = [
        next(iter(part.values())).get("id") for turn in request_items[1:3] for part in turn["parts"]
    ]
    assert ids == ["c1", "c2", "c1", "c2"]
