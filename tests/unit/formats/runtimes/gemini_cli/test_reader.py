"""Chats of Gemini CLI."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harken.core.messages import FunctionCall, Message, ToolCall
from harken.errors import FormatError
from harken.formats.base import ConversationEntry
from harken.formats.runtimes.base import ReadReport
from harken.formats.runtimes.gemini_cli.messages import (
    ANY_SIGNATURE,
    INTERRUPTED,
    build_resume_request,
)
from harken.formats.runtimes.gemini_cli.reader import NATIVE
from harken.testing import odd_conversation, plain_conversation
from tests.unit.formats.natives import HOSTILE, context, lines, read, said, source_of, stored

HEAD = {
    "sessionId": "0199-a",
    "projectHash": "f" * 64,
    "startTime": "2026-01-31T12:00:00.000Z",
    "kind": "main",
}


def asked(id_: str, content: Any = None) -> dict[str, Any]:
    time = "2026-01-31T12:00:01.000Z"
    return {"id": id_, "timestamp": time, "type": "user", "content": content or id_}


def answered(id_: str, content: Any = "", **more: Any) -> dict[str, Any]:
    return {**asked(id_), "type": "gemini", "content": content, **more}


def called(id_: str, *, result: Any = None, **more: Any) -> dict[str, Any]:
    call = {"id": id_, "name": "look", "args": {"at": id_}, **more}
    return call if result is None else {**call, "result": result}


def responded(id_: str, **response: Any) -> dict[str, Any]:
    return {"functionResponse": {"id": id_, "name": "look", "response": response}}


def chat(*records: dict[str, Any] | bytes) -> bytes:
    return lines(HEAD, *records)


def tip(data: bytes) -> list[ConversationEntry]:
    steps, reading = read(NATIVE, data)
    return context(steps, reading.tips.get(""))


def texts(data: bytes) -> list[object]:
    return [content for _, content in said(tip(data))]


def replaced(*messages: dict[str, Any]) -> dict[str, Any]:
    return {"$set": {"messages": list(messages)}}


THOUGHT = {"subject": "Plan", "description": "I look.", "timestamp": "2026-01-31T12:00:02Z"}
OLD = [
    asked("a"),
    answered(
        "b",
        "Look:",
        thoughts=[THOUGHT],
        toolCalls=[called("c1", result=[responded("c1", output="seen")], status="success")],
        tokens={"input": 10, "output": 2, "thoughts": 3, "cached": 4, "tool": 0, "total": 15},
        model="gemini-2.5-pro",
    ),
]
NEW = [
    asked("a", [{"text": "a"}]),
    answered(
        "b",
        [
            {"text": "**Plan** I look.", "thought": True},
            {"text": "Look:"},
            {"functionCall": {"id": "c1", "name": "look", "args": {"at": "c1"}}},
        ],
        tokens=OLD[1]["tokens"],
        model="gemini-2.5-pro",
    ),
    asked("r", [responded("c1", output="seen")]),
]


def test_a_message_says_the_same_in_each_of_its_shapes() -> None:
    document = json.dumps({**HEAD, "messages": OLD}, indent=2).encode()
    entries = tip(document)
    assert [entry.message for entry in tip(chat(*OLD))] == [entry.message for entry in entries]
    asked_, answer, result = (entry.message for entry in tip(chat(*NEW)))
    assert [asked_, answer] == [entry.message for entry in entries[:2]]
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


def test_a_document_is_read_whole_and_told_apart_from_lines() -> None:
    document = json.dumps({**HEAD, "messages": OLD}, indent=2).encode()
    steps, reading = read(NATIVE, document)
    assert (reading.session_id, reading.title, len(steps)) == ("0199-a", "a", 1)
    assert reading.used_lines == reading.lines == document.count(b"\n") + 1
    assert NATIVE.is_session_file("session-x.json", document)
    assert NATIVE.is_session_file("session-x.jsonl", chat())
    with pytest.raises(FormatError):
        read(NATIVE, document[:-5])


def test_the_same_id_again_is_a_later_version_in_the_same_place() -> None:
    data = chat(asked("a"), answered("b", "half"), asked("c"), answered("b", "whole"))
    assert texts(data) == ["a", "whole", "c"]
    _, reading = read(NATIVE, data)
    assert dict(reading.uninterpreted) == {"sessionId": 1, "older version/gemini": 1}


def test_a_rewind_takes_back_a_message_and_all_after_it() -> None:
    data = chat(
        asked("a"), answered("b"), asked("c"), answered("d", "x"), {"$rewindTo": "c"}, asked("e")
    )
    steps, reading = read(NATIVE, data)
    assert texts(data) == ["a", "e"]
    ((_, branch),) = reading.branches
    assert [content for _, content in said(context(steps, branch))] == ["a", "c", "x"]
    assert texts(chat(asked("a"), {"$rewindTo": "unknown"}, asked("b"))) == ["b"]
    assert texts(chat(asked("a"), answered("b", "x"), {"$rewindTo": "b"})) == ["a"]


def test_a_list_of_all_messages_changes_nothing_where_it_repeats_them() -> None:
    repeated = asked("b_response", [responded("c1", output="seen")])
    data = chat(*OLD, replaced(asked("a", [{"text": "a"}]), NEW[1], repeated), asked("d"))
    assert tip(data)[:3] == tip(chat(*OLD))
    assert texts(data)[-1] == "d"


def test_a_list_that_leaves_messages_out_is_a_compaction() -> None:
    data = chat(
        asked("a"),
        answered("b", "x"),
        replaced(asked("s", "summary"), answered("t", "ok")),
        asked("e"),
    )
    steps, _ = read(NATIVE, data)
    assert [step.type for step in steps] == ["delta", "compaction", "delta"]
    assert texts(data) == ["summary", "ok", "e"]


def test_a_list_that_ends_earlier_goes_back() -> None:
    data = chat(
        asked("a"), answered("b", "x"), asked("c"), replaced(asked("a"), answered("b", "x"))
    )
    _, reading = read(NATIVE, data)
    assert texts(data) == ["a", "x"]
    assert len(reading.branches) == 1
    assert texts(data + lines(replaced(asked("a"), answered("b"), asked("c")))) == ["a", "x", "c"]


def test_results_are_told_from_failures() -> None:
    calls = [
        called("c1", result="plain"),
        called("c2", result=[responded("c2", error="no")]),
        called("c3", result=[responded("c3", output="odd")], status="error"),
        called("c4", result=[responded("c4", output=1, more=[2])]),
        called("c5"),
    ]
    results = [
        e.message for e in tip(chat(answered("b", toolCalls=calls))) if e.message.role == "tool"
    ]
    assert [(one.content, one.is_error, one.tool_call_id, one.name) for one in results] == [
        ("plain", False, "c1", "look"),
        ("no", True, "c2", "look"),
        ("odd", True, "c3", "look"),
        ('{"output":1,"more":[2]}', False, "c4", "look"),
    ]


def test_what_is_no_conversation_is_counted() -> None:
    data = chat({**asked("i"), "type": "info"}, b"torn{", asked("a"), {"$set": {"lastUpdated": ""}})
    _, reading = read(NATIVE, data)
    assert texts(data) == ["a"]
    assert len(reading.bad) == 1
    assert reading.uninterpreted["$set"] == 1


def call_part(id_: str, **more: Any) -> dict[str, Any]:
    return {"functionCall": {"id": id_, "name": "look", "args": {"at": id_}}, **more}


PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
PICTURE = {"inlineData": {"mimeType": "image/png", "data": PIXEL}}
SENT = [
    asked("x", "<session_context>old</session_context>"),
    asked("a"),
    asked("s", "/help"),
    asked("p", [PICTURE, {"text": "what?"}]),
    answered("b", "B", thoughts=[THOUGHT], toolCalls=[called("c1", result="one"), called("c2")]),
    answered("c", toolCalls=[called("", id="", result=[responded("", error="no"), PICTURE])]),
    answered(
        "d", [{"text": "D", "thoughtSignature": "c2ln"}, call_part("c4", thoughtSignature="z")]
    ),
    answered(
        "e", thoughts=[THOUGHT], toolCalls=[called("c5", result=[responded("c5", output="5", x=1)])]
    ),
]


def test_what_is_sent_is_what_the_client_sends() -> None:
    unnamed = "synth_look_1cf2647a9b508251be42553c5f003a88"
    assert build_resume_request(stored(tip(chat(*SENT)))) == [
        {"role": "user", "parts": [{"text": "a"}, PICTURE, {"text": "what?"}]},
        {
            "role": "model",
            "parts": [
                {"text": "B"},
                call_part("c1", thoughtSignature=ANY_SIGNATURE),
                call_part("c2"),
            ],
        },
        {"role": "user", "parts": [responded("c1", output="one")]},
        {
            "role": "model",
            "parts": [{"functionCall": {"id": unnamed, "name": "look", "args": {"at": ""}}}],
        },
        {"role": "user", "parts": [responded(unnamed, error="no"), PICTURE]},
        {
            "role": "model",
            "parts": [
                {"text": "D", "thoughtSignature": "c2ln"},
                call_part("c4", thoughtSignature="z"),
                call_part("c5", thoughtSignature=ANY_SIGNATURE),
            ],
        },
        {"role": "user", "parts": [responded("c5", output="5", x=1)]},
        {"role": "model", "parts": [{"text": INTERRUPTED}]},
    ]


def test_conversations_of_others_can_be_sent() -> None:
    roles = [turn["role"] for turn in build_resume_request(plain_conversation())]
    assert roles == ["user", "model", "user", "model"]
    assert build_resume_request(odd_conversation())


def test_a_growing_file_changes_only_its_last_step() -> None:
    whole = chat(asked("a"), answered("b", "x"), asked("c"), answered("d", "y"), asked("e"))
    full, _ = read(NATIVE, whole)
    for end in range(whole.index(b"\n") + 1, len(whole), 5):
        steps, _ = read(NATIVE, whole[:end])
        assert steps[:-1] == full[: max(0, len(steps) - 1)]


@pytest.mark.parametrize("data", HOSTILE)
def test_hostile_bytes_are_refused_or_reported(data: bytes) -> None:
    for whole in (data, chat(data), chat(asked("a")) + data + b"\n"):
        reading = ReadReport()
        try:
            steps = list(NATIVE.steps(source_of(whole), reading))
        except FormatError:
            continue
        stored([entry for step in steps for entry in step.entries])


IDS = st.sampled_from(["a", "b", "b_response", "c", ""])
MESSAGE = st.builds(
    lambda message, id_: {**message, "id": id_},
    st.sampled_from([*OLD, *NEW, *SENT, answered("z", {"text": 5}), asked("y", [5, "x", {}, []])]),
    IDS,
)
RECORD = (
    MESSAGE
    | st.builds(lambda all_: replaced(*all_), st.lists(MESSAGE, max_size=4))
    | st.builds(lambda id_: {"$rewindTo": id_}, IDS)
    | st.just({**HEAD, "messages": [5, {}]})
)


@given(st.lists(RECORD))
def test_any_lines_are_read(records: list[dict[str, Any]]) -> None:
    steps, _ = read(NATIVE, chat(*records))
    build_resume_request(stored([entry for step in steps for entry in step.entries]))


def test_ids_lose_the_name_that_the_client_put_before_them() -> None:
    def call(id_: str) -> ToolCall:
        return ToolCall(id_, FunctionCall("look", "{}"))

    found = build_resume_request(
        [
            ConversationEntry(Message("user", "Look.")),
            ConversationEntry(Message("assistant", None, [call("look__c1"), call("c2")])),
            ConversationEntry(Message("tool", "a", tool_call_id="look__c1", name="look")),
            ConversationEntry(Message("tool", "b", tool_call_id="c2", name="look")),
        ]
    )
    ids = [next(iter(part.values())).get("id") for turn in found[1:3] for part in turn["parts"]]
    assert ids == ["c1", "c2", "c1", "c2"]
