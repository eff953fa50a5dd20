"""The blocks and the usage of a streamed answer of Anthropic's Messages API."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from harken.core.events import Usage
from harken.core.messages import Content, ImagePart, ThinkingPart, UnknownPart
from harken.core.stream import StreamAccumulator
from harken.formats.providers.anthropic_stream import AnthropicStreamDecoder, build_usage


def content_blocks(*blocks: dict[str, Any]) -> list[Any]:
    """Return the events of an answer with these blocks, without its begin and end."""
    events: list[Any] = []
    for index, block in enumerate(blocks):
        events += [
            {"type": "content_block_start", "index": index, "content_block": block},
            {"type": "content_block_stop", "index": index},
        ]
    return events


def decode(events: Iterable[Any]) -> Content:
    """Return the content of the message that the model `m` streamed."""
    decoder, draft = AnthropicStreamDecoder("m"), StreamAccumulator()
    for event in events:
        for chunk in decoder.iter_chunks(event):
            draft.add(chunk)
    return draft.message().content


def test_only_thinking_names_its_model() -> None:
    """A provider reads the thinking of the same model only, and every other block as it is."""
    image = {"type": "base64", "media_type": "image/png", "data": "aGk="}
    content = decode(
        content_blocks(
            {"type": "redacted_thinking", "data": "x"},
            {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}},
            {"type": "image", "source": image},
            {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
        )
    )
    assert isinstance(content, list)
    redacted, tool, image_part, thought = content
    assert isinstance(redacted, UnknownPart)
    assert isinstance(tool, UnknownPart)
    assert redacted.meta == {"model": "m"}
    assert tool.meta is None
    assert image_part == ImagePart("image/png", "aGk=")
    assert thought == ThinkingPart("hm", {"signature": "c2ln", "model": "m"})


def test_blocks_without_content_leave_no_part() -> None:
    events = content_blocks({"type": "text", "text": ""}, {"type": "thinking", "thinking": ""})
    assert decode(events) is None
    signed = content_blocks({"type": "thinking", "thinking": "", "signature": "c2ln"})
    assert decode(signed) == [ThinkingPart("", {"signature": "c2ln", "model": "m"})]


def test_part_after_a_call_keeps_its_place() -> None:
    events = content_blocks(
        {"type": "text", "text": "one"},
        {"type": "tool_use", "id": "c1", "name": "look", "input": {}},
        {"type": "redacted_thinking", "data": "x"},
        {"type": "tool_use", "id": "c2", "name": "look", "input": {}},
    )
    content = decode(events)
    assert isinstance(content, list)
    assert [getattr(part, "id", "") for part in content] == ["", "c1", "", "c2"]


@pytest.mark.parametrize(
    ("usage", "read_as"),
    [
        ({}, None),
        ({"input_tokens": 3}, Usage(input_tokens=3)),
        ({"output_tokens": 3}, Usage(output_tokens=3)),
        (
            {"input_tokens": 1, "cache_read_input_tokens": 2, "cache_creation_input_tokens": 4},
            Usage(input_tokens=7, cache_read_tokens=2, cache_write_tokens=4),
        ),
        ({"cache_read_input_tokens": 2}, Usage(cache_read_tokens=2)),
    ],
)
def test_input_tokens_include_the_cached_part(usage: dict[str, int], read_as: Usage | None) -> None:
    assert build_usage(usage) == read_as


@pytest.mark.parametrize(
    ("usage", "is_unusual"),
    [
        ({}, False),
        ({"cache_creation": {"ephemeral_1h_input_tokens": 0}}, False),
        ({"cache_creation": {"ephemeral_1h_input_tokens": 1}}, True),
        ({"server_tool_use": {"web_search_requests": 0}}, False),
        ({"server_tool_use": {"web_search_requests": 1}}, True),
        ({"server_tool_use": {"web_search_requests": "many"}}, False),
        ({"service_tier": "standard"}, False),
        ({"service_tier": "priority"}, True),
        ({"speed": "standard"}, False),
        ({"speed": "fast"}, True),
        ({"inference_geo": "global"}, False),
        ({"inference_geo": "not_available"}, False),
        ({"inference_geo": ""}, False),
        ({"inference_geo": "eu"}, True),
    ],
)
def test_usage_beyond_the_usual_rates_is_noted(usage: dict[str, Any], is_unusual: bool) -> None:
    decoder = AnthropicStreamDecoder()
    list(decoder.iter_chunks({"type": "message_start", "message": {"model": "m", "usage": usage}}))
    list(decoder.iter_chunks({"type": "message_delta", "delta": {}, "usage": {"output_tokens": 1}}))
    assert decoder.is_unusual is is_unusual


@pytest.mark.parametrize(
    ("events", "reason"),
    [
        ([], None),
        ([{"type": "message_stop"}], "end_turn"),
        ([{"type": "message_delta", "delta": {"stop_reason": "max_tokens"}}], "max_tokens"),
        ([{"type": "message_delta", "delta": {"stop_reason": ""}}], None),
        (
            [
                *content_blocks({"type": "tool_use", "id": "c1", "name": "look", "input": {}}),
                {"type": "message_stop"},
            ],
            "tool_use",
        ),
    ],
)
def test_answer_ends_with_a_stop_reason_or_its_last_event(
    events: list[Any], reason: str | None
) -> None:
    decoder = AnthropicStreamDecoder()
    for event in events:
        list(decoder.iter_chunks(event))
    finish = decoder.finish()
    assert (None if finish is None else finish.stop_reason) == reason


def test_calls_without_an_id_are_numbered() -> None:
    decoder, draft = AnthropicStreamDecoder(), StreamAccumulator()
    tool = {"type": "tool_use", "name": "look", "input": {}}
    for event in content_blocks(tool, {**tool, "id": "c1"}, tool):
        for chunk in decoder.iter_chunks(event):
            draft.add(chunk)
    assert [call.id for call in draft.message().tool_calls or ()] == ["call_0", "c1", "call_2"]
