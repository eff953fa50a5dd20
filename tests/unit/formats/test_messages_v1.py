"""Conversations as the bodies of requests."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harken.core.messages import Message, split_occurrence
from harken.errors import FormatError
from harken.formats.base import ConversationEntry
from harken.formats.messages_v1 import FORMAT
from harken.formats.providers import anthropic, openai_chat
from harken.testing import plain_conversation
from tests.unit.formats.context_kit import ODD_CONTEXT, flatten, tidy_contexts


def encode_body(messages: list[Message]) -> bytes:
    assert FORMAT.writes
    data = FORMAT.writes([ConversationEntry(message) for message in messages])
    assert data is not None
    return data


def decode_body(data: bytes) -> list[Message]:
    assert FORMAT.reads
    return [entry.message for entry in FORMAT.reads(data)]


def test_file_contains_one_body_per_kind_of_provider() -> None:
    messages = [entry.message for entry in plain_conversation()]
    assert json.loads(encode_body(messages)) == {
        "anthropic": anthropic.build_request_body(messages),
        "openai": openai_chat.build_request_body(messages),
    }


@given(tidy_contexts())
def test_tidy_conversation_round_trips(context: list[Message]) -> None:
    user_message = [m for m in context if m.role == "system"] + [
        m for m in context if m.role != "system"
    ]
    repeated = decode_body(encode_body(context))
    if repeated[-1] == Message("user", "[nothing was said here]"):
        repeated.pop()  # A request ends with a user message.
    assert flatten(repeated) == flatten(user_message)


@given(ODD_CONTEXT)
def test_any_conversation_is_written(context: list[Message]) -> None:
    assert set(json.loads(encode_body(context))) == {"anthropic", "openai"}


NAMES = st.sampled_from(
    [
        "role",
        "content",
        "type",
        "text",
        "tool_calls",
        "id",
        "function",
        "name",
        "arguments",
        "input",
        "source",
        "url",
        "data",
        "thinking",
        "media_type",
        "system",
        "messages",
        "tool_use_id",
        "is_error",
        "image_url",
        "citations",
        "signature",
        "custom",
    ]
)
WORDS = st.sampled_from(
    [
        "assistant",
        "user",
        "tool",
        "system",
        "developer",
        "text",
        "thinking",
        "tool_use",
        "tool_result",
        "image",
        "base64",
        "function",
        "image_url",
        "custom",
        "refusal",
        "url",
    ]
)
ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | WORDS | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=5),
    max_leaves=30,
)


@given(st.sampled_from(["anthropic", "openai"]), st.lists(ODD, max_size=4), ODD)
def test_any_foreign_body_is_read(name: str, messages: list[Any], system: Any) -> None:
    data = json.dumps({name: {"messages": messages, "system": system}}).encode()
    for message in decode_body(data):
        split_occurrence(message)


def test_calls_that_share_an_id_are_read_as_calls() -> None:
    call = {"type": "tool_use", "id": "c", "name": "look", "input": {}}
    turn = {"role": "assistant", "content": [call, {"type": "text", "text": "so"}, call]}
    [message] = decode_body(json.dumps({"anthropic": {"messages": [turn]}}).encode())
    assert (message.content, len(message.tool_calls or ())) == ("so", 2)
    split_occurrence(message)


def test_one_body_alone_is_read() -> None:
    both = json.loads(encode_body([entry.message for entry in plain_conversation()]))
    for name, body in both.items():
        messages = decode_body(json.dumps({name: body}).encode())
        assert [message.role for message in messages] == [
            "user",
            "assistant",
            "tool",
            "assistant",
            "user",
        ]


@pytest.mark.parametrize(
    "value", [None, [], {}, {"messages": []}, {"anthropic": []}, {"openai": {"messages": {}}}]
)
def test_file_without_a_body_is_rejected(value: Any) -> None:
    with pytest.raises(FormatError, match="anthropic or openai"):
        decode_body(json.dumps(value).encode())
