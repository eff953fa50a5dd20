"""The text of a message is all its readable content, in any format."""

from __future__ import annotations

import pytest

from harken.core.commits import encode_entry
from harken.core.messages import (
    Content,
    FunctionCall,
    ImagePart,
    Message,
    TextPart,
    ThinkingPart,
    ToolCall,
    UnknownPart,
)
from harken.index.message_text import MessageText, decode_shape, extract_text, searchable_text


def extract(message: Message) -> MessageText:
    entry, objects = encode_entry(message)
    return extract_text(decode_shape(objects[entry.message]), objects)


def extract_call(arguments: str) -> str:
    call = ToolCall("c1", FunctionCall("Write", arguments))
    return searchable_text(extract(Message("assistant", None, [call])))


def test_texts_thoughts_and_images_are_counted_separately() -> None:
    content: Content = [ThinkingPart("hm"), TextPart("tea"), ImagePart("image/png", "AAAA")]
    message_text = extract(Message("assistant", content))
    assert (
        message_text.role,
        message_text.characters,
        message_text.thinking,
        message_text.images,
    ) == ("assistant", 3, 2, 1)
    assert searchable_text(message_text) == "hm\ntea"


def test_result_text_is_the_tool_output() -> None:
    message_text = extract(Message("tool", "no such door", tool_call_id="c1", is_error=True))
    assert (searchable_text(message_text), message_text.is_error, message_text.characters) == (
        "no such door",
        True,
        12,
    )


def test_argument_strings_and_their_keys_are_indexed() -> None:
    assert extract_call('{"path": "/cafe", "lines": [1, true, null, {"text": "a\\nb"}]}') == (
        "Write\npath\n/cafe\nlines\n1\ntext\na\nb"
    )


@pytest.mark.parametrize("arguments", ["not JSON", "", "[" * 100_000, "[" * 900 + "]" * 900])
def test_invalid_arguments_are_indexed_as_text(arguments: str) -> None:
    assert extract_call(arguments).startswith("Write")


def test_data_without_spaces_is_not_indexed() -> None:
    assert extract_call('{"data": "' + "QUJD" * 100 + '"}') == "Write\ndata"


def test_unknown_blocks_are_indexed() -> None:
    message_text = extract(Message("user", [UnknownPart("document", '{"title": "The cafe"}')]))
    assert searchable_text(message_text) == "title\nThe cafe"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("na\u00efve \u2713", "na\u00efve \u2713"),
        ("\u8336", " \u8336 "),
        ("\U00020000a", " \U00020000 a"),
        ("\U0001f375 tea", "\U0001f375 tea"),
        ("\ud800 tea", "? tea"),
        ("\ud800 \u8336", "?  \u8336 "),
    ],
)
def test_scripts_without_spaces_are_segmented(text: str, expected: str) -> None:
    assert searchable_text(MessageText("user", [text])) == expected


def test_missing_or_damaged_parts_are_skipped() -> None:
    entry, objects = encode_entry(Message("user", [TextPart("tea"), TextPart("milk")]))
    shape = decode_shape(objects[entry.message])
    del objects[shape.parts[0]]
    assert searchable_text(extract_text(shape, objects)) == "milk"
    assert searchable_text(extract_text(shape, {shape.parts[0]: b"[]", shape.parts[1]: b"{"})) == ""
