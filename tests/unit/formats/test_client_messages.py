"""Messages of every client: no content is lost, and other content has another id."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterator
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

import pytest

from harken.core.ids import AgentId
from harken.core.messages import (
    FunctionCall,
    ImagePart,
    Message,
    TextPart,
    ThinkingPart,
    ToolCall,
    UnknownPart,
    message_hash,
    text_of,
)
from harken.errors import FormatError
from harken.formats.client_messages import messages_in, messages_out
from harken.interactions.unit import split_message
from harken.session.session import build_entry


def read(value: Any, **options: Any) -> list[Message]:
    """Read a value of which nothing may be opaque."""
    return messages_in(value, report=pytest.fail, **options)


def only(value: Any, **options: Any) -> Message:
    (message,) = read(value, **options)
    return message


def ids(*values: Any) -> set[str]:
    return {message_hash(only(value)) for value in values}


def image(data: str) -> dict[str, Any]:
    source = {"type": "base64", "media_type": "image/png", "data": data}
    return {"role": "user", "content": [{"type": "image", "source": source}]}


def test_two_images_of_anthropic_have_different_ids() -> None:
    first, second = only(image("aGk=")), only(image("aG8="))
    assert first.content == [ImagePart("image/png", "aGk=")]
    assert message_hash(first) != message_hash(second)


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_reasoning_of_chat_servers_is_thinking(name: str) -> None:
    message = only({"role": "assistant", "content": "Hi", name: "Hm."})
    assert isinstance(message.content, list)
    thinking, text = message.content
    assert isinstance(thinking, ThinkingPart)
    assert (thinking.text, text) == ("Hm.", TextPart("Hi"))


def test_images_of_ollama_are_images() -> None:
    message = only({"role": "user", "content": "See:", "images": ["aGk="]})
    assert message.content == [TextPart("See:"), ImagePart(data="aGk=")]


def test_calls_of_ollama_have_their_arguments_as_text() -> None:
    call = {"function": {"name": "look", "arguments": {"at": 1}}}
    value = {"role": "assistant", "content": "", "thinking": "Hm.", "tool_calls": [call]}
    message = only(value)
    assert message.content == [ThinkingPart("Hm.")]
    assert message.tool_calls == [ToolCall("", FunctionCall("look", '{"at":1}'))]
    assert messages_out([message], "ollama") == [value]
    result = only({"role": "tool", "tool_name": "look", "content": "a door"})
    assert result.name == "look"


@pytest.mark.parametrize(
    "member",
    [
        {"refusal": "No."},
        {"annotations": [{"type": "url_citation", "url_citation": {"url": "https://x.org"}}]},
        {"audio": {"id": "audio_1", "transcript": "Hi"}},
        {"reasoning_details": [{"type": "reasoning.summary", "summary": "Hm."}]},
        {"name": "Jill"},
        {"brand_new": {"a": [1.5, None]}},
    ],
)
def test_a_member_beside_the_content_is_kept_and_part_of_the_id(member: dict[str, Any]) -> None:
    plain = {"role": "assistant", "content": "Hi"}
    message = only({**plain, **member})
    assert text_of(message.content).startswith("Hi")
    assert len(ids(plain, {**plain, **member})) == 2
    assert messages_out([message], "openai-chat") == [{**plain, **member}]


def test_a_refusal_without_a_content_is_readable() -> None:
    refused = {"role": "assistant", "content": None, "refusal": "No."}
    assert text_of(only(refused).content) == "No."
    assert len(ids(refused, {"role": "assistant", "content": "No."})) == 2


def test_a_legacy_function_call_is_a_tool_call() -> None:
    call = {"name": "look", "arguments": '{"at":1}'}
    value = {"role": "assistant", "content": None, "function_call": call}
    message = only(value)
    assert message.tool_calls is not None
    assert message.tool_calls[0].function == FunctionCall("look", '{"at":1}')
    assert messages_out([message], "openai-chat") == [value]
    result = {"role": "function", "name": "look", "content": "a door"}
    assert only(result).role == "tool"
    assert only(result).name == "look"
    assert messages_out([only(result)], "openai-chat") == [result]


def test_calls_and_results_of_anthropic_are_calls_and_results() -> None:
    called = {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
            {"type": "text", "text": "I look."},
            {"type": "tool_use", "id": "t1", "name": "look", "input": {"at": 1}},
        ],
    }
    answered = {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "t1", "content": "a door"},
            {"type": "text", "text": "And now?"},
        ],
    }
    messages = read([called, answered])
    assert [message.role for message in messages] == ["assistant", "tool", "user"]
    units = [unit.role.value for message in messages for unit in split_message(message)]
    assert units == ["ASSISTANT", "TOOL_CALL", "TOOL_RESULT", "USER"]
    assert messages_out(messages, "anthropic-messages") == [called, answered]


def test_ids_and_signatures_are_not_part_of_the_id() -> None:
    def called(id_: str, signature: str) -> dict[str, Any]:
        thinking = {"type": "thinking", "thinking": "Hm.", "signature": signature}
        call = {"type": "tool_use", "id": id_, "name": "look", "input": {}}
        return {"role": "assistant", "content": [thinking, call]}

    assert len(ids(called("t1", "a"), called("t2", "b"))) == 1


def test_one_content_has_one_id_in_all_shapes() -> None:
    values: list[Any] = [
        "Hi",
        {"role": "user", "content": "Hi"},
        {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
        {"role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
        {"type": "message", "role": "user", "content": "Hi"},
        {"role": "user", "parts": [{"text": "Hi"}]},
        {"role": "user", "content": [{"type": "text", "text": "Hi", "cache_control": {}}]},
        Message("user", "Hi"),
        build_entry(AgentId("agent_1"), Message("user", "Hi")),
    ]
    assert len(ids(*values)) == 1


def test_messages_of_requests_and_responses_are_found() -> None:
    requests: list[Any] = [
        {"model": "m", "system": "Be brief.", "messages": [{"role": "user", "content": "Hi"}]},
        {"model": "m", "instructions": "Be brief.", "input": "Hi"},
        {
            "systemInstruction": {"parts": [{"text": "Be brief."}]},
            "contents": [{"parts": [{"text": "Hi"}]}],
        },
    ]
    for request in requests:
        assert [message.role for message in read(request)] == ["system", "user"]
    responses: list[Any] = [
        {
            "id": "m1",
            "type": "message",
            "role": "assistant",
            "model": "m",
            "content": [{"type": "text", "text": "Hi"}],
            "usage": {},
        },
        {"choices": [{"message": {"role": "assistant", "content": "Hi"}}]},
        {
            "object": "response",
            "output": [
                {
                    "type": "message",
                    "role": "assistant",
                    "content": [{"type": "output_text", "text": "Hi", "annotations": []}],
                }
            ],
        },
        {"candidates": [{"content": {"role": "model", "parts": [{"text": "Hi"}]}}]},
        {"message": {"role": "assistant", "content": "Hi"}, "done": True},
    ]
    assert len(ids(*responses)) == 1


@dataclasses.dataclass
class _Said:
    role: str
    content: str


class _Model:
    """An object with the methods of a model of pydantic."""

    def __init__(self, members: dict[str, Any], *, is_broken: bool = False) -> None:
        self._members = members
        self._is_broken = is_broken

    def model_dump(self, **options: Any) -> dict[str, Any]:
        if self._is_broken:
            raise RuntimeError("no")
        return self._members


@pytest.mark.parametrize(
    "value",
    [
        _Said("assistant", "Hi"),
        _Model({"role": "assistant", "content": "Hi"}),
        MappingProxyType({"role": "assistant", "content": "Hi"}),
        {"role": "model", "content": "Hi"},
        {"content": "Hi"},
    ],
)
def test_objects_of_clients_are_read_as_their_members(value: Any) -> None:
    assert (
        only(value, role="assistant") == Message("assistant", "Hi")
        or text_of(only(value, role="assistant").content) == "Hi"
    )
    assert only(value, role="assistant").role == "assistant"


class _Evil:
    def __repr__(self) -> str:
        raise RuntimeError("no")


def _cycle() -> dict[str, Any]:
    value: dict[str, Any] = {"role": "user"}
    value["content"] = [value]
    return value


def _iter_odd_values() -> Iterator[Any]:
    yield from (None, 5, 1.5, float("nan"), b"\xff", object(), object, _Evil(), _cycle())
    yield _Model({}, is_broken=True)
    yield {"role": "king", "content": "Hi"}
    yield {"role": 5, "content": {"a": {1, 2}}}
    yield {"role": "assistant", "tool_calls": [{"id": 5}, 7, {"function": "x"}]}
    yield {
        "role": "user",
        "content": [5, None, {"type": 7}, {"type": "text"}],
        "at": datetime.now(UTC),
    }
    yield {"role": "tool", "is_error": "maybe", "content": {"a": float("inf")}}
    yield {"type": "function_call"}
    yield {"role": "model", "parts": [7, {"functionCall": 5}]}
    yield Message("king", 5)  # type: ignore[arg-type]
    yield {5: 6, "\ud83d": "\ud83d"}


@pytest.mark.parametrize("value", [*_iter_odd_values()], ids=lambda value: type(value).__name__)
def test_no_value_raises_and_each_gives_a_message_that_can_be_hashed(value: Any) -> None:
    messages = messages_in([value, "after"], report=lambda text: None)
    assert messages[-1] == Message("user", "after")
    assert len(messages) > 1
    assert all(len(message_hash(message)) == 64 for message in messages)


class _BrokenList(list[Any]):
    def __iter__(self) -> Iterator[Any]:
        raise RuntimeError("no")


def test_lists_that_cannot_be_read_are_kept_as_they_are() -> None:
    endless: list[Any] = ["Hi"]
    endless.append(endless)
    reports: list[str] = []
    messages = messages_in(endless, role="assistant", report=reports.append)
    assert messages[0] == Message("assistant", "Hi")
    broken = [messages_in(_BrokenList([text]), report=reports.append)[0] for text in "ab"]
    assert message_hash(broken[0]) != message_hash(broken[1])
    assert {"list", "_BrokenList"} <= {text.split()[4] for text in reports}


def test_an_unknown_shape_is_kept_verbatim_and_reported_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    value = {"speaker": "Jill", "words": ["Hi", 1.5]}
    with caplog.at_level(logging.WARNING, logger="harken.messages"):
        (first,), (second,) = messages_in(value), messages_in(value)
    assert first == second
    wire = {"protocol": "messages-v1", "form": {"as": "other"}}
    data = '{"speaker":"Jill","words":["Hi",1.5]}'
    assert first == Message("user", [UnknownPart("", data, {"wire": wire})])
    assert len(caplog.records) == 1
    assert "speaker" in caplog.records[0].getMessage()


def test_unknown_members_of_harkens_own_messages_are_kept() -> None:
    value = {"role": "tool", "content": "x", "tool_call_id": "c", "name": "f", "is_error": True}
    message = only({**value, "mood": "bad"})
    assert (message.tool_call_id, message.name, message.is_error) == ("c", "f", True)
    assert len(ids(value, {**value, "mood": "bad"}, {**value, "mood": "good"})) == 3


def test_values_that_do_not_fit_are_refused_when_written() -> None:
    with pytest.raises(ValueError, match="shape must be one of anthropic-messages"):
        messages_out([], "telegraph")
    results = [{"type": "tool_result", "tool_use_id": f"t{n}", "content": "x"} for n in range(2)]
    messages = read({"role": "user", "content": results})
    with pytest.raises(FormatError, match="a value of 2 messages is incomplete"):
        messages_out(messages[:1], "anthropic-messages")
