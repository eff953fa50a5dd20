"""Models, token counts, files and texts as an export of OpenCode has them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from harken.core.messages import (
    ContentPart,
    FunctionCall,
    ImagePart,
    Message,
    TextPart,
    ThinkingPart,
    ToolCall,
    UnknownPart,
)
from harken.formats.base import ConversationEntry
from harken.formats.runtimes.base import NewSessionInfo
from harken.formats.runtimes.opencode.writer import write_session

HI = Message("user", "Hi")


def export(*messages: Message, model: str = "fake/model", **source: Any) -> dict[str, Any]:
    session = NewSessionInfo(
        id="019f0675-387a", folder="/w", time="2026-02-01T12:00:00.000000Z", model=model
    )
    entries = [ConversationEntry(message, None, source or None) for message in messages]
    document: dict[str, Any] = json.loads(write_session(entries, session))
    return document


def parts_of_last(*messages: Message, **source: Any) -> list[dict[str, Any]]:
    parts = export(*messages, **source)["messages"][-1]["parts"]
    hidden = {"id", "sessionID", "messageID"}
    return [{n: v for n, v in part.items() if n not in hidden} for part in parts]


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        ({}, {}),
        ({"input_tokens": 9}, {"input": 9}),
        (
            {"input_tokens": 9, "cache_read_tokens": 4, "cache_write_tokens": 3},
            {"input": 2, "cache": {"read": 4, "write": 3}},
        ),
        ({"input_tokens": 1, "cache_read_tokens": 4}, {"cache": {"read": 4, "write": 0}}),
        ({"output_tokens": 5, "reasoning_tokens": 2}, {"output": 3, "reasoning": 2}),
        ({"output_tokens": 5, "reasoning_tokens": 7}, {"output": 0, "reasoning": 5}),
        ({"input_tokens": -1, "output_tokens": True}, {}),
    ],
)
def test_input_excludes_cached_tokens_and_output_excludes_thinking(
    usage: dict[str, Any], tokens: dict[str, Any]
) -> None:
    empty = {"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}}
    document = export(HI, Message("assistant", "Hello"), usage=usage)
    answer = document["messages"][1]
    assert answer["info"]["tokens"] == answer["parts"][-1]["tokens"] == {**empty, **tokens}
    assert answer["info"]["finish"] == answer["parts"][-1]["reason"] == "stop"


@pytest.mark.parametrize(
    ("content", "texts"),
    [
        (["one"], ["one"]),
        (["one", "two"], ["one\n\ntwo"]),
        (["one\n\n", "two"], ["one\n\ntwo"]),
        (["one", None, "two"], ["one\n\n", "two"]),
        (["one", None, "two", "three"], ["one\n\n", "two\n\nthree"]),
    ],
)
def test_texts_of_an_answer_are_separated(content: list[str | None], texts: list[str]) -> None:
    """OpenCode joins them without a separator."""
    call = ToolCall("c1", FunctionCall("look", "{}"))
    items: list[ContentPart] = [
        TextPart(text) if text is not None else ThinkingPart("hm") for text in content
    ]
    answer = Message("assistant", items, [call])
    result = Message("tool", "seen", tool_call_id="c1", name="look")
    parts = parts_of_last(HI, answer, result)
    written = [part["text"] for part in parts if part["type"] == "text"]
    assert "".join(written) == "".join(texts)


@pytest.mark.parametrize(
    ("part", "file"),
    [
        (
            ImagePart("image/png", "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="),
            {"mime": "image/png"},
        ),
        (
            UnknownPart("file", '{"mime":"text/csv","url":"file:///a.csv","type":"x"}'),
            {"mime": "text/csv", "url": "file:///a.csv"},
        ),
    ],
)  # fmt: skip
def test_image_and_file_are_files(part: ContentPart, file: dict[str, Any]) -> None:
    written = parts_of_last(Message("user", [TextPart("See"), part]))
    assert written[0] == {"type": "text", "text": "See"}
    assert written[1]["type"] == "file"
    assert file.items() <= written[1].items()


@pytest.mark.parametrize(
    "data", ['{"mime":"text/csv"}', '{"url":"file:///a"}', '{"mime":"","url":"x"}', "[]", "no"]
)
def test_block_that_is_no_file_is_a_text(data: str) -> None:
    [part] = parts_of_last(Message("user", [UnknownPart("file", data)]))
    assert part["type"] == "text"


def test_call_has_its_arguments_and_its_result() -> None:
    call = ToolCall("c1", FunctionCall("look", '{"at":1}'))
    odd = ToolCall("c2", FunctionCall("look", "no JSON"))
    results = [
        Message("tool", "seen", tool_call_id="c1", name="look"),
        Message("tool", "no", tool_call_id="c2", name="look", is_error=True),
    ]
    parts = parts_of_last(HI, Message("assistant", None, [call, odd]), *results)
    first, second = (part["state"] for part in parts if part["type"] == "tool")
    assert (first["status"], first["input"], first["output"]) == ("completed", {"at": 1}, "seen")
    assert first["time"]["start"] <= first["time"]["end"]
    assert (second["status"], second["error"]) == ("error", "no")
    assert parts[-1]["reason"] == "tool-calls"


def test_answer_names_its_question_its_folder_and_an_abort() -> None:
    document = export(HI, Message("assistant", "Hello"))
    question, answer = (message["info"] for message in document["messages"])
    assert answer["parentID"] == question["id"]
    assert answer["path"] == {"cwd": "/w", "root": "/w"}
    assert "error" not in answer
    assert document["info"]["title"] == "Hi"
