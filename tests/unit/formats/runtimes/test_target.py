"""Blocks of another provider, as text for a runtime that does not know them."""

from __future__ import annotations

import pytest

from harken.core.messages import Message, TextPart, UnknownPart
from harken.formats.base import ConversationEntry
from harken.formats.runtimes.target import (
    MAX_FOREIGN_BLOCK_CHARS,
    describe_foreign_block,
    has_metadata,
)


@pytest.mark.parametrize("excess", [0, 1])
def test_block_is_shown_up_to_a_length(excess: int) -> None:
    data = "x" * (MAX_FOREIGN_BLOCK_CHARS + excess)
    text = describe_foreign_block(UnknownPart("search", data)).text
    assert text == (
        "[a block of the kind 'search' that cannot be shown]" if excess else f"[search] {data}"
    )


def test_encrypted_block_is_not_shown() -> None:
    text = describe_foreign_block(UnknownPart("reasoning", '{"encrypted_content":"x"}')).text
    assert text == "[a block of the kind 'reasoning' that cannot be shown]"


def test_kind_is_limited_and_on_one_line() -> None:
    kind = "k\n" * MAX_FOREIGN_BLOCK_CHARS
    text = describe_foreign_block(UnknownPart(kind, "encrypted")).text
    assert "\n" not in text
    assert text.count("k\\n") == MAX_FOREIGN_BLOCK_CHARS // 2


def test_metadata_of_a_runtime_is_found_in_the_source_and_in_parts() -> None:
    part = TextPart("a", meta={"pi": {}})
    assert has_metadata(ConversationEntry(Message("user", "a"), source={"pi": {}}), "pi")
    assert has_metadata(ConversationEntry(Message("user", [part])), "pi")
    assert not has_metadata(ConversationEntry(Message("user", [part])), "codex")
    assert not has_metadata(ConversationEntry(Message("user", "pi")), "pi")
