"""Clients of the real SDKs, responses of a provider on loopback, and uses of each client.

A use is a function of a client. It returns all that a program receives.
"""

from __future__ import annotations

import json
from typing import Any

import anthropic
import openai

from tests.provider.server import Answer, ReceivedRequest, as_json
from tests.provider.wire import ANTHROPIC, KEY, OPENAI

HI: Any = [{"role": "user", "content": "hi"}]
REQUEST: dict[str, Any] = {"model": "m", "max_tokens": 9, "messages": HI}
RESPONSES: dict[str, dict[str, Any]] = {
    "/v1/messages": {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [{"type": "text", "text": "Hello."}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 3, "output_tokens": 2},
    },
    "/v1/chat/completions": {
        "id": "c1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [
            {
                "index": 0,
                "finish_reason": "stop",
                "message": {"role": "assistant", "content": "Hello."},
            }
        ],
        "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5},
    },
    "/v1/responses": {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "model": "m",
        "output": [
            {
                "id": "m1",
                "type": "message",
                "role": "assistant",
                "status": "completed",
                "content": [{"type": "output_text", "text": "Hello.", "annotations": []}],
            }
        ],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    },
}


def _responses_events() -> list[bytes]:
    complete = RESPONSES["/v1/responses"]
    item = complete["output"][0]
    head = {"item_id": "m1", "output_index": 0, "content_index": 0}
    part = {"type": "output_text", "text": "", "annotations": []}
    started = {**complete, "status": "in_progress", "output": []}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": started},
        {
            "type": "response.output_item.added",
            "output_index": 0,
            "item": {**item, "status": "in_progress", "content": []},
        },
        {"type": "response.content_part.added", **head, "part": part},
        {"type": "response.output_text.delta", **head, "delta": "Hel", "logprobs": []},
        {"type": "response.output_text.delta", **head, "delta": "lo.", "logprobs": []},
        {"type": "response.output_text.done", **head, "text": "Hello.", "logprobs": []},
        {"type": "response.content_part.done", **head, "part": {**part, "text": "Hello."}},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": complete},
    ]
    numbered = ({**event, "sequence_number": n} for n, event in enumerate(events))
    return [f"event: {e['type']}\ndata: {json.dumps(e)}\n\n".encode() for e in numbered]


STREAMS: dict[str, list[Any]] = {
    "/v1/messages": ANTHROPIC.events("Hello, you there."),
    "/v1/chat/completions": OPENAI.events("Hello, you there."),
    "/v1/responses": _responses_events(),
}


def respond(request: ReceivedRequest) -> Answer:
    """Return the response of a provider."""
    path = request.path.partition("?")[0]
    if request.body.get("stream"):
        return Answer(STREAMS[path])
    return as_json(RESPONSES[path])


def sync_anthropic(url: str, **more: Any) -> anthropic.Anthropic:
    return anthropic.Anthropic(**{"api_key": KEY, "base_url": url, "max_retries": 0, **more})


def sync_openai(url: str, **more: Any) -> openai.OpenAI:
    return openai.OpenAI(**{"api_key": KEY, "base_url": f"{url}/v1", "max_retries": 0, **more})


def async_anthropic(url: str, **more: Any) -> anthropic.AsyncAnthropic:
    return anthropic.AsyncAnthropic(**{"api_key": KEY, "base_url": url, "max_retries": 0, **more})


def async_openai(url: str, **more: Any) -> openai.AsyncOpenAI:
    more = {"api_key": KEY, "base_url": f"{url}/v1", "max_retries": 0, **more}
    return openai.AsyncOpenAI(**more)


def dump(value: Any) -> Any:
    return value.model_dump(mode="json")


def a_messages(client: Any) -> Any:
    return dump(client.messages.create(**REQUEST))


def a_messages_events(client: Any) -> Any:
    return [*map(dump, client.messages.create(**REQUEST, stream=True))]


def a_messages_stream(client: Any) -> Any:
    with client.messages.stream(**REQUEST) as stream:
        return [*stream.text_stream], dump(stream.get_final_message())


def a_raw(client: Any) -> Any:
    raw = client.messages.with_raw_response.create(**REQUEST)
    return raw.status_code, raw.read(), dump(raw.parse())


def a_streamed_raw(client: Any) -> Any:
    with client.messages.with_streaming_response.create(**REQUEST) as response:
        return [*response.iter_bytes()]


def o_chat(client: Any) -> Any:
    return dump(client.chat.completions.create(model="m", messages=HI))


def o_chat_events(client: Any) -> Any:
    return [*map(dump, client.chat.completions.create(model="m", messages=HI, stream=True))]


def o_chat_stream(client: Any) -> Any:
    with client.chat.completions.stream(model="m", messages=HI) as stream:
        return [event.type for event in stream], dump(stream.get_final_completion())


def o_chat_raw(client: Any) -> Any:
    raw = client.chat.completions.with_raw_response.create(model="m", messages=HI)
    return raw.status_code, raw.content, dump(raw.parse())


def o_chat_lines(client: Any) -> Any:
    ask = client.chat.completions.with_streaming_response.create
    with ask(model="m", messages=HI, stream=True) as response:
        return [*response.iter_lines()]


def o_responses(client: Any) -> Any:
    return dump(client.responses.create(model="m", input="hi"))


def o_responses_events(client: Any) -> Any:
    return [*map(dump, client.responses.create(model="m", input="hi", stream=True))]


def o_responses_stream(client: Any) -> Any:
    with client.responses.stream(model="m", input="hi") as stream:
        return [event.type for event in stream], dump(stream.get_final_response())


ANTHROPIC_USES = [a_messages, a_messages_events, a_messages_stream, a_raw, a_streamed_raw]
OPENAI_USES = [
    o_chat,
    o_chat_events,
    o_chat_stream,
    o_chat_raw,
    o_chat_lines,
    o_responses,
    o_responses_events,
    o_responses_stream,
]


async def b_messages(client: Any) -> Any:
    return dump(await client.messages.create(**REQUEST))


async def b_messages_events(client: Any) -> Any:
    return [dump(event) async for event in await client.messages.create(**REQUEST, stream=True)]


async def b_messages_stream(client: Any) -> Any:
    async with client.messages.stream(**REQUEST) as stream:
        return [text async for text in stream.text_stream], dump(await stream.get_final_message())


async def b_streamed_raw(client: Any) -> Any:
    async with client.messages.with_streaming_response.create(**REQUEST) as response:
        return [chunk async for chunk in response.iter_bytes()]


async def p_chat(client: Any) -> Any:
    return dump(await client.chat.completions.create(model="m", messages=HI))


async def p_chat_events(client: Any) -> Any:
    stream = await client.chat.completions.create(model="m", messages=HI, stream=True)
    return [dump(event) async for event in stream]


async def p_chat_stream(client: Any) -> Any:
    async with client.chat.completions.stream(model="m", messages=HI) as stream:
        types = [event.type async for event in stream]
        return types, dump(await stream.get_final_completion())


async def p_responses(client: Any) -> Any:
    return dump(await client.responses.create(model="m", input="hi"))


async def p_responses_stream(client: Any) -> Any:
    async with client.responses.stream(model="m", input="hi") as stream:
        return [event.type async for event in stream], dump(await stream.get_final_response())


SYNC = [
    *((sync_anthropic, use) for use in ANTHROPIC_USES),
    *((sync_openai, use) for use in OPENAI_USES),
]
"""Pairs of a client factory and a use."""
ASYNC = [
    (async_anthropic, b_messages),
    (async_anthropic, b_messages_events),
    (async_anthropic, b_messages_stream),
    (async_anthropic, b_streamed_raw),
    (async_openai, p_chat),
    (async_openai, p_chat_events),
    (async_openai, p_chat_stream),
    (async_openai, p_responses),
    (async_openai, p_responses_stream),
]
