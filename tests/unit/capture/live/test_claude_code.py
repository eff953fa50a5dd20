"""Output lines of Claude Code, decoded to events."""

from __future__ import annotations

import json
from typing import Any

import pytest

from harken.capture.live.claude_code import parse_claude_line
from harken.formats.events import (
    MetricEvent,
    OutputEvent,
    Payload,
    PromptEvent,
    ResponseEvent,
    SystemEvent,
    ThinkingEvent,
    ToolCallEvent,
    ToolResultEvent,
)

Json = dict[str, Any]


def line(value: Json) -> bytes:
    return json.dumps(value).encode() + b"\n"


def payloads(value: Json) -> list[Payload]:
    return [event.payload for event in parse_claude_line(line(value)).events]


def answer(*blocks: Json) -> Json:
    body = {"id": "msg_1", "role": "assistant", "content": [*blocks], "model": "m"}
    return {"type": "assistant", "message": body, "session_id": "s", "uuid": "u1"}


def user_line(content: object) -> Json:
    return {"type": "user", "message": {"role": "user", "content": content}}


CALL = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}}
KINDS: list[tuple[Json, list[Payload]]] = [
    (answer({"type": "text", "text": "Hi."}), [ResponseEvent("Hi.")]),
    ({"type": "assistant", "subtype": "text", "text": "Hi."}, [ResponseEvent("Hi.")]),
    ({"type": "assistant", "subtype": "text", "content": "Hi."}, [ResponseEvent("Hi.")]),
    (
        answer({"type": "thinking", "thinking": "Hm.", "signature": "sig"}),
        [ThinkingEvent("Hm.", "sig")],
    ),
    (
        {"type": "assistant", "subtype": "thinking", "content": "Hm.", "signature": "sig"},
        [ThinkingEvent("Hm.", "sig")],
    ),
    (answer({"type": "thinking", "thinking": "Hm."}), [ThinkingEvent("Hm.")]),
    (answer(CALL), [ToolCallEvent("t1", "Bash", {"command": "ls"})]),
    (
        {**CALL, "type": "assistant", "subtype": "tool_use", "id": None, "tool_use_id": "t1"},
        [ToolCallEvent("t1", "Bash", {"command": "ls"})],
    ),
    (
        answer({"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}),
        [ToolCallEvent("s1", "web_search", {}, server_tool=True)],
    ),
    (
        {"type": "assistant", "subtype": "server_tool_use", "id": "s1", "name": "web_search"},
        [ToolCallEvent("s1", "web_search", {}, server_tool=True)],
    ),
    (
        {
            "type": "assistant",
            "subtype": "server_tool_use",
            "tool_use_id": "s2",
            "name": "web_search",
        },
        [ToolCallEvent("s2", "web_search", {}, server_tool=True)],
    ),
    (
        answer({"type": "text", "text": "I look."}, CALL),
        [ResponseEvent("I look."), ToolCallEvent("t1", "Bash", {"command": "ls"})],
    ),
    (
        user_line(
            [{"type": "tool_result", "tool_use_id": "t1", "content": "a b", "is_error": True}]
        ),
        [ToolResultEvent("a b", "t1", is_error=True)],
    ),
    (
        {
            "type": "tool",
            "subtype": "result",
            "tool_use_id": "t1",
            "content": [{"type": "text", "text": "a"}],
        },
        [ToolResultEvent("a", "t1")],
    ),
    (user_line("Hello"), [PromptEvent("Hello", "user")]),
    ({"type": "user", "content": "Hello"}, [PromptEvent("Hello", "user")]),
    (
        user_line([{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]),
        [PromptEvent("one\n\ntwo", "user")],
    ),
    (
        user_line([{"type": "image", "source": {"type": "base64", "media_type": "image/png"}}]),
        [PromptEvent("[image image/png]")],
    ),
]


@pytest.mark.req("S2-33", "S2-34", "S2-35")
@pytest.mark.parametrize(("value", "events"), KINDS)
def test_each_line_type_gives_its_event(value: Json, events: list[Payload]) -> None:
    assert payloads(value) == events


@pytest.mark.req("S2-32")
def test_init_line_gives_session_tools_and_model() -> None:
    init = {"type": "system", "subtype": "init", "session_id": "s", "tools": ["Bash"], "model": "m"}
    events = parse_claude_line(line({**init, "slash_commands": ["x"]}))
    expected = {"session_id": "s", "tools": ["Bash"], "model": "m"}
    assert [event.payload for event in events.events] == [SystemEvent("init", metadata=expected)]
    assert events.session == "s"


@pytest.mark.req("S2-32")
@pytest.mark.parametrize("name", ["compact_metadata", "compactMetadata", "metadata", None])
def test_compaction_gives_trigger_and_token_count(name: str | None) -> None:
    about = {"trigger": "auto", "pre_tokens": 90_000}
    boundary = {"type": "system", "subtype": "compact_boundary", **(about if name is None else {})}
    events = payloads(boundary if name is None else {**boundary, name: about})
    assert events == [SystemEvent("compact_boundary", metadata=about)]


def test_compaction_gives_the_remaining_context() -> None:
    preserved = {"preserved_messages": {"uuids": ["u1", 7, "u2"]}}
    boundary = {"type": "system", "subtype": "compact_boundary", "compact_metadata": preserved}
    assert parse_claude_line(line(boundary)).preserved == ("u1", "u2")


@pytest.mark.req("S2-36")
@pytest.mark.parametrize(
    "status",
    ["success", "error_max_turns", "error_during_execution", "error_max_budget_usd"],
)
def test_result_line_gives_a_metric(status: str) -> None:
    usage = {
        "input_tokens": 5,
        "output_tokens": 7,
        "cache_read_input_tokens": 100,
        "cache_creation_input_tokens": 20,
    }
    end = {"type": "result", "subtype": status, "usage": usage, "total_cost_usd": 0.25}
    assert payloads({**end, "duration_ms": 1500, "num_turns": 2}) == [
        MetricEvent(
            input_tokens=5,
            output_tokens=7,
            cache_read_tokens=100,
            cache_write_tokens=20,
            cost_usd=0.25,
            duration_seconds=1.5,
            turn_count=2,
            status=status,
        )
    ]


@pytest.mark.req("S2-31")
@pytest.mark.parametrize(
    ("value", "raw"),
    [
        (b'{"type": "of_tomorrow", "a": 1}\n', '{"type": "of_tomorrow", "a": 1}'),
        (b"[1]\n", "[1]"),
        (b"no JSON\n", '"no JSON"'),
        (b"\xff\n", '"\\ufffd"'),
    ],
)
def test_unknown_lines_are_kept_unchanged(value: bytes, raw: str) -> None:
    assert [event.payload for event in parse_claude_line(value).events] == [OutputEvent(raw)]


def test_unknown_block_of_an_answer_is_kept_unchanged() -> None:
    (payload,) = payloads(answer({"type": "of_tomorrow", "a": 1}))
    assert isinstance(payload, OutputEvent)
    assert json.loads(payload.raw) == {"type": "of_tomorrow", "a": 1}


def test_partial_message_and_empty_line_give_no_event() -> None:
    assert payloads({"type": "stream_event", "event": {}}) == []
    assert parse_claude_line(b"\n").events == ()


def test_subagent_line_names_its_agent_and_call() -> None:
    tool_line = {**answer(CALL), "parent_tool_use_id": "t9"}
    events = parse_claude_line(line(tool_line))
    assert (events.agent, events.call) == ("t9", "t9")
    events = parse_claude_line(line({**tool_line, "agent_id": "a1"}))
    assert (events.agent, events.call) == ("a1", "t9")


def test_lines_of_one_response_share_id_and_metadata() -> None:
    tool_line = answer(CALL)
    tool_line["message"]["usage"] = {"input_tokens": 3}
    events = parse_claude_line(line({**tool_line, "timestamp": "2026-11-21T20:00:00.005Z"}))
    assert (events.message, events.uuid, events.session) == ("msg_1", "u1", "s")
    assert events.source == {"model": "m", "usage": {"input_tokens": 3}}
    assert [event.timestamp for event in events.events] == ["2026-11-21T20:00:00.005000Z"]
