"""The wire format of the two protocols, for the test provider.

A `Wire` encodes a `Message` (text, thinking with its signature, calls in chunks) as a stream,
encodes errors in the words of the providers, and creates its model.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from harken.core.events import Usage
from harken.core.messages import (
    ContentPart,
    Message,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolCallSlot,
    UnknownPart,
)
from harken.llm.anthropic import AnthropicModel
from harken.llm.http_model import ModelEndpoint
from harken.llm.openai import OpenAIModel
from tests.provider.server import Answer, Provider, as_json

Reply: TypeAlias = str | Message
KEY = "sk-secret-0123456789abcdef"


class Wire(Protocol):
    """A provider protocol."""

    name: str
    path: str

    def model(self, provider: Provider, **endpoint: Any) -> AnthropicModel | OpenAIModel:
        """Return a model that calls this provider with short timeouts."""
        ...

    def events(self, said: Reply, **options: Any) -> list[bytes]:
        """Return the events of an answer: `usage` (Usage), `stop_reason`, `model`."""
        ...

    def error(self, status: int, text: str, kind: str = "", **headers: str) -> Answer:
        """Return an error as an answer."""
        ...

    def error_event(self, text: str, kind: str = "") -> bytes:
        """Return an error as an event in a stream."""
        ...

    def answer(self, said: Reply, **options: Any) -> Answer:
        """Return a complete response. See `events`."""
        return Answer(self.events(said, **options))


def endpoint(provider: Provider, base: str = "", **options: Any) -> ModelEndpoint:
    usual = {
        "base_url": provider.url + base,
        "api_key": KEY,
        "key_name": "THE_KEY",
        "timeout_s": 10.0,
        "max_retries": 0,
    }
    return ModelEndpoint(**{**usual, **options})


def in_pieces(text: str, size: int = 7) -> list[str]:
    """Split a text into chunks, at least one."""
    return [text[index : index + size] for index in range(0, len(text), size)] or [""]


def as_message(said: Reply) -> Message:
    return Message("assistant", said) if isinstance(said, str) else said


@dataclass(frozen=True)
class Anthropic(Wire):
    """Anthropic Messages."""

    name: str = "anthropic"
    path: str = "/v1/messages"

    def model(self, provider: Provider, **options: Any) -> AnthropicModel:
        return AnthropicModel("anthropic/test", "test-1", endpoint=endpoint(provider, **options))

    def events(self, said: Reply, **options: Any) -> list[bytes]:
        return [anthropic_event(event) for event in anthropic_events(as_message(said), **options)]

    def error(self, status: int, text: str, kind: str = "", **headers: str) -> Answer:
        error = {"type": kind or "invalid_request_error", "message": text}
        return as_json({"type": "error", "error": error}, status, **headers)

    def error_event(self, text: str, kind: str = "") -> bytes:
        error = {"type": kind or "overloaded_error", "message": text}
        return anthropic_event({"type": "error", "error": error})


@dataclass(frozen=True)
class OpenAI(Wire):
    """OpenAI Chat Completions."""

    name: str = "openai"
    path: str = "/v1/chat/completions"

    def model(self, provider: Provider, **options: Any) -> OpenAIModel:
        return OpenAIModel("openai/test", "test-1", endpoint=endpoint(provider, "/v1", **options))

    def events(self, said: Reply, **options: Any) -> list[bytes]:
        chunks = [openai_event(chunk) for chunk in openai_chunks(as_message(said), **options)]
        return [*chunks, b"data: [DONE]\n\n"]

    def error(self, status: int, text: str, kind: str = "", **headers: str) -> Answer:
        error = {"type": "invalid_request_error", "code": kind or None, "message": text}
        return as_json({"error": error}, status, **headers)

    def error_event(self, text: str, kind: str = "") -> bytes:
        return openai_event({"error": {"type": kind or "server_error", "message": text}})


ANTHROPIC, OPENAI = Anthropic(), OpenAI()
WIRES: tuple[Wire, ...] = (ANTHROPIC, OPENAI)


def anthropic_event(event: dict[str, Any]) -> bytes:
    return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()


def openai_event(chunk: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(chunk)}\n\n".encode()


def anthropic_events(
    message: Message,
    *,
    usage: Usage | None = None,
    stop_reason: str | None = None,
    model: str = "test-1",
) -> Iterator[dict[str, Any]]:
    """Yield the events of a response. `usage` is the usage that Harken must decode."""
    counts = _anthropic_usage(usage or Usage(input_tokens=10, output_tokens=5))
    head = {"id": "msg_1", "type": "message", "role": "assistant", "content": [], "model": model}
    yield {"type": "message_start", "message": {**head, "usage": {**counts, "output_tokens": 1}}}
    yield {"type": "ping"}
    for index, item in enumerate(_in_order(message)):
        start, deltas = _anthropic_block(item)
        yield {"type": "content_block_start", "index": index, "content_block": start}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    reason = stop_reason or ("tool_use" if message.tool_calls else "end_turn")
    yield {
        "type": "message_delta",
        "delta": {"stop_reason": reason, "stop_sequence": None},
        "usage": {"output_tokens": counts["output_tokens"]},
    }
    yield {"type": "message_stop"}


def _anthropic_block(item: ContentPart | ToolCall) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    match item:
        case TextPart():
            start = {"type": "text", "text": ""}
            return start, [{"type": "text_delta", "text": p} for p in in_pieces(item.text)]
        case ThinkingPart():
            start = {"type": "thinking", "thinking": "", "signature": ""}
            deltas = [{"type": "thinking_delta", "thinking": p} for p in in_pieces(item.text)]
            signature = (item.meta or {}).get("signature")
            signed = [{"type": "signature_delta", "signature": signature}] if signature else []
            return start, deltas + signed
        case ToolCall():
            call = {"type": "tool_use", "id": item.id, "name": item.function.name, "input": {}}
            pieces = in_pieces(item.function.arguments)
            return call, [{"type": "input_json_delta", "partial_json": p} for p in pieces]
        case UnknownPart():
            return json.loads(item.data), []
    raise AssertionError(f"no provider says {item}")


def _anthropic_usage(usage: Usage) -> dict[str, int]:
    cached, written_tokens = usage.cache_read_tokens or 0, usage.cache_write_tokens or 0
    return {
        "input_tokens": (usage.input_tokens or 0) - cached - written_tokens,
        "cache_read_input_tokens": cached,
        "cache_creation_input_tokens": written_tokens,
        "output_tokens": usage.output_tokens or 0,
    }


def openai_chunks(
    message: Message,
    *,
    usage: Usage | None = None,
    stop_reason: str | None = None,
    model: str = "test-1",
) -> Iterator[dict[str, Any]]:
    """Yield the chunks of a response. Thinking is in `reasoning_content`."""
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": model}
    reason = stop_reason or ("tool_calls" if message.tool_calls else "stop")
    for delta in _openai_deltas(message):
        choice = {"index": 0, "delta": delta, "finish_reason": None}
        yield {**head, "choices": [choice], "usage": None}
    yield {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}], "usage": None}
    usage = usage or Usage(input_tokens=10, output_tokens=5)
    details = {
        "cached_tokens": usage.cache_read_tokens or 0,
        "cache_write_tokens": usage.cache_write_tokens or 0,
    }
    counts = {"prompt_tokens": usage.input_tokens, "completion_tokens": usage.output_tokens}
    yield {**head, "choices": [], "usage": {**counts, "prompt_tokens_details": details}}


def _openai_deltas(message: Message) -> Iterator[dict[str, Any]]:
    yield {"role": "assistant", "content": ""}
    for item in _in_order(message):
        if isinstance(item, TextPart):
            yield from ({"content": piece} for piece in in_pieces(item.text))
        elif isinstance(item, ThinkingPart):
            yield from ({"reasoning_content": piece} for piece in in_pieces(item.text))
    for index, call in enumerate(message.tool_calls or ()):
        first, *remaining = in_pieces(call.function.arguments)
        function = {"name": call.function.name, "arguments": first}
        yield _openai_call({"index": index, "id": call.id, "type": "function"}, function)
        for piece in remaining:
            yield _openai_call({"index": index}, {"arguments": piece})


def _openai_call(head: dict[str, Any], function: dict[str, str]) -> dict[str, Any]:
    return {"tool_calls": [{**head, "function": function}]}


def _in_order(message: Message) -> Iterable[ContentPart | ToolCall]:
    content = message.content
    parts: Sequence[ContentPart] = (
        [TextPart(content)] if isinstance(content, str) else content or []
    )
    calls = {call.id: call for call in message.tool_calls or ()}
    for part in parts:
        yield calls.pop(part.id) if isinstance(part, ToolCallSlot) else part
    yield from calls.values()
