"""Messages of one client in the shape of another one: the form of their own shape is left out."""

from __future__ import annotations

from typing import Any

import pytest

from harken.errors import FormatError
from harken.formats.client_messages import messages_in, messages_out

CACHED: dict[str, Any] = {
    "role": "user",
    "content": [{"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral"}}],
}
RESULTS: dict[str, Any] = {
    "role": "user",
    "content": [
        {"type": "tool_result", "tool_use_id": "a", "content": "one"},
        {"type": "tool_result", "tool_use_id": "b", "content": "two"},
    ],
}


@pytest.mark.parametrize(
    ("shape", "value"),
    [
        ("anthropic-messages", CACHED),
        ("openai-chat", {"role": "user", "content": "Hi"}),
        ("gemini", {"role": "user", "parts": [{"text": "Hi"}]}),
        ("ollama", {"role": "user", "content": "Hi"}),
        ("messages-v1", {"role": "user", "content": "Hi"}),
    ],
)
def test_form_of_a_client_is_that_of_its_own_shape(shape: Any, value: dict[str, Any]) -> None:
    assert messages_out(messages_in([CACHED], shape="anthropic-messages"), shape) == [value]


def test_value_of_several_messages_is_one_value_in_its_own_shape() -> None:
    messages = messages_in(RESULTS, shape="anthropic-messages")
    assert len(messages) == 2
    assert messages_out(messages, "anthropic-messages") == [RESULTS]
    assert len(messages_out(messages, "openai-chat")) == 2
    with pytest.raises(FormatError, match="a value of 2 messages is incomplete"):
        messages_out(messages[:1], "anthropic-messages")


def test_unknown_shape_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"one of anthropic-messages, .*, not 'telegram'"):
        messages_out([], "telegram")
