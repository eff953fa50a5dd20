"""What the recorder answers, in the words of each protocol: `ok`, and nothing else.

One idea: an answer is one message: `whole` says it at once, `events` as a stream of its pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

OK = "ok"
Record: TypeAlias = dict[str, Any]
Event: TypeAlias = tuple[str, Record | str]
"""The name of an event, which may be empty, and its data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """How a protocol answers."""

    ends: tuple[str, ...]
    """How paths of requests for an answer end."""
    conversation: str
    """The member of a request that holds the messages."""
    whole: Callable[[str], Record]
    """The answer of a model."""
    events: Callable[[str], Iterable[Event]]
    """The same as a stream."""

    def is_streamed(self, path: str, body: Record) -> bool:
        """Whether a request wants a stream."""
        return bool(body.get("stream")) or path.endswith(":streamGenerateContent")


def _named(*records: Record) -> Iterable[Event]:
    return [(record["type"], record) for record in records]


def _anthropic(model: str) -> Record:
    said = [{"type": "text", "text": OK}]
    stop = {"stop_reason": "end_turn", "stop_sequence": None}
    usage = {"input_tokens": 1, "output_tokens": 1}
    head = {"id": "msg_recorder", "type": "message", "role": "assistant", "model": model}
    return {**head, "content": said, **stop, "usage": usage}


def _anthropic_events(model: str) -> Iterable[Event]:
    whole = _anthropic(model)
    stop = {"stop_reason": "end_turn", "stop_sequence": None}
    return _named(
        {"type": "message_start", "message": {**whole, "content": [], "stop_reason": None}},
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "text", "text": ""},
        },
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "text_delta", "text": OK},
        },
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": stop, "usage": whole["usage"]},
        {"type": "message_stop"},
    )


def _responses(model: str) -> Record:
    said = [{"type": "output_text", "text": OK, "annotations": []}]
    item = {"type": "message", "id": "msg_recorder", "role": "assistant", "status": "completed"}
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    head = {"id": "resp_recorder", "object": "response", "status": "completed", "model": model}
    return {**head, "output": [{**item, "content": said}], "usage": usage}


def _responses_events(model: str) -> Iterable[Event]:
    whole = _responses(model)
    (item,) = whole["output"]
    return _named(
        {"type": "response.created", "response": {**whole, "status": "in_progress", "output": []}},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": whole},
    )


def _chat(model: str) -> Record:
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": OK},
        "finish_reason": "stop",
    }
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    head = {"id": "chatcmpl-recorder", "object": "chat.completion", "created": 0, "model": model}
    return {**head, "choices": [choice], "usage": usage}


def _chat_events(model: str) -> Iterable[Event]:
    whole = {**_chat(model), "object": "chat.completion.chunk"}
    delta = {"index": 0, "delta": {"role": "assistant", "content": OK}, "finish_reason": "stop"}
    yield "", {**whole, "choices": [delta], "usage": None}
    yield "", {**whole, "choices": []}
    yield "", "[DONE]"


def _gemini(model: str) -> Record:
    content = {"role": "model", "parts": [{"text": OK}]}
    usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
    candidate = {"content": content, "finishReason": "STOP", "index": 0}
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": model}


ANSWERS = (
    Answer(
        ends=("/messages",),
        conversation="messages",
        whole=_anthropic,
        events=_anthropic_events,
    ),
    Answer(
        ends=("/responses",),
        conversation="input",
        whole=_responses,
        events=_responses_events,
    ),
    Answer(
        ends=("/chat/completions",),
        conversation="messages",
        whole=_chat,
        events=_chat_events,
    ),
    Answer(
        ends=(":generateContent", ":streamGenerateContent"),
        conversation="contents",
        whole=_gemini,
        events=lambda model: [("", _gemini(model))],
    ),
)
"""The protocols: Anthropic Messages, OpenAI Responses and Chat Completions, Gemini."""
