"""Output lines of Codex, decoded to events."""

from __future__ import annotations

import json
from typing import Any

import pytest

from harken.capture.live.codex import CodexLines
from harken.formats.events import (
    ErrorEvent,
    MetricEvent,
    OutputEvent,
    Payload,
    ResponseEvent,
    SystemEvent,
    ThinkingEvent,
    ToolCallEvent,
    ToolResultEvent,
)

Json = dict[str, Any]


def payloads(*values: Json) -> list[Payload]:
    lines = CodexLines()
    parsed = [lines.parse_line(json.dumps(value).encode()) for value in values]
    return [event.payload for parsed_line in parsed for event in parsed_line.events]


def item_started(**item: object) -> Json:
    return {"type": "item.started", "item": {"id": "item_1", **item}}


def item_completed(**item: object) -> Json:
    return {"type": "item.completed", "item": {"id": "item_1", **item}}


SHELL = {"type": "command_execution", "command": "ls"}
CALL = ToolCallEvent("item_1", "command_execution", {"command": "ls"})
KINDS: list[tuple[list[Json], list[Payload]]] = [
    ([item_completed(type="agent_message", text="Hi.")], [ResponseEvent("Hi.")]),
    ([item_completed(type="reasoning", text="Hm.")], [ThinkingEvent("Hm.")]),
    ([item_started(type="reasoning", text="")], []),
    ([item_completed(type="error", message="No.")], [ErrorEvent("No.")]),
    ([{"type": "error", "message": "No."}], [ErrorEvent("No.")]),
    ([{"type": "turn.started"}], [SystemEvent("turn_started")]),
    ([item_started(**SHELL, status="in_progress", aggregated_output="", exit_code=None)], [CALL]),
    (
        [
            item_started(**SHELL),
            item_completed(**SHELL, status="completed", aggregated_output="a\n", exit_code=0),
        ],
        [CALL, ToolResultEvent("a\n", "item_1")],
    ),
    (
        [item_completed(**SHELL, status="failed", aggregated_output="no\n", exit_code=3)],
        [CALL, ToolResultEvent("no\n", "item_1", is_error=True)],
    ),
    (
        [
            item_completed(
                type="mcp_tool_call",
                server="files",
                tool="read",
                arguments={"path": "a"},
                result={"content": [{"type": "text", "text": "text of a"}]},
                status="completed",
            )
        ],
        [
            ToolCallEvent("item_1", "files.read", {"path": "a"}),
            ToolResultEvent("text of a", "item_1"),
        ],
    ),
    (
        [item_completed(type="mcp_tool_call", server="s", tool="t", error={"message": "No."})],
        [ToolCallEvent("item_1", "s.t"), ToolResultEvent("No.", "item_1", is_error=True)],
    ),
    (
        [
            item_completed(
                type="file_change", changes=[{"path": "a", "kind": "add"}], status="completed"
            )
        ],
        [
            ToolCallEvent("item_1", "file_change", {"changes": [{"path": "a", "kind": "add"}]}),
            ToolResultEvent("completed", "item_1"),
        ],
    ),
    (
        [
            item_completed(
                type="collab_tool_call", tool="wait", agents_states={"t": {"status": "done"}}
            )
        ],
        [
            ToolCallEvent("item_1", "wait"),
            ToolResultEvent('{"t":{"status":"done"}}', "item_1"),
        ],
    ),
    (
        [{"type": "turn.completed", "usage": {"input_tokens": 9, "cached_input_tokens": 4}}],
        [MetricEvent(input_tokens=9, cache_read_tokens=4, status="success")],
    ),
    (
        [{"type": "turn.failed", "error": {"message": "No."}}],
        [ErrorEvent("No."), MetricEvent(status="error_during_execution")],
    ),
]


@pytest.mark.parametrize(("value", "events"), KINDS)
def test_each_line_type_gives_its_event(value: list[Json], events: list[Payload]) -> None:
    assert payloads(*value) == events


def test_thread_started_line_names_the_session() -> None:
    parsed_line = CodexLines().parse_line(b'{"type": "thread.started", "thread_id": "01a1"}')
    assert parsed_line.session == "01a1"
    expected = SystemEvent("init", metadata={"session_id": "01a1"})
    assert [event.payload for event in parsed_line.events] == [expected]


@pytest.mark.parametrize(
    "value",
    [
        {"type": "of_tomorrow"},
        {"type": "item.updated", "item": {"type": "todo_list"}},
        {"type": "item.completed", "item": {"type": "of_tomorrow"}},
        {"type": "item.completed"},
    ],
)
def test_unknown_lines_are_kept_unchanged(value: Json) -> None:
    (payload,) = payloads(value)
    assert isinstance(payload, OutputEvent)
    assert json.loads(payload.raw) == value
