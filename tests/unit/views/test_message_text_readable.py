from __future__ import annotations

import pytest

from harken.core.messages import Content, TextPart, ThinkingPart, ToolCallSlot, UnknownPart
from harken.views.message_text import has_same_text, readable_text


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (None, ""),
        ("Hi", "Hi"),
        ([TextPart("a"), ThinkingPart("b"), ToolCallSlot("c"), TextPart("d")], "a\n\nd"),
        ([UnknownPart("document", "{}")], "[document]"),
    ],
)
def test_readable_text_of_a_message(content: Content, expected: str) -> None:
    assert readable_text(content) == expected


def test_text_as_a_string_and_as_a_part_is_equal() -> None:
    assert has_same_text("Hi", [TextPart("Hi"), ThinkingPart("hm")])


def test_two_labelled_versions_are_equal_for_any_label() -> None:
    assert has_same_text("[Jack]: Hi", "[Jack whispers]: Hi", ["Jack"])
    assert not has_same_text("[Jack]: Hi", "[Jack]: Ho", ["Jack"])


def test_label_written_by_the_author_belongs_to_the_text() -> None:
    assert has_same_text("[Jack]: [Jack]: Hi", "[Jack]: Hi", ["Jack"])
    assert not has_same_text("[REDACTED]: Hi", "Hi", ["Jack"])
