"""Requests are rebuilt from the log as they were on the wire."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harken.core import canonical
from harken.core import events as ev
from harken.core.events import Segment
from harken.core.ids import AgentId, MessageId
from harken.errors import FormatError, NameNotFound
from harken.recording.rebuild import RequestRebuilder
from tests.recording_kit import (
    RecordedClient,
    check_rebuilt_bodies,
    log_paths,
    open_recorder,
    read_events,
    request_body,
)


def long_talk(folder: Path, turns: int) -> tuple[RecordedClient, list[int]]:
    """Record a number of turns with tools and cache marks. Return the sizes of the log."""
    client, sizes = RecordedClient(open_recorder(folder)), []
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Begin."}]
    for turn in range(turns):
        text = {"type": "text", "text": messages[-1]["content"]}
        marked_parts = [{**text, "cache_control": {"type": "ephemeral"}}]
        last = messages[-1] if turn else {"role": "user", "content": marked_parts}
        call = {"type": "tool_use", "id": f"t{turn}", "name": "look", "input": {"at": "a" * 50}}
        client.ask(request_body(*messages[:-1], last), [{"type": "text", "text": "I look."}, call])
        result = {"type": "tool_result", "tool_use_id": f"t{turn}", "content": "r" * 200}
        messages += [
            {"role": "assistant", "content": [{"type": "text", "text": "I look."}, call]},
            {"role": "user", "content": [result]},
        ]
        sizes.append(log_paths(folder)[0].stat().st_size)
    return client, sizes


def flat(folder: Path, few: int, many: int) -> None:
    _, sizes = long_talk(folder, many)
    early = (sizes[few - 1] - sizes[few // 2]) / (few - 1 - few // 2)
    late = (sizes[many - 1] - sizes[many - 1 - few // 2]) / (few // 2)
    assert late < 1.05 * early


@pytest.mark.req("S3-18")
def test_turn_cost_is_constant(tmp_path: Path) -> None:
    flat(tmp_path, 40, 200)


@pytest.mark.full
@pytest.mark.req("S3-18")
def test_turn_cost_is_constant_over_a_thousand_turns(tmp_path: Path) -> None:
    flat(tmp_path, 200, 1000)


@pytest.mark.full
def test_rebuild_of_request_1000_costs_a_few_log_reads(tmp_path: Path) -> None:
    client, _ = long_talk(tmp_path, 1000)
    log, (id_, sent_body) = (
        RequestRebuilder(read_events(tmp_path)),
        list(client.sent_bodies.items())[-1],
    )
    request = next(
        request_event
        for request_event in log.requests.values()
        if (request_event.wire or {})["call"] == id_
    )
    raw = canonical.to_json_line(sent_body)
    times: list[float] = []
    for work in (lambda: log.body(request.message_id), lambda: msgspec.json.decode(raw)):
        runs = []
        for _ in range(5):
            start = time.perf_counter()
            rebuilt = work()
            runs.append(time.perf_counter() - start)
        assert canonical.to_canonical_bytes(rebuilt) == canonical.to_canonical_bytes(sent_body)
        times.append(min(runs))
    assert times[0] < 20 * times[1]


def test_single_request_can_be_rebuilt(tmp_path: Path) -> None:
    client = RecordedClient(open_recorder(tmp_path))
    id_ = client.ask(request_body("Hi", stream=True), "Hello.")
    events = read_events(tmp_path)
    request = next(event for event in events if isinstance(event, ev.LlmRequest))
    assert RequestRebuilder(events).body(request.message_id) == client.sent_bodies[id_]


def test_missing_request_is_named(tmp_path: Path) -> None:
    RecordedClient(open_recorder(tmp_path)).ask(request_body("Hi"), "Hello.")
    with pytest.raises(NameNotFound, match="msg_999"):
        RequestRebuilder(read_events(tmp_path)).body("msg_999")


def request(number: int, *context: Segment, **members: Any) -> ev.LlmRequest:
    return ev.LlmRequest(
        message_id=MessageId(f"msg_{number:03d}"),
        agent_id=AgentId("agent_001"),
        context=list(context),
        count=1,
        context_hash="",
        model="m",
        **members,
    )


def test_request_without_wire_format_has_no_body() -> None:
    with pytest.raises(NameNotFound, match="recorded request"):
        RequestRebuilder([request(1)]).body("msg_001")


@pytest.mark.parametrize(
    "events",
    [
        [request(5, Segment(request=MessageId("msg_005"), start=0, stop=1))],
        [request(5, Segment(request=MessageId("msg_001"), start=0, stop=1))],
        [request(5, Segment(entries=[MessageId("msg_001")]))],
        [request(5, Segment(loaded=MessageId("msg_001"), start=0, stop=1))],
        [
            ev.TranscriptEntry(message_id=MessageId("msg_001"), role="user", content="Hi"),
            request(2, Segment(entries=[MessageId("msg_001")])),
            *(
                request(
                    number,
                    *[Segment(request=MessageId(f"msg_{number - 1:03d}"), start=0, stop=2**number)]
                    * 2,
                )
                for number in range(3, 80)
            ),
            request(5, Segment(request=MessageId("msg_079"), start=0, stop=2**80)),
        ],
    ],
)
def test_log_with_dangling_references_is_refused(events: list[ev.Event]) -> None:
    last = events[-1]
    assert isinstance(last, ev.LlmRequest)
    log = RequestRebuilder([*events[:-1], last])
    with pytest.raises(FormatError):
        log.messages(last.message_id)


def test_equal_bytes_in_another_protocol_are_decoded_by_it(tmp_path: Path) -> None:
    client = RecordedClient(
        open_recorder(tmp_path), protocol="openai-chat", path="/v1/chat/completions"
    )
    parts = {"role": "assistant", "content": [{"type": "text", "text": "Hi"}]}
    messages = [{"role": "user", "content": "Hello."}, parts, {"role": "user", "content": "Well?"}]
    client.ask({"model": "m", "messages": messages}, "I see.")
    client.protocol, client.path = "anthropic-messages", "/v1/messages"
    client.ask({"model": "m", "messages": messages}, "I see.")
    check_rebuilt_bodies(tmp_path, [client])
