"""Spans become calls: once each, in order, when it is known whose they are."""

from __future__ import annotations

from typing import Any

from harken.capture.otlp.receiver import Receiver
from harken.capture.otlp.span import SpanEvent
from tests.otlp_kit import CallCollector, chat_attributes, new_span, text_message

AGENT = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "Chief"}


class Clock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def _receiver(**options: Any) -> tuple[Receiver, CallCollector]:
    ear = CallCollector()
    return Receiver(ear, **options), ear


def test_a_call_says_what_was_asked_and_answered() -> None:
    receiver, ear = _receiver()
    tool = {"name": "look", "description": "", "parameters": {}}
    attributes = {
        **chat_attributes(),
        "gen_ai.request.temperature": 0.5,
        "gen_ai.response.model": "m-2",
        "gen_ai.response.id": "r1",
        "gen_ai.response.finish_reasons": ["stop"],
        "gen_ai.usage.input_tokens": 7,
        "gen_ai.usage.output_tokens": 3,
        "gen_ai.usage.cache_read.input_tokens": 5,
        "gen_ai.response.time_to_first_chunk": 0.25,
        "gen_ai.tool.definitions": [tool],
    }
    receiver.add([new_span(1, attributes)])
    (call,), (reply,) = ear.calls, ear.replies
    assert call.protocol == "messages-v1"
    assert call.id == reply.id == f"{1:032x}-{1:016x}"
    assert (call.time, reply.time) == ("2026-01-31T12:00:01.000000Z", "2026-01-31T12:00:02.000000Z")
    assert (reply.status, reply.latency_s, reply.first_byte_s) == (200, 1.0, 0.25)
    assert ear.request_bodies == [
        {
            "model": "m",
            "messages": [{"role": "user", "content": "hi"}],
            "tools": [tool],
            "parameters": {"temperature": 0.5},
        }
    ]
    assert ear.response_bodies == [
        {
            "stop_reason": "stop",
            "model": "m-2",
            "usage": {"input_tokens": 7, "output_tokens": 3, "cache_read_tokens": 5},
            "message": {"role": "assistant", "content": "Hello."},
            "id": "r1",
        }
    ]


def test_a_call_that_failed_says_why() -> None:
    receiver, ear = _receiver()
    attributes = {**chat_attributes(answers=()), "error.type": "rate_limit"}
    receiver.add([new_span(1, attributes, failed="too many requests")])
    assert ear.replies[0].status == 500
    assert ear.response_bodies == [
        {"error": {"type": "rate_limit", "message": "too many requests"}}
    ]


def test_a_span_that_comes_twice_is_one_call() -> None:
    receiver, ear = _receiver()
    for _ in range(3):
        receiver.add([new_span(1, chat_attributes())])
    assert len(ear.calls) == 1
    assert receiver.stats.repeated == 2


def test_calls_are_told_in_the_order_in_which_they_were_made_with_overlaps() -> None:
    receiver, ear = _receiver()
    root = new_span(9, AGENT, at_s=0)
    receiver.add(
        [
            new_span(3, chat_attributes(), parent=9, at_s=1.5),
            new_span(2, chat_attributes(), parent=9, at_s=1),
            root,
        ],
    )
    first, second = f"{1:032x}-{2:016x}", f"{1:032x}-{3:016x}"
    assert [one.id for one in ear.events] == [first, second, first, second]
    times = [one.time for one in ear.events]
    assert times == sorted(times)


def test_a_call_waits_for_what_is_above_it() -> None:
    receiver, ear = _receiver()
    receiver.add([new_span(3, chat_attributes(), parent=2)])
    assert ear.calls == []
    receiver.add([new_span(2, AGENT)])
    assert ear.calls[0].hints.name == "Chief"


def test_a_call_waits_no_longer_than_some_seconds() -> None:
    clock = Clock()
    receiver, ear = _receiver(clock=clock, max_wait_s=5)
    receiver.add([new_span(3, chat_attributes(), parent=2)])
    clock.now_s = 4.9
    receiver.emit_due()
    assert ear.calls == []
    clock.now_s = 5
    receiver.emit_due()
    assert len(ear.calls) == 1


def test_what_waits_at_the_end_is_told() -> None:
    receiver, ear = _receiver()
    receiver.add([new_span(3, chat_attributes(), parent=2)])
    receiver.emit_due(all_of_them=True)
    assert len(ear.calls) == 1


def test_messages_that_are_logged_apart_from_their_span_are_its_messages() -> None:
    receiver, ear = _receiver()
    bare = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}
    event = SpanEvent(
        "gen_ai.client.inference.operation.details",
        {
            "gen_ai.input.messages": [text_message("user", "hi")],
            "gen_ai.output.messages": [text_message("assistant", "Hello.")],
        },
    )
    one, two = new_span(1, bare), new_span(2, bare)
    receiver.add([], [(one.id, event)])
    receiver.add([one, two])
    receiver.add([], [(two.id, event)])
    assert [asked["messages"][0]["content"] for asked in ear.request_bodies] == ["hi", "hi"]


def test_a_call_whose_program_captures_nothing_is_counted() -> None:
    receiver, ear = _receiver(max_wait_s=0)
    receiver.add([new_span(1, {"gen_ai.operation.name": "chat"})])
    assert ear.events == []
    assert receiver.stats.without_messages == 1


def test_what_is_no_call_of_a_model_is_no_call() -> None:
    receiver, ear = _receiver()
    receiver.add([new_span(1, {"http.method": "GET"}), new_span(2, AGENT)])
    assert ear.events == []


def test_calls_without_a_conversation_are_of_their_trace() -> None:
    receiver, ear = _receiver()
    receiver.add(
        [
            new_span(1, chat_attributes(), trace=7),
            new_span(2, chat_attributes((text_message("user", "b"),)), trace=7),
        ]
    )
    assert {call.hints.session for call in ear.calls} == {f"{7:032x}"}
