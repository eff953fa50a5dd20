from __future__ import annotations

import pytest

from harken.core.messages import (
    ContentPart,
    FunctionCall,
    ImagePart,
    Message,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolCallSlot,
    UnknownPart,
)
from harken.views.message_text import format_message, heading, join_tool_names

CALL = ToolCall("c1", FunctionCall("look", '{"at": 1}'))


@pytest.mark.parametrize(
    ("part", "text"),
    [
        (TextPart("Hi\nthere"), "Hi\nthere"),
        (TextPart(""), "<empty text>"),
        (ThinkingPart("hm", meta={"signature": "s"}), "<thinking hm>"),
        (ThinkingPart(""), "<thinking>"),
        (ImagePart("image/png", "eA=="), "<image image/png, 1 B>"),
        (ImagePart(url="https://x/y.png"), "<image https://x/y.png>"),
        (ImagePart("image/png", url="data:image/png;base64,eHg="), "<image image/png, 2 B>"),
        (ImagePart(), "<image>"),
        (UnknownPart("document", "x" * 3000), "<block document, 2.9 KB>"),
        (UnknownPart("odd", '"\ud800"'), "<block odd, 5 B>"),
    ],
)
def test_every_kind_of_part_is_formatted(part: ContentPart, text: str) -> None:
    assert format_message(Message("user", [part])) == text


def test_parts_and_calls_are_formatted_in_order() -> None:
    free = ToolCall("c2", FunctionCall("sh", "ls\n-l"), "custom")
    parts: list[ContentPart] = [
        TextPart("a"),
        ToolCallSlot("c2"),
        TextPart("b"),
        ToolCallSlot("c9"),
    ]
    message = Message("assistant", parts, tool_calls=[CALL, free])
    assert format_message(message) == 'a\n<custom call c2> sh ls\n-l\nb\n<call c1> look {"at": 1}'


@pytest.mark.parametrize("content", [None, "", []])
def test_calls_without_text_are_formatted(content: str | list[ContentPart] | None) -> None:
    message = Message("assistant", content, tool_calls=[CALL])
    assert format_message(message) == '<call c1> look {"at": 1}'
    assert format_message(Message("user", content)) == ""


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (Message("user", "Hi"), "user"),
        (Message("user", "Hi", name="Ann"), "user Ann"),
        (Message("tool", "", tool_call_id="c1", name="look"), "tool look (c1)"),
        (Message("tool", "", tool_call_id="c1", is_error=True), "tool (c1, error)"),
        (Message("tool", "", is_error=True), "tool (error)"),
    ],
)
def test_heading_of_a_result_has_its_call_and_failure(message: Message, text: str) -> None:
    assert heading(message) == text


def test_tool_without_name_is_shown() -> None:
    assert (
        join_tool_names([{"type": "search"}, {"function": "x"}, {"name": "look"}]) == "?, ?, look"
    )
