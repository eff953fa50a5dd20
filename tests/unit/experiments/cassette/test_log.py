"""Any sequence of contexts is logged by the writer that all recordings share."""

from __future__ import annotations

from functools import reduce
from pathlib import Path

from harken.core import events as ev
from harken.core.messages import FunctionCall, Message, ToolCall, extend_context_hash, message_hash
from harken.core.stream import Finish
from harken.experiments.cassette.log import CassetteLog
from harken.llm.base import ModelRequest, tools_hash
from harken.session.log.reader import iter_events
from harken.session.verify import verify
from harken.testing import ticking
from harken.views.context import context

SYSTEM, ONE, TWO = Message("system", "Be brief."), Message("user", "1"), Message("user", "2")
LOOK = Message("assistant", None, [ToolCall("c1", FunctionCall("look", "{}"))])
DOOR = Message("tool", "a door", None, "c1", "look")
OK = Message("assistant", "ok")
TOOL = {"name": "look", "description": "", "parameters": {}}
CONTEXTS = [
    [SYSTEM, ONE],
    [SYSTEM, ONE, OK, LOOK, DOOR],
    [SYSTEM, TWO],
    [SYSTEM, TWO],
    [SYSTEM, ONE, OK],
    [],
    [Message("tool", "a result without its call", None, "c9"), TWO],
]


def build_request(messages: list[Message], agent: str = "main") -> ModelRequest:
    return ModelRequest(
        agent=agent,
        messages=messages,
        tools=[TOOL],
        parameters={"temperature": 0.5},
        context_hash=reduce(extend_context_hash, messages, ""),
        tools_hash=tools_hash([TOOL]),
    )


def test_each_context_is_logged_as_requested(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    log = CassetteLog(path, ticking())
    for messages in CONTEXTS:
        call = log.begin(build_request(messages), "m")
        call.write_response([OK], Finish(stop_reason="end_turn"), {"status": 200})
    log.session.close()
    events = [*iter_events(path)]
    views = [
        context(events, event.message_id) for event in events if isinstance(event, ev.LlmRequest)
    ]
    hashes = [[message_hash(row.message) for row in view.messages] for view in views]
    assert hashes == [[message_hash(message) for message in messages] for messages in CONTEXTS]
    assert all(view.verified and view.tools == [TOOL] for view in views)
    responses = [event for event in events if isinstance(event, ev.LlmResponse)]
    assert [(event.stop_reason, event.unknown) for event in responses] == [
        ("end_turn", {"status": 200})
    ] * len(CONTEXTS)
    assert verify(path) == []
    entries = [event for event in events if isinstance(event, ev.TranscriptEntry)]
    assert sum(event.content == SYSTEM.content for event in entries) == 1


def test_calls_at_the_same_time_are_of_two_agents(tmp_path: Path) -> None:
    log = CassetteLog(tmp_path / "calls.jsonl", ticking())
    calls = [log.begin(build_request([ONE]), "m") for _ in range(2)]
    for call in calls:
        call.write_response([OK], Finish(stop_reason="end_turn"))
    again = log.begin(build_request([ONE, OK, TWO]), "m")
    agents = [call.recorder.agent_id for call in (*calls, again)]
    assert agents == ["agent_001", "agent_002", "agent_001"]
    log.session.close()
