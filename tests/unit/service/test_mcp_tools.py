"""Results of an MCP server: every failure is one line, and every text can be sent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from mcp_types import CallToolResult, TextContent

from harken.errors import NameNotFound
from harken.service.mcp.server import MAX_RESULT_CHARS, ToolServer, describe_tool
from harken.terminal.text import escape_control_characters
from harken.world.result import ToolError
from harken.world.tool import Tool, tool


def _raise(error: BaseException) -> str:
    raise error


def _call(function: Callable[[], str], name: str = "talk") -> CallToolResult:
    @tool
    def talk() -> str:
        """Say something."""
        return function()

    server = ToolServer(tools=[talk], instructions="", escape=escape_control_characters)
    return asyncio.run(server.call(name, {}))


def _text(result: CallToolResult) -> str:
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ToolError("no\n  way"), "no way"),
        (NameNotFound("ticket", "x\x1b", []), r"\x1b"),
        (OSError(28, "No space left on device", "store.db"), "store.db: No space left on device"),
        (RuntimeError("boom"), "a bug in Harken (RuntimeError: boom)"),
        (SystemExit(3), "a bug in Harken (RuntimeError: SystemExit: 3)"),
    ],
)
def test_a_failure_is_a_result_of_one_line(error: BaseException, text: str) -> None:
    result = _call(lambda: _raise(error))
    assert result.is_error
    assert text in _text(result)
    assert "\n" not in _text(result)


def test_a_bug_is_logged_without_the_data_of_the_call(caplog: pytest.LogCaptureFixture) -> None:
    _call(lambda: _raise(RuntimeError("a secret")))
    [record] = caplog.records
    assert record.getMessage().startswith("a bug in Harken (RuntimeError of talk in test_mcp_tools")
    assert "secret" not in caplog.text


def test_an_unknown_tool_is_a_result() -> None:
    result = _call(lambda: "", name="sing" * 1000)
    assert result.is_error
    assert _text(result).endswith("tools: talk")
    assert len(_text(result)) < 200


def test_any_text_can_be_sent() -> None:
    result = _call(lambda: "half \ud800 \x1b[31m\n" + "x" * 10 * MAX_RESULT_CHARS)
    assert not result.is_error
    result.model_dump_json()
    text = _text(result)
    assert text.startswith("half \\ud800 \\x1b[31m\nxxx")
    assert len(text) < MAX_RESULT_CHARS + 100
    assert text.endswith(" more characters are left out)")


def test_a_definition_tells_reading_from_changing() -> None:
    def make(*, reads_only: bool) -> Tool:
        def look(at: int) -> None:
            """Look."""

        return tool(reads_only=reads_only)(look)

    for reads_only in (True, False):
        definition = describe_tool(make(reads_only=reads_only))
        assert definition.annotations is not None
        assert definition.annotations.read_only_hint is reads_only
        assert definition.input_schema["required"] == ["at"]
