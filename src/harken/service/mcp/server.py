"""An MCP server of tools: their schemas are listed, and calls are validated and run.

Nothing raises through a call: an error is a result with one line, which the model reads. The text
of a result is data from outside, so its control characters are escaped.

Source: https://modelcontextprotocol.io/specification/2025-11-25/server/tools
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from traceback import extract_tb
from typing import Any

import msgspec
from mcp.server.lowlevel import Server
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    TextContent,
    ToolAnnotations,
)
from mcp_types import Tool as McpTool

from harken.core.messages import text_of
from harken.errors import HarkenError
from harken.world.result import ToolError
from harken.world.tool import Tool

MAX_RESULT_CHARS = 60_000
"""The limit of a result. Tools return pages that are shorter; this holds for all of them."""
MAX_ERROR_CHARS = 2_000
log = logging.getLogger("harken.service.mcp")


class ToolServer(msgspec.Struct, frozen=True, kw_only=True):
    """Tools, and how their results are made safe."""

    tools: Sequence[Tool]
    instructions: str
    """What the server is for; clients show it to the model."""
    escape: Callable[[str], str]
    """Escapes control characters."""

    def build(self) -> Server[Any]:
        """Return the server. One server serves one client on stdio, or many over HTTP."""

        async def list_tools(*_: object) -> ListToolsResult:
            return ListToolsResult(tools=[describe_tool(tool) for tool in self.tools])

        async def call_tool(_: object, params: CallToolRequestParams) -> CallToolResult:
            return await self.call(params.name, params.arguments or {})

        return Server(
            "harken",
            version=version("harken"),
            title="Harken",
            instructions=self.instructions,
            on_list_tools=list_tools,
            on_call_tool=call_tool,
        )

    async def call(self, name: str, arguments: dict[str, Any]) -> CallToolResult:
        """Run a tool. An error is a result."""
        tool = next((tool for tool in self.tools if tool.name == name), None)
        if tool is None:
            names = ", ".join(tool.name for tool in self.tools)
            return self._build_result(f"no tool {name[:100]!r}; tools: {names}", is_error=True)
        try:
            text = text_of(await tool.run(arguments))
        except asyncio.CancelledError:
            raise
        except Exception as error:  # noqa: BLE001 - the border: no call ends the server
            text = _describe_failure(error) or _report_bug(name, error)
            return self._build_result(text, is_error=True)
        return self._build_result(text)

    def _build_result(self, text: str, *, is_error: bool = False) -> CallToolResult:
        safe = self.escape(" ".join(text.split())[:MAX_ERROR_CHARS] if is_error else text)
        hidden = len(safe) - MAX_RESULT_CHARS
        if hidden > 0:
            safe = f"{safe[:MAX_RESULT_CHARS]}\n({hidden:,} more characters are left out)"
        return CallToolResult(content=[TextContent(type="text", text=safe)], is_error=is_error)


def describe_tool(tool: Tool) -> McpTool:
    """Return the definition of a tool for clients."""
    return McpTool(
        name=tool.name,
        description=tool.description,
        input_schema=dict(tool.parameters),
        annotations=ToolAnnotations(
            read_only_hint=tool.reads_only,
            destructive_hint=False,
            idempotent_hint=tool.idempotent,
            open_world_hint=tool.sends_data,
        ),
    )


def _describe_failure(error: Exception) -> str:
    """Return the text of a failure for the model, or an empty text for a bug."""
    if isinstance(error, ToolError | HarkenError):
        return str(error)
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror or error}"
    return ""


def _report_bug(name: str, error: Exception) -> str:
    """Log a bug, with its location and nothing of the call. Return the text for the model."""
    last = extract_tb(error.__traceback__)[-1]
    location = f"{Path(last.filename).name}, line {last.lineno}"
    kind = type(error).__name__
    log.error("a bug in Harken (%s of %s in %s): please report it", kind, name, location)
    return f"a bug in Harken ({kind}: {error})"
