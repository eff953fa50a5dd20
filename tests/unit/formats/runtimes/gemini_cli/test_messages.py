"""Values of messages of Gemini CLI: token counts, parts, thoughts, results and ids of calls."""

from __future__ import annotations

from typing import Any

import pytest

from harken.core.canonical import to_json_line
from harken.core.messages import (
    FunctionCall,
    ImagePart,
    TextPart,
    ThinkingPart,
    ToolCall,
    UnknownPart,
)
from harken.formats.base import ConversationEntry
from harken.formats.runtimes.gemini_cli.resume_request import build_resume_request
from tests.unit.formats.runtimes.gemini_cli.test_reader import (
    answer_record,
    call_record,
    chat,
    read_tip,
    response_record,
    user_record,
)


def read_answer(content: Any = "Hi", **members: Any) -> ConversationEntry:
    return read_tip(chat(user_record("a"), answer_record("b", content, **members)))[1]


@pytest.mark.parametrize(
    ("tokens", "usage"),
    [
        ({}, None),
        ({"input": 3, "output": 0}, {"input_tokens": 3}),
        ({"input": 3, "tool": 4}, {"input_tokens": 7}),
        ({"output": 2, "thoughts": 5}, {"output_tokens": 7, "reasoning_tokens": 5}),
        ({"cached": 4}, {"cache_read_tokens": 4}),
        ({"input": "3", "output": -1, "cached": True}, None),
    ],
)
def test_thoughts_are_output_and_tools_are_input(
    tokens: dict[str, Any], usage: dict[str, int] | None
) -> None:
    assert (read_answer(tokens=tokens).source or {}).get("usage") == usage


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("a", "a"),
        ({"text": "a"}, "a"),
        (["a", {"text": "b"}, 5], [TextPart("a"), TextPart("b"), UnknownPart("", "5")]),
        ([{"text": "hm", "thought": False}], [TextPart("hm", extra='{"thought":false}')]),
        (
            [{"inlineData": {"mimeType": "image/png", "data": "aGk="}}],
            [ImagePart("image/png", "aGk=")],
        ),
        (
            [{"inlineData": {"mimeType": "text/csv", "data": "aGk="}}],
            [UnknownPart("inlineData", '{"inlineData":{"mimeType":"text/csv","data":"aGk="}}')],
        ),
        (
            [{"executableCode": {"code": "1"}}],
            [UnknownPart("executableCode", '{"executableCode":{"code":"1"}}')],
        ),
        (
            [{"text": "a", "thoughtSignature": "c2ln"}],
            [TextPart("a", {"gemini": {"thoughtSignature": "c2ln"}})],
        ),
    ],
)
def test_content_in_any_form_is_parts(content: Any, expected: Any) -> None:
    assert read_answer(content).message.content == expected


@pytest.mark.parametrize(
    ("thought", "text"),
    [
        ({"subject": "Plan", "description": "I look."}, "**Plan** I look."),
        ({"description": "I look."}, "I look."),
        ({"subject": "Plan"}, "**Plan** "),
    ],
)
def test_thought_has_its_subject_in_front(thought: dict[str, str], text: str) -> None:
    content = read_answer("Hi", thoughts=[thought]).message.content
    assert isinstance(content, list)
    assert isinstance(content[0], ThinkingPart)
    assert content[0].text == text


def test_thoughts_that_the_content_has_are_not_repeated() -> None:
    content = [{"text": "hm", "thought": True}, {"text": "Hi"}]
    parts = read_answer(content, thoughts=[{"description": "hm"}]).message.content
    assert isinstance(parts, list)
    assert [type(part) for part in parts] == [ThinkingPart, TextPart]


def result_text(text: str, response: object) -> TextPart:
    """Return the text of a result whose response has a form that the text alone does not tell."""
    return TextPart(text, extra=to_json_line({"functionResponse": {"response": response}}).decode())


def read_result(result: Any, **members: Any) -> ConversationEntry:
    call = {**call_record("c1"), "result": result, **members}
    return read_tip(chat(user_record("a"), answer_record("b", "", toolCalls=[call])))[2]


@pytest.mark.parametrize(
    ("result", "members", "content", "is_error"),
    [
        ("seen", {}, "seen", False),
        ("no", {"status": "error"}, [result_text("no", "output")], True),
        ([response_record("c1", output="seen")], {}, "seen", False),
        (
            [response_record("c1", output="seen")],
            {"status": "cancelled"},
            [result_text("seen", "output")],
            True,
        ),
        ([response_record("c1", error="no")], {}, "no", True),
        (
            [response_record("c1", output={"a": 1})],
            {},
            [result_text('{"output":{"a":1}}', "json")],
            False,
        ),
        ([response_record("c1")], {}, [result_text("", {"output": None})], False),
        (
            [response_record("c1", output="seen", more=1)],
            {},
            [result_text("seen", {"more": 1})],
            False,
        ),
        (
            [
                response_record("c1", output="seen"),
                {"inlineData": {"mimeType": "image/png", "data": "aGk="}},
            ],
            {},
            [TextPart("seen"), ImagePart("image/png", "aGk=")],
            False,
        ),
    ],
)
def test_result_of_a_call_in_any_form(
    result: Any, members: dict[str, Any], content: Any, is_error: bool
) -> None:
    message = read_result(result, **members).message
    assert (message.content, message.is_error) == (content, is_error)
    assert (message.tool_call_id, message.name) == ("c1", "look")


@pytest.mark.parametrize("result", [None, [], {}])
def test_call_without_a_result_stays_open(result: Any) -> None:
    call = {**call_record("c1"), "result": result}
    entries = read_tip(chat(user_record("a"), answer_record("b", "", toolCalls=[call])))
    assert [entry.message.role for entry in entries] == ["user", "assistant"]
    assert entries[1].message.tool_calls == [ToolCall("c1", FunctionCall("look", '{"at":"c1"}'))]


def test_call_without_an_id_is_named_by_its_place() -> None:
    calls = [{"name": "look", "args": {}, "result": "seen"}, {"name": "look", "result": "too"}]
    entries = read_tip(chat(user_record("a"), answer_record("b", "", toolCalls=calls)))
    ids = [call.id for call in entries[1].message.tool_calls or ()]
    assert ids == ["b/0", "b/1"]
    assert [entry.message.tool_call_id for entry in entries[2:]] == ids


@pytest.mark.parametrize(
    ("id_", "name", "sent"),
    [
        ("look__c1", "look", "c1"),
        ("look__", "look", ""),
        ("look_c1", "look", "look_c1"),
        ("generic_tool__c1", " ", "c1"),
        ("other__c1", "look", "other__c1"),
    ],
)
def test_id_of_a_call_is_sent_without_the_name_of_its_tool(id_: str, name: str, sent: str) -> None:
    call = {"functionCall": {"id": id_, "name": name, "args": {}}}
    response = {"functionResponse": {"id": id_, "name": name, "response": {"output": "x"}}}
    entries = read_tip(
        chat(user_record("a"), answer_record("b", [call]), user_record("r", [response]))
    )
    request = build_resume_request(entries)
    functions = [
        part.get("functionCall") or part.get("functionResponse")
        for turn in request
        for part in turn["parts"]
        if "functionCall" in part or "functionResponse" in part
    ]
    assert [function["id"] for function in functions] == [sent, sent]
