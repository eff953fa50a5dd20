"""Handwritten spans as a program emits them, and a collector of captured calls."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harken.capture.otlp.span import ReceivedSpan, SpanEvent
from harken.recording.exchange import CapturedRequest, CapturedResponse

SECOND_NS = 10**9
START_NS = 1_769_860_800 * SECOND_NS  # 2026-01-31T12:00:00Z


@dataclass
class CallCollector:
    """A recorder that collects captured requests and responses in order."""

    events: list[CapturedRequest | CapturedResponse] = field(default_factory=list)
    failure: Exception | None = None
    held_ids: set[str] = field(default_factory=set)

    def is_holding(self, call_id: str) -> bool:
        return call_id in self.held_ids

    def begin(self, call: CapturedRequest) -> None:
        self.events.append(call)

    def end(self, reply: CapturedResponse) -> None:
        self.events.append(reply)

    @property
    def calls(self) -> list[CapturedRequest]:
        return [event for event in self.events if isinstance(event, CapturedRequest)]

    @property
    def replies(self) -> list[CapturedResponse]:
        return [event for event in self.events if isinstance(event, CapturedResponse)]

    @property
    def request_bodies(self) -> list[Any]:
        return [json.loads(call.body) for call in self.calls]

    @property
    def response_bodies(self) -> list[Any]:
        return [json.loads(reply.body) for reply in self.replies]


def text_message(role: str, content: str) -> dict[str, Any]:
    """Return a message of the GenAI conventions."""
    return {"role": role, "parts": [{"type": "text", "content": content}]}


def chat_attributes(
    inputs: Sequence[Any] = (text_message("user", "hi"),),
    answers: Sequence[Any] = (text_message("assistant", "Hello."),),
) -> dict[str, Any]:
    """Return the attributes of a model call."""
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "m",
        "gen_ai.input.messages": json.dumps(inputs),
        "gen_ai.output.messages": json.dumps(answers),
    }


def new_span(
    number: int,
    attributes: Mapping[str, Any],
    *,
    parent: int | None = None,
    trace: int = 1,
    at_s: float | None = None,
    events: Sequence[SpanEvent] = (),
    failed: str | None = None,
) -> ReceivedSpan:
    """Return a span of one second that begins `number` seconds after noon."""
    start_ns = START_NS + int((number if at_s is None else at_s) * SECOND_NS)
    of = f"{trace:032x}"
    return ReceivedSpan(
        id=(of, f"{number:016x}"),
        parent=None if parent is None else (of, f"{parent:016x}"),
        name=f"{attributes.get('gen_ai.operation.name', 'work')} x",
        start_ns=start_ns,
        end_ns=start_ns + SECOND_NS,
        attributes=attributes,
        events=tuple(events),
        failed=failed,
        program="shop",
    )
