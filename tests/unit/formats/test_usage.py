"""Usage whose cost does not follow from its tokens is marked."""

from __future__ import annotations

from typing import Any

import pytest

from harken.formats.providers import anthropic_stream, openai_chat_stream


@pytest.mark.parametrize(
    ("usage", "unusual"),
    [
        ({"service_tier": "standard", "inference_geo": "global", "speed": "standard"}, False),
        (
            {"cache_creation": {"ephemeral_5m_input_tokens": 9, "ephemeral_1h_input_tokens": 0}},
            False,
        ),
        ({"cache_creation": {"ephemeral_1h_input_tokens": 9}}, True),
        ({"server_tool_use": {"web_search_requests": 1}}, True),
        ({"server_tool_use": {"web_search_requests": 0}}, False),
        ({"service_tier": "priority"}, True),
        ({"speed": "fast"}, True),
        ({"inference_geo": "us"}, True),
    ],
)
def test_usage_that_is_billed_differently_is_marked(usage: Any, unusual: bool) -> None:
    decoder = anthropic_stream.AnthropicStreamDecoder()
    list(decoder.iter_chunks({"type": "message_start", "message": {"usage": usage}}))
    assert decoder.is_unusual is unusual


@pytest.mark.parametrize(("tier", "unusual"), [("default", False), (None, False), ("flex", True)])
def test_other_service_tier_is_marked(tier: str | None, unusual: bool) -> None:
    decoder = openai_chat_stream.OpenAIStreamDecoder()
    list(decoder.iter_chunks({"choices": [], "service_tier": tier}))
    assert decoder.is_unusual is unusual
