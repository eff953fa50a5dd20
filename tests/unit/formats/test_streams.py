"""Both stream decoders return the same answer for each split of the stream."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harken.core.events import Usage
from harken.core.messages import (
    ContentPart,
    FunctionCall,
    Message,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolCallSlot,
    UnknownPart,
    message_hash,
)
from harken.core.stream import Chunk, Finish, StreamAccumulator, ToolCallDelta
from harken.formats.providers import anthropic_stream, openai_chat_stream
from harken.formats.providers.sse import EventReader
from tests.provider.wire import ANTHROPIC, OPENAI, anthropic_events
from tests.unit.formats.context_kit import WORDS

LOOK = ToolCall("c1", FunctionCall("look", '{"at":"the door"}'))
WAIT = ToolCall("c2", FunctionCall("wait", "{}"))
THOUGHT = ThinkingPart("Who is it?", {"signature": "c2lnbg=="})
REDACTED = UnknownPart("redacted_thinking", '{"type":"redacted_thinking","data":"x"}')


def anthropic_chunks(events: Iterable[Any]) -> list[Chunk]:
    return _decode_all(anthropic_stream.AnthropicStreamDecoder(), events)


def openai_chunks(events: Iterable[Any], model: str | None = None) -> list[Chunk]:
    return _decode_all(openai_chat_stream.OpenAIStreamDecoder(model=model), events)


def _decode_all(decoder: Any, events: Iterable[Any]) -> list[Chunk]:
    chunks: list[Chunk] = [chunk for event in events for chunk in decoder.iter_chunks(event)]
    finish = decoder.finish()
    return [*chunks, finish] if finish else chunks


def accumulate(chunks: Sequence[Chunk]) -> StreamAccumulator:
    draft = StreamAccumulator()
    for chunk in chunks:
        draft.add(chunk)
    return draft


def accumulate_parts(chunks: Sequence[Chunk]) -> list[ContentPart]:
    """Return the parts of the accumulated message."""
    content = accumulate(chunks).message().content
    assert isinstance(content, list)
    return content


def read_events(stream: bytes) -> list[Any]:
    """Return the events in a stream of bytes."""
    reader = EventReader()
    events = [*reader.feed(stream), *reader.end()]
    return [e.data.decode() if e.data == b"[DONE]" else json.loads(e.data) for e in events]


def decode_answer(wire: Any, message: Message, **additional: Any) -> list[Any]:
    return read_events(b"".join(wire.events(message, **additional)))


PARTS = st.lists(
    st.builds(TextPart, WORDS)
    | st.just(THOUGHT)
    | st.just(ThinkingPart("unsigned"))
    | st.just(REDACTED),
    max_size=4,
)


@given(PARTS, st.lists(st.integers(0, 4), max_size=3))
def test_anthropic_decoder_returns_the_streamed_message(
    parts: list[Any], places: list[int]
) -> None:
    """Parts, signatures and calls, in their positions."""
    calls = [ToolCall(f"c{index}", FunctionCall("look", '{"n":1}')) for index in range(len(places))]
    for call, place in zip(calls, sorted(places, reverse=True), strict=True):
        parts.insert(place, ToolCallSlot(call.id))
    message = Message("assistant", parts, calls or None)
    chunks = anthropic_chunks(decode_answer(ANTHROPIC, message))
    assert message_hash(accumulate(chunks).message()) == message_hash(message)
    assert _metas(accumulate(chunks).message()) == _metas(message)


def _metas(message: Message) -> list[Any]:
    content = message.content if isinstance(message.content, list) else []
    return [part.meta for part in content if isinstance(part, ThinkingPart)]


@given(WORDS, st.booleans(), st.lists(st.sampled_from([LOOK, WAIT]), unique_by=id, max_size=2))
def test_openai_decoder_returns_the_streamed_message(
    text: str, thinks: bool, calls: list[ToolCall]
) -> None:
    thought = [ThinkingPart("Hm.")] if thinks else []
    message = Message("assistant", [*thought, TextPart(text)], calls or None)
    chunks = openai_chunks(decode_answer(OPENAI, message))
    assert message_hash(accumulate(chunks).message()) == message_hash(message)


def test_cached_tokens_are_part_of_the_input_tokens() -> None:
    usage = Usage(100, 7, cache_read_tokens=60, cache_write_tokens=30)
    for wire, decode in ((ANTHROPIC, anthropic_chunks), (OPENAI, openai_chunks)):
        finish = decode(decode_answer(wire, Message("assistant", "Hi"), usage=usage))[-1]
        assert isinstance(finish, Finish)
        assert finish.usage == usage


@pytest.mark.parametrize("wire", [ANTHROPIC, OPENAI])
def test_interrupted_stream_has_no_finish(wire: Any) -> None:
    events = decode_answer(wire, Message("assistant", "Hello, you.", [LOOK]))
    decode = anthropic_chunks if wire is ANTHROPIC else openai_chunks
    ends = [event for event in events if _ends(event)]
    for size in range(events.index(ends[0])):
        assert not any(isinstance(chunk, Finish) for chunk in decode(events[:size]))


def _ends(event: Any) -> bool:
    if event == "[DONE]" or event.get("type") == "message_delta":
        return True
    return any(choice["finish_reason"] for choice in event.get("choices", ()))


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=4),
        lambda inner: (
            st.lists(inner, max_size=2)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "type",
                        "index",
                        "delta",
                        "text",
                        "content_block",
                        "name",
                        "id",
                        "message",
                        "usage",
                        "choices",
                        "content",
                        "tool_calls",
                        "function",
                        "arguments",
                        "finish_reason",
                        "reasoning_content",
                    ]
                ),
                inner
                | st.sampled_from(
                    ["text_delta", "content_block_start", "content_block_delta", "message_delta"]
                ),
                max_size=4,
            )
        ),
        max_leaves=10,
    )
)
def test_any_stream_becomes_chunks_or_a_value_error(event: Any) -> None:
    for decode in (anthropic_chunks, openai_chunks):
        with suppress(ValueError):
            decode([event, event])


# Anthropic


def test_data_after_the_end_is_ignored() -> None:
    """Some servers of this protocol send the end marker of the other one too."""
    decoder = anthropic_stream.AnthropicStreamDecoder()
    for event in anthropic_events(Message("assistant", "Hi.")):
        list(decoder.iter_chunks(event))
    assert list(decoder.iter_chunks("[DONE]")) == []


def test_two_consecutive_texts_stay_two_parts() -> None:
    message = Message("assistant", [TextPart("one"), TextPart("two")])
    assert accumulate(anthropic_chunks(decode_answer(ANTHROPIC, message))).message() == message


def test_text_may_arrive_in_the_start_of_its_block() -> None:
    start = {"type": "content_block_start", "content_block": {"type": "text", "text": "Hi."}}
    assert accumulate(anthropic_chunks([start, {"type": "content_block_stop"}])).text == "Hi."


def test_invalid_counts_are_ignored() -> None:
    used = {"input_tokens": 9, "output_tokens": None, "cache_read_input_tokens": True}
    for usage, read_as in ((used, Usage(9)), (None, None), ({}, None)):
        finish = anthropic_chunks([{"type": "message_delta", "delta": {}, "usage": usage}, STOP])[
            -1
        ]
        assert isinstance(finish, Finish)
        assert (finish.usage, finish.stop_reason) == (read_as, "end_turn")


STOP = {"type": "message_stop"}


@pytest.mark.parametrize(
    "event",
    [
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "x"}},
        {"type": "content_block_start", "content_block": {"type": "text", "text": 7}},
        {"type": "content_block_start", "content_block": {"type": "tool_use", "id": "c"}},
        {"type": "message_start", "message": {"model": 7}},
        {"choices": [{"delta": {"content": [{"text": 5}]}}]},
        {"choices": [{"delta": {"tool_calls": [{"id": 7}]}}]},
        {"choices": [{"delta": {"reasoning_details": [7]}}]},
        {"choices": [{"delta": {"reasoning_details": [{"type": 7}]}}]},
        {"choices": 7},
        [],
        7,
        None,
    ],
)
def test_malformed_event_raises_value_error(event: Any) -> None:
    decode = openai_chunks if isinstance(event, dict) and "choices" in event else anthropic_chunks
    with pytest.raises(ValueError, match="an event without sense"):
        decode([event])


def test_complete_arguments_may_arrive_in_the_start_of_a_call() -> None:
    block = {"type": "tool_use", "id": "c1", "name": "look", "input": {"at": "it"}}
    events = [
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_stop", "index": 0},
    ]
    calls = accumulate(anthropic_chunks(events)).message().tool_calls
    assert calls == [ToolCall("c1", FunctionCall("look", '{"at":"it"}'))]


def test_call_without_arguments_has_an_empty_object() -> None:
    message = Message("assistant", None, [ToolCall("c1", FunctionCall("look", ""))])
    calls = accumulate(anthropic_chunks(decode_answer(ANTHROPIC, message))).message().tool_calls
    assert calls == [ToolCall("c1", FunctionCall("look", "{}"))]


def test_citations_are_kept_with_their_text() -> None:
    cited = {"type": "citations_delta", "citation": {"url": "https://example.org"}}
    events = [
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "So."}},
        {"type": "content_block_delta", "index": 0, "delta": cited},
        {"type": "content_block_stop", "index": 0},
    ]
    [part] = accumulate_parts(anthropic_chunks(events))
    assert part == TextPart("So.", extra='{"citations":[{"url":"https://example.org"}]}')


def test_block_of_unknown_kind_is_kept_unchanged() -> None:
    block = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}
    piece = {"type": "input_json_delta", "partial_json": '{"query":"x"}'}
    events = [
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": piece},
        {"type": "content_block_stop", "index": 0},
        {"type": "hologram", "of": "a future version"},
    ]
    [part] = accumulate_parts(anthropic_chunks(events))
    assert isinstance(part, UnknownPart)
    assert json.loads(part.data) == {**block, "input": {"query": "x"}}


# OpenAI and compatible servers


def choice(delta: Any = None, reason: str | None = None) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta or {}, "finish_reason": reason}]}


def calls(*pieces: Any) -> dict[str, Any]:
    return choice({"tool_calls": [*pieces]})


def function(name: str | None = None, arguments: Any = "", **options: Any) -> dict[str, Any]:
    return {"function": {"name": name, "arguments": arguments}, **options}


def decode_call(*events: Any) -> list[tuple[str, str, str]]:
    message = accumulate(openai_chunks(events)).message()
    return [(c.id, c.function.name, c.function.arguments) for c in message.tool_calls or ()]


@pytest.mark.parametrize(
    "events",
    [
        pytest.param(
            [
                calls(function("a", "{}", id="x", index=0)),
                calls(function("b", "{}", id="y", index=1)),
            ],
            id="whole, as they should be",
        ),
        pytest.param(
            [calls(function("a", "{}", id="x", index=0), function("b", "{}", id="y", index=1))],
            id="whole, in one event",
        ),
        pytest.param(
            [
                calls(function("a", "{}", id="x", index=0)),
                calls(function("b", "{}", id="y", index=0)),
            ],
            id="all with index 0",
        ),
        pytest.param(
            [
                calls(function("a", "{", id="x")),
                calls(function(None, "}")),
                calls(function("b", "{}", id="y")),
            ],
            id="without index",
        ),
        pytest.param(
            [
                calls(function("a", "{", id="x", index=0)),
                calls(function("a", "}", id="x", index=0)),
                calls(function("b", None, id="y", index=1)),
                calls(function("b", "{}", id="y", index=1)),
            ],
            id="id and name each time",
        ),
        pytest.param(
            [
                calls(function("a", None, id="x", index=0)),
                calls(function(None, "{", id="new1", index=0)),
                calls(function(None, "}", id="new2", index=0)),
                calls(function("b", "{}", id="y", index=1)),
            ],
            id="an id of its own for each piece, as vLLM once did",
        ),
        pytest.param(
            [calls(function("a", {}, id="x", index=0)), calls(function("b", {}, id="y", index=1))],
            id="arguments that are no text",
        ),
    ],
)
def test_calls_are_separated_for_each_style_of_streaming(events: list[Any]) -> None:
    assert decode_call(*events) == [("x", "a", "{}"), ("y", "b", "{}")]


@pytest.mark.parametrize(
    "events",
    [
        pytest.param([calls(function("a", "{}")), calls(function("b", "{}"))], id="nothing"),
        pytest.param(
            [calls(function("a", "{}", index=0)), calls(function("b", "{}", index=0))],
            id="one index",
        ),
        pytest.param(
            [
                choice({"function_call": {"name": "a", "arguments": "{}"}}),
                calls(function("b", "{}")),
            ],
            id="the old form",
        ),
        pytest.param(
            [calls(function("a", "{}", id="", index=0), function("b", "{}", id=None, index=1))],
            id="empty ids",
        ),
    ],
)
def test_calls_without_ids_get_ids(events: list[Any]) -> None:
    assert decode_call(*events) == [("call_0", "a", "{}"), ("call_1", "b", "{}")]


def test_name_and_id_may_arrive_late_and_in_chunks() -> None:
    events = [
        calls(function("lo", index=0)),
        calls(function("ok", "{", index=0, id="x")),
        calls(function(None, "}", index=0)),
    ]
    assert decode_call(*events) == [("call_0", "look", "{}")]


def test_duplicate_call_ids_are_made_distinct() -> None:
    events = calls(function("a", "{}", id="x", index=0), function("b", "{}", id="x", index=1))
    assert decode_call(events) == [("x", "a", "{}"), ("call_1", "b", "{}")]


def test_call_of_a_custom_tool_has_free_text() -> None:
    piece = {"index": 0, "id": "x", "type": "custom", "custom": {"name": "patch", "input": "*** x"}}
    [chunk, arguments] = openai_chunks([calls(piece)])
    assert isinstance(chunk, ToolCallDelta)
    assert (chunk.type, arguments) == ("custom", ToolCallDelta(0, "*** x"))


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_thinking_is_decoded_under_each_name(name: str) -> None:
    events = [choice({name: "Hm"}), choice({name: "m."}), choice({"content": "Hi."}, "stop")]
    assert accumulate(openai_chunks(events)).message().content == [
        ThinkingPart("Hmm."),
        TextPart("Hi."),
    ]


def test_thinking_that_the_server_requires_back_names_its_model() -> None:
    for last in (choice({"content": "Hi."}), choice(reason="stop"), "[DONE]"):
        events = [choice({"reasoning_content": "Hmm.", "content": None}), last]
        first, *_ = accumulate_parts(openai_chunks(events, "deep-1"))
        assert first == ThinkingPart("Hmm.", {"reasoning_content": "deep-1"})


def test_signature_of_a_call_is_kept_with_its_provider() -> None:
    event = calls(function("a", "{}", id="x", index=0, extra_content={"google": "s"}))
    tool_calls = accumulate(openai_chunks([event], "gemini-3")).message().tool_calls
    meta = {"extra_content": {"gemini-3": {"google": "s"}}}
    assert tool_calls == [ToolCall("x", FunctionCall("a", "{}"), meta=meta)]


def test_text_may_arrive_in_blocks() -> None:
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "Hmm."}]}
    events = [choice({"content": [thinking, {"type": "text", "text": "Hi."}]})]
    assert accumulate(openai_chunks(events)).message().content == [
        ThinkingPart("Hmm."),
        TextPart("Hi."),
    ]


def test_refusal_is_text() -> None:
    assert accumulate(openai_chunks([choice({"refusal": "I will not."})])).text == "I will not."


USED = {"prompt_tokens": 9, "completion_tokens": 2}


@pytest.mark.parametrize(
    ("events", "reason"),
    [
        ([choice({"content": "Hi"}, "stop"), {"choices": [], "usage": USED}, "[DONE]"], "stop"),
        ([choice({"content": "Hi"}, "length")], "length"),
        ([choice({"content": "Hi"}), "[DONE]"], "stop"),
        ([choice({"content": "Hi"}), {"choices": [], "usage": USED}], "stop"),
        ([calls(function("a", "{}")), "[DONE]"], "tool_calls"),
    ],
)
def test_answer_is_complete_with_any_end_marker(events: list[Any], reason: str) -> None:
    finish = openai_chunks(events)[-1]
    assert isinstance(finish, Finish)
    assert finish.stop_reason == reason


@pytest.mark.parametrize(
    ("usage", "read_as"),
    [
        (None, None),
        (USED, Usage(9, 2)),
        ({**USED, "prompt_cache_hit_tokens": 4}, Usage(9, 2, 4)),
        ({**USED, "prompt_tokens_details": None}, Usage(9, 2)),
        ({"prompt_tokens": "many", "completion_tokens": -1}, Usage()),
        ({"prompt_tokens": 1 << 70, "completion_tokens": 10**400}, Usage()),
        # xAI counts thinking in addition to `completion_tokens`: 32 + 9 + 94
        ({"prompt_tokens": 32, "completion_tokens": 9, "total_tokens": 135}, Usage(32, 103)),
        ({"prompt_tokens": 32, "completion_tokens": 9, "total_tokens": 0}, Usage(32, 9)),
    ],
)
def test_usage_contains_only_valid_counts(usage: Any, read_as: Usage | None) -> None:
    finish = openai_chunks([{**choice(reason="stop"), "usage": usage}])[-1]
    assert isinstance(finish, Finish)
    assert finish.usage == read_as


def test_cost_reported_by_a_service_is_kept() -> None:
    finish = openai_chunks([{**choice(reason="stop"), "usage": {**USED, "cost": 0.25}}])[-1]
    assert isinstance(finish, Finish)
    assert finish.cost_usd == 0.25


def test_long_arguments_in_many_chunks_take_linear_time() -> None:
    """One copy of all previous text per chunk would be 200 GB here."""
    count = 20_000
    decoder = openai_chat_stream.OpenAIStreamDecoder()
    list(decoder.iter_chunks(calls(function("write", '"', id="x", index=0))))
    piece = calls(function(None, "a" * 1000, index=0))
    began_s = time.process_time()
    for _ in range(count):
        list(decoder.iter_chunks(piece))
    assert time.process_time() - began_s < 10
