"""`harken mcp-server` as a process, and the official client of the SDK that talks with it."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp_types import TextContent

from tests.forks.processes import write_command


@dataclass(frozen=True)
class McpPeer:
    """A connection to a server."""

    client: Client

    async def call(self, tool: str, /, **arguments: Any) -> tuple[bool, str]:
        """Call a tool; return whether the result is an error, and its text."""
        result = await self.client.call_tool(tool, arguments)
        (content,) = result.content
        assert isinstance(content, TextContent)
        return result.is_error, content.text

    async def ok(self, tool: str, /, **arguments: Any) -> str:
        """Call a tool that works; return the text of its result."""
        is_error, text = await self.call(tool, **arguments)
        assert not is_error, text
        return text

    async def refused(self, tool: str, /, **arguments: Any) -> str:
        """Call a tool that cannot be done; return the one line that says why."""
        is_error, text = await self.call(tool, **arguments)
        assert is_error, text
        assert "\n" not in text
        assert "Traceback" not in text
        assert "bug in Harken" not in text
        return text


@asynccontextmanager
async def mcp_server(
    home: Path, *options: str, mode: str = "auto", environ: Mapping[str, str] | None = None
) -> AsyncIterator[McpPeer]:
    """Start a server for one client, and connect to it."""
    parameters = StdioServerParameters(
        command=str(write_command(home.parent / "programs")),
        args=["mcp-server", "--home", str(home), *options],
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "HARKEN_PRINCIPAL": "ann",
            **(environ or {}),
        },
        cwd=home.parent,
    )
    async with Client(stdio_client(parameters), mode=mode) as client:
        yield McpPeer(client)
