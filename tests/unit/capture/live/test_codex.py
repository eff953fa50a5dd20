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
    found = [lines.parse_line(json.dumps(value).encode()) for value in values]
    return [event.payload for one in found for event in one.events]


def begun(**item: object) -> Json:
    return {"type": "item.started", "item": {"id": "item_1", **item}}


def done(**item: object) -> Json:
    return {"type": "item.completed", "item": {"id": "item_1", **item}}


SHELL = {"type": "command_execution", "command": "ls"}
CALL = ToolCallEvent("item_1", "command_execution", {"command": "ls"})
KINDS: list[tuple[list[Json], list[Payload]]] = [
    ([done(type="agent_message", text="Hi.")], [ResponseEvent("Hi.")]),
    ([done(type="reasoning", text="Hm.")], [ThinkingEvent("Hm.")]),
    ([begun(type="reasoning", text="")], []),
    ([done(type="error", message="No.")], [ErrorEvent("No.")]),
    ([{"type": "error", "message": "No."}], [ErrorEvent("No.")]),
    ([{"type": "turn.started"}], [SystemEvent("turn_started")]),
    ([begun(**SHELL, status="in_progress", aggregated_output="", exit_code=None)], [CALL]),
    (
        [begun(**SHELL), done(**SHELL, status="completed", aggregated_output="a\n", exit_code=0)],
        [CALL, ToolResultEvent("a\n", "item_1")],
    ),
    (
        [done(**SHELL, status="failed", aggregated_output="no\n", exit_code=3)],
        [CALL, ToolResultEvent("no\n", "item_1", is_error=True)],
    ),
    (
        [
            done(
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
        [done(type="mcp_tool_call", server="s", tool="t", error={"message": "No."})],
        [ToolCallEvent("item_1", "s.t"), ToolResultEvent("No.", "item_1", is_error=True)],
    ),
    (
        [done(type="file_change", changes=[{"path": "a", "kind": "add"}], status="completed")],
        [
            ToolCallEvent("item_1", "file_change", {"changes": [{"path": "a", "kind": "add"}]}),
            ToolResultEvent("completed", "item_1"),
        ],
    ),
    (
        [done(type="collab_tool_call", tool="wait", agents_states={"t": {"status": "done"}})],
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


@pytest.mark.parametrize(("said", "events"), KINDS)
def test_each_line_type_gives_its_event(said: list[Json], events: list[Payload]) -> None:
    assert payloads(*said) == events


def test_thread_started_line_names_the_session() -> None:
    found = CodexLines().parse_line(b'{"type": "thread.started", "thread_id": "01a1"}')
    assert found.session == "01a1"
    expected = SystemEvent("init", metadata={"session_id": "01a1"})
    assert [event.payload for event in found.events] == [expected]


@pytest.mark.parametrize(
    "said",
    [
        {"type": "of_tomorrow"},
        {"type": "item.updated", "item": {"type": "todo_list"}},
        {"type": "item.completed", "item": {"type": "of_tomorrow"}},
        {"type": "item.completed"},
    ],
)
def test_unknown_lines_are_kept_unchanged(said: Json) -> None:
    (found,) = payloads(said)
    assert isinstance(found, OutputEvent)
    assert json.loads(found.raw) == said
