"""Spans become calls: once each, in order, after their agent is known."""

from __future__ import annotations

from typing import Any

from harken.capture.otlp.receiver import Receiver
from harken.capture.otlp.span import SpanEvent
from tests.otlp_kit import CallCollector, chat_attributes, new_span, text_message

AGENT = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "Chief"}


class Clock:
    """A clock that stands still until the test advances it."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def _receiver(**options: Any) -> tuple[Receiver, CallCollector]:
    ear = CallCollector()
    return Receiver(ear, **options), ear


def test_call_has_request_and_response() -> None:
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


def test_call_of_a_span_is_partial_and_names_what_the_span_does_not_report() -> None:
    receiver, ear = _receiver()
    instructions = '[{"type": "text", "content": "Be brief."}]'
    complete = {
        "gen_ai.tool.definitions": [{"name": "look", "description": "", "parameters": {}}],
        "gen_ai.system_instructions": instructions,
        "llm.invocation_parameters": '{"temperature": 0.5}',
    }
    receiver.add([new_span(1, chat_attributes()), new_span(2, {**chat_attributes(), **complete})])
    assert [(call.evidence, call.missing) for call in ear.calls] == [
        ("partial", ("system", "tools", "parameters")),
        ("partial", ()),
    ]


def test_failed_call_has_its_error() -> None:
    receiver, ear = _receiver()
    attributes = {**chat_attributes(answers=()), "error.type": "rate_limit"}
    receiver.add([new_span(1, attributes, failed="too many requests")])
    assert ear.replies[0].status == 500
    assert ear.response_bodies == [
        {"error": {"type": "rate_limit", "message": "too many requests"}}
    ]


def test_repeated_span_is_one_call() -> None:
    receiver, ear = _receiver()
    for _ in range(3):
        receiver.add([new_span(1, chat_attributes())])
    assert len(ear.calls) == 1
    assert receiver.stats.repeated == 2


def test_calls_are_reported_in_start_order() -> None:
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
    assert [call.id for call in ear.events] == [first, second, first, second]
    times = [call.time for call in ear.events]
    assert times == sorted(times)


def test_call_waits_for_its_parent_spans() -> None:
    receiver, ear = _receiver()
    receiver.add([new_span(3, chat_attributes(), parent=2)])
    assert ear.calls == []
    receiver.add([new_span(2, AGENT)])
    assert ear.calls[0].hints.name == "Chief"


def test_call_waits_at_most_the_configured_time() -> None:
    clock = Clock()
    receiver, ear = _receiver(clock=clock, max_wait_s=5)
    receiver.add([new_span(3, chat_attributes(), parent=2)])
    clock.now_s = 4.9
    receiver.emit_due()
    assert ear.calls == []
    clock.now_s = 5
    receiver.emit_due()
    assert len(ear.calls) == 1


def test_pending_calls_are_reported_at_close() -> None:
    receiver, ear = _receiver()
    receiver.add([new_span(3, chat_attributes(), parent=2)])
    receiver.emit_due(all_of_them=True)
    assert len(ear.calls) == 1


def test_messages_logged_separately_are_attached_to_their_span() -> None:
    receiver, ear = _receiver()
    bare = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}
    event = SpanEvent(
        "gen_ai.client.inference.operation.details",
        {
            "gen_ai.input.messages": [text_message("user", "hi")],
            "gen_ai.output.messages": [text_message("assistant", "Hello.")],
        },
    )
    first, two = new_span(1, bare), new_span(2, bare)
    receiver.add([], [(first.id, event)])
    receiver.add([first, two])
    receiver.add([], [(two.id, event)])
    assert [request["messages"][0]["content"] for request in ear.request_bodies] == ["hi", "hi"]


def test_calls_without_captured_content_are_counted() -> None:
    receiver, ear = _receiver(max_wait_s=0)
    receiver.add([new_span(1, {"gen_ai.operation.name": "chat"})])
    assert ear.events == []
    assert receiver.stats.without_messages == 1


def test_spans_of_other_operations_are_no_calls() -> None:
    receiver, ear = _receiver()
    receiver.add([new_span(1, {"http.method": "GET"}), new_span(2, AGENT)])
    assert ear.events == []


def test_calls_without_conversation_id_belong_to_their_trace() -> None:
    receiver, ear = _receiver()
    receiver.add(
        [
            new_span(1, chat_attributes(), trace=7),
            new_span(2, chat_attributes((text_message("user", "b"),)), trace=7),
        ]
    )
    assert {call.hints.session for call in ear.calls} == {f"{7:032x}"}
