"""A streamed response has the same message ids as the complete response with the same content."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from harken.core.messages import Message, TextPart, UnknownPart, message_hash
from harken.core.stream import ExtraDelta, StreamAccumulator, TextDelta, ToolCallDelta, iter_chunks
from harken.formats.providers import anthropic, openai_chat
from harken.formats.providers.anthropic_stream import AnthropicStreamDecoder
from harken.formats.providers.openai_chat_stream import OpenAIStreamDecoder, merge_members
from harken.formats.wire import anthropic as anthropic_wire
from harken.formats.wire import openai_chat as chat_wire
from harken.formats.wire import openai_responses as responses_wire
from harken.formats.wire.base import Protocol
from tests.unit.formats.wire.stream_kit import decode_stream, encode_stream

CITATION = {"type": "char_location", "cited_text": "a door", "start_char_index": 1}
ANNOTATION = {"type": "url_citation", "url_citation": {"url": "https://a", "start_index": 0}}
URL = {"type": "url_citation", "url": "https://a", "start_index": 0}


def wire_ids(protocol: Protocol, data: bytes) -> list[str]:
    """Return the ids of the messages of a response that was recorded."""
    response = decode_stream(protocol, data)
    assert response.finish is not None
    messages = [message for piece in response.pieces for message in protocol.read(piece)[0]]
    return [message_hash(message) for message in messages]


def decode(decoder: Any, events: Iterable[Any]) -> Message:
    draft = StreamAccumulator()
    for event in events:
        for chunk in decoder.iter_chunks(event):
            draft.add(chunk)
    assert decoder.finish() is not None
    return draft.message()


def anthropic_events(*blocks: tuple[dict[str, Any], Sequence[dict[str, Any]]]) -> list[Any]:
    """Return the events of blocks, each a start and its deltas."""
    events: list[Any] = [{"type": "message_start", "message": {"id": "m", "model": "c"}}]
    for index, (start, deltas) in enumerate(blocks):
        place = {"index": index}
        events.append({"type": "content_block_start", **place, "content_block": start})
        events += [{"type": "content_block_delta", **place, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", **place})
    end = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}
    return [*events, end, {"type": "message_stop"}]


ANTHROPIC_EVENTS = anthropic_events(
    (
        {"type": "thinking", "thinking": "", "signature": "", "x_new": 1},
        [
            {"type": "thinking_delta", "thinking": "Hm."},
            {"type": "signature_delta", "signature": "c2ln"},
        ],
    ),
    (
        {"type": "text", "text": "", "citations": []},
        [
            {"type": "text_delta", "text": "It is "},
            {"type": "citations_delta", "citation": CITATION},
            {"type": "text_delta", "text": "a door."},
            {"type": "citations_delta", "citation": {**CITATION, "start_char_index": 2}},
        ],
    ),
    ({"type": "text", "text": "", "citations": []}, [{"type": "text_delta", "text": "Open."}]),
    (
        {"type": "tool_use", "id": "t", "name": "look", "input": {}, "x_new": [1]},
        [{"type": "input_json_delta", "partial_json": '{"at":1}'}],
    ),
)
ANTHROPIC_BODY = {
    "id": "m",
    "model": "c",
    "stop_reason": "end_turn",
    "content": [
        {"type": "thinking", "thinking": "Hm.", "signature": "b3RoZXI=", "x_new": 1},
        {
            "type": "text",
            "text": "It is a door.",
            "citations": [CITATION, {**CITATION, "start_char_index": 2}],
        },
        {"type": "text", "text": "Open.", "citations": None},
        {"type": "tool_use", "id": "u", "name": "look", "input": {"at": 1}, "x_new": [1]},
    ],
}


def test_citations_of_anthropic_are_content() -> None:
    protocol = anthropic_wire.PROTOCOL
    complete = wire_ids(protocol, json.dumps(ANTHROPIC_BODY).encode())
    assert wire_ids(protocol, encode_stream(*ANTHROPIC_EVENTS)) == complete
    message = decode(AnthropicStreamDecoder(), ANTHROPIC_EVENTS)
    assert [message_hash(message)] == complete
    assert message_hash(anthropic.parse_response_message(ANTHROPIC_BODY)) == complete[0]
    other = json.loads(json.dumps(ANTHROPIC_BODY).replace('"start_char_index": 2', '"x": 2'))
    assert wire_ids(protocol, json.dumps(other).encode()) != complete


def chat_events(*deltas: dict[str, Any]) -> list[Any]:
    events = [{"id": "r", "choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    end = {"id": "r", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    return [*events, end, "[DONE]"]


def chat_body(**message: Any) -> dict[str, Any]:
    choice = {"message": {"role": "assistant", **message}, "finish_reason": "stop"}
    return {"id": "r", "choices": [choice]}


CHATS: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "annotations": (
        chat_events(
            {"role": "assistant", "content": "It is "},
            {"content": "a door.", "annotations": [ANNOTATION]},
            {"annotations": [{**ANNOTATION, "x": 1}]},
        ),
        chat_body(
            content="It is a door.", refusal=None, annotations=[ANNOTATION, {**ANNOTATION, "x": 1}]
        ),
    ),
    "annotations after thinking": (
        chat_events(
            {"role": "assistant", "reasoning_content": "Hm."},
            {"content": "A door.", "annotations": [ANNOTATION]},
        ),
        chat_body(content="A door.", reasoning_content="Hm.", annotations=[ANNOTATION]),
    ),
    "unknown members": (
        chat_events(
            {"content": "A", "audio": {"id": "a", "transcript": "A "}},
            {"audio": {"transcript": "door", "expires_at": 5}, "x_new": {"a": 1}},
        ),
        chat_body(
            content="A",
            audio={"id": "a", "transcript": "A door", "expires_at": 5},
            x_new={"a": 1},
        ),
    ),
    "only annotations": (
        chat_events({"annotations": [ANNOTATION]}),
        chat_body(content=None, annotations=[ANNOTATION]),
    ),
    "two members of thinking": (
        chat_events(
            {"reasoning_content": "Hm", "reasoning": "Hm"},
            {"reasoning_content": ".", "reasoning": "."},
            {"content": "A door."},
        ),
        chat_body(content="A door.", reasoning_content="Hm.", reasoning="Hm."),
    ),
}


@pytest.mark.parametrize("name", CHATS)
def test_members_of_a_chat_answer_are_content(name: str) -> None:
    events, body = CHATS[name]
    complete = wire_ids(chat_wire.PROTOCOL, json.dumps(body).encode())
    assert wire_ids(chat_wire.PROTOCOL, encode_stream(*events)) == complete
    assert message_hash(openai_chat.parse_response_message(body)) == complete[0]
    assert message_hash(decode(OpenAIStreamDecoder(), events)) == complete[0]


RECORDED: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "refusal": (
        chat_events({"role": "assistant", "refusal": "I "}, {"refusal": "cannot."}),
        chat_body(content=None, refusal="I cannot."),
    ),
    "thinking between texts": (
        chat_events({"reasoning": "a"}, {"content": "b"}, {"reasoning": "c"}, {"content": "d"}),
        chat_body(content="bd", reasoning="ac"),
    ),
    "blocks": (
        chat_events(
            {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "H"}]}]},
            {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "m"}]}]},
            {"content": "A door"},
            {"content": [{"type": "reference", "reference_ids": [1]}]},
        ),
        chat_body(
            content=[
                {"type": "thinking", "thinking": [{"type": "text", "text": "Hm"}]},
                {"type": "text", "text": "A door"},
                {"type": "reference", "reference_ids": [1]},
            ]
        ),
    ),
    "members of a call": (
        chat_events(
            {
                "tool_calls": [
                    {
                        "index": 0,
                        "id": "c",
                        "type": "function",
                        "x_new": 1,
                        "function": {"name": "look", "arguments": "{", "x_in": "a"},
                    }
                ]
            },
            {"tool_calls": [{"index": 0, "function": {"arguments": "}", "x_in": "b"}}]},
        ),
        chat_body(
            content=None,
            tool_calls=[
                {
                    "id": "d",
                    "type": "function",
                    "x_new": 1,
                    "function": {"name": "look", "arguments": "{}", "x_in": "ab"},
                }
            ],
        ),
    ),
}


@pytest.mark.parametrize("name", RECORDED)
def test_streamed_chat_answer_is_recorded_as_a_complete_one(name: str) -> None:
    events, body = RECORDED[name]
    ids = wire_ids(chat_wire.PROTOCOL, json.dumps(body).encode())
    assert wire_ids(chat_wire.PROTOCOL, encode_stream(*events)) == ids


def test_block_of_an_unknown_type_is_a_part() -> None:
    events, _ = RECORDED["blocks"]
    content = decode(OpenAIStreamDecoder(), events).content
    assert isinstance(content, list)
    assert content[-1] == UnknownPart("reference", '{"type":"reference","reference_ids":[1]}')


def responses_body(**block: Any) -> dict[str, Any]:
    text = {"type": "output_text", "text": "A door.", **block}
    item = {"type": "message", "id": "m", "role": "assistant", "content": [text]}
    return {"id": "r", "object": "response", "status": "completed", "output": [item]}


@pytest.mark.parametrize("is_in_item", [True, False])
def test_annotations_of_responses_are_content(is_in_item: bool) -> None:
    body = responses_body(annotations=[URL, {**URL, "start_index": 5}])
    item = (body if is_in_item else responses_body(annotations=[]))["output"][0]
    place = {"output_index": 0, "content_index": 0}
    added = {"type": "response.output_text.annotation.added", **place}
    events = [
        {"type": "response.created", "response": {"id": "r", "status": "in_progress"}},
        {"type": "response.output_text.delta", **place, "delta": "A door."},
        {**added, "annotation_index": 0, "annotation": URL},
        {**added, "annotation_index": 1, "annotation": {**URL, "start_index": 5}},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": {"id": "r", "status": "completed"}},
    ]
    complete = wire_ids(responses_wire.PROTOCOL, json.dumps(body).encode())
    assert wire_ids(responses_wire.PROTOCOL, encode_stream(*events)) == complete
    without = wire_ids(responses_wire.PROTOCOL, json.dumps(responses_body()).encode())
    assert complete != without


def test_chunks_of_a_message_with_extra_are_that_message() -> None:
    parts = [TextPart("One.", extra='{"x":1}'), TextPart("Two."), TextPart("", extra='{"y":1}')]
    message = Message("assistant", [*parts])
    draft = StreamAccumulator()
    for chunk in iter_chunks(message):
        draft.add(chunk)
    assert draft.message() == message


def test_content_of_the_message_is_in_its_first_part_or_call() -> None:
    members = {"message": {"x": 1}}
    for chunks in ([TextDelta("a"), TextDelta("b")], [ToolCallDelta(0, "{}", "c", "f")], []):
        draft = StreamAccumulator()
        for chunk in (ExtraDelta(members), *chunks):
            draft.add(chunk)
        message = draft.message()
        first = message.content[0] if isinstance(message.content, list) else None
        extra = first.extra if isinstance(first, TextPart) else (message.tool_calls or [])[0].extra
        assert extra == '{"message":{"x":1}}'


def test_members_of_a_stream_are_continued() -> None:
    pieces: list[dict[str, Any]] = [
        {"list": [1], "text": "a", "inner": {"list": ["x"], "text": "b"}, "id": "i", "none": 1},
        {"list": [2, 3], "text": "c", "inner": {"list": ["y"], "text": "d"}, "id": "i"},
        {"list": None, "text": [4], "new": "n", "none": None},
    ]
    merged: dict[str, Any] = {}
    for piece in pieces:
        merged = merge_members(merged, piece)
    assert merged == {
        "list": [1, 2, 3],
        "text": [4],
        "inner": {"list": ["x", "y"], "text": "bd"},
        "id": "i",
        "none": 1,
        "new": "n",
    }
