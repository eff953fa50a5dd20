"""Calls of an MCP client that read a home: each is a type with the arguments, and `run`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from msgspec import Struct

from harken.cli.commands.mcp_server.server_home import ServerHome
from harken.world.tool import Tool, ToolContext, typed_tool


class HomeCall(Struct, frozen=True, kw_only=True):
    """A call of a tool. Its fields are the arguments, its docstring describes it."""

    name: ClassVar[str]

    def run(self, home: ServerHome) -> str:
        """Return the result. It blocks. Raises ToolError, HarkenError, OSError."""
        raise NotImplementedError


def make_reading_tools(types: Iterable[type[HomeCall]], home: ServerHome) -> list[Tool]:
    """Return a tool for each type of call."""

    async def run(call: HomeCall, _: ToolContext | None) -> str:
        return await home.run(lambda: call.run(home))

    return [typed_tool(kind, run, name=kind.name, reads_only=True) for kind in types]
