"""Arguments of tool calls, and the order of the parts and calls of a message."""

from __future__ import annotations

import pytest

from harken.core.messages import FunctionCall, Part, TextPart, ToolCall, ToolCallSlot
from harken.formats.tool_calls import (
    CallIds,
    ShortIds,
    build_assistant_message,
    encode_tool_call,
    iter_items,
    parse_json_object,
    sanitize_name,
)


def call(id_: str, arguments: str = "{}", name: str = "look") -> ToolCall:
    return ToolCall(id_, FunctionCall(name, arguments))


@pytest.mark.parametrize("levels", [1, 64, 65, 66])
@pytest.mark.parametrize(("opening", "closing"), [('{"a":', "}"), ("[", "]")])
def test_arguments_nested_too_deeply_are_no_object(levels: int, opening: str, closing: str) -> None:
    """A value in the object may be nested 64 levels deep."""
    text = '{"a":' + opening * (levels - 1) + "1" + closing * (levels - 1) + "}"
    assert (parse_json_object(text) is not None) == (levels <= 65)


def test_arguments_that_are_no_object_are_sent_as_input() -> None:
    for text, arguments in [
        ("[1]", {"input": "[1]"}),
        ("\ud800", {"input": "?"}),
        (" ", {}),
        ('{"a":NaN}', {"a": None}),
        ('{"a":"\\ud800"}', {"a": "?"}),
    ]:
        assert encode_tool_call(call("c", text), CallIds(64), 64).arguments == arguments


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        (["a", "a", "a"], ["a", "a_2", "a_3"]),
        (["", "b/c"], ["call", "b_c"]),
        (["x" * 9, "x" * 8, "x" * 8], ["x" * 8, "x" * 6 + "_2", "x" * 6 + "_3"]),
    ],
)
def test_ids_of_calls_are_unique_and_limited(ids: list[str], expected: list[str]) -> None:
    call_ids = CallIds(8)
    assert [call_ids.new(id_) for id_ in ids] == expected


def test_short_ids_have_nine_letters_and_digits() -> None:
    short_ids = ShortIds()
    ids = [
        short_ids.new(id_) for id_ in ("D681PevKs", "D681PevKs", "D681PevK", "D681PevKsa", "a/b")
    ]
    assert ids[0] == "D681PevKs"
    assert len({*ids}) == 5
    assert all(len(id_) == 9 and id_.isalnum() for id_ in ids)


def test_name_is_limited_to_the_characters_and_length_of_a_provider() -> None:
    assert sanitize_name("a/b c-d_1é", 64) == "a_b_c-d_1_"
    assert sanitize_name("abc", 2) == "ab"
    assert encode_tool_call(call("c", name=""), CallIds(64), 64).name == "unknown"
    assert encode_tool_call(call("c", name="x" * 65), CallIds(64), 64).name == "x" * 64


def test_parts_and_calls_keep_their_order() -> None:
    items: list[Part | ToolCall] = [TextPart("one"), call("c1"), TextPart("two"), call("c2")]
    message = build_assistant_message(items)
    assert [*iter_items(message)] == items
    assert message.content == [
        TextPart("one"),
        ToolCallSlot("c1"),
        TextPart("two"),
        ToolCallSlot("c2"),
    ]


def test_calls_behind_all_parts_need_no_slots() -> None:
    message = build_assistant_message([TextPart("one"), call("c1"), call("c2")])
    assert message.content == "one"
    assert [item.id for item in iter_items(message) if isinstance(item, ToolCall)] == ["c1", "c2"]


def test_calls_that_share_an_id_follow_all_parts() -> None:
    message = build_assistant_message([call("c1"), TextPart("one"), call("c1")])
    assert message.content == "one"
    assert message.tool_calls == [call("c1"), call("c1")]
