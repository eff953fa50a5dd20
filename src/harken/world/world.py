"""`World`: what agents act on, as a protocol.

A world has tools and runs them. `LocalWorld` runs them in this process; a recorded session is a
world, too. A class that inherits from `World` implements `tools` and `call_tool`; all other members
have defaults for a world without a folder, a user, permissions, triggers or connections.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Protocol

from harken.world.result import ToolError

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from harken.core.messages import FunctionCall
    from harken.world.files.read_state import KnownFiles
    from harken.world.mcp.servers import McpServers
    from harken.world.permissions.permissions import Permissions
    from harken.world.result import ToolResult
    from harken.world.tool import Tool, ToolContext
    from harken.world.triggers.sources import Sources
    from harken.world.user import User
    from harken.world.web.search import Web


class World(Protocol):
    """The tools that agents can call, and the objects that agents share with them."""

    tools: dict[str, Tool]
    """The tools by name. It may change between two calls of `wait_ready`."""
    folder: Path | None = None
    """The folder at which relative paths start, or None."""
    user: User | None = None
    """The user whom tools may ask, or None."""
    permissions: Permissions | None = None
    """The permissions that `call_tool` checks. None allows all calls."""
    sources: Sources | None = None
    """The sources of triggers that can start turns of agents, or None."""
    web: Web | None = None
    """The web search of agents, or None."""
    mcp: McpServers | None = None
    """The connections to MCP servers, or None."""
    logs_starts: bool = False
    """Whether `call_tool` calls `caller.log_start()` before a tool that is not idempotent acts. If
    not, the agent logs the start before `call_tool`."""
    _variables: dict[str, Any] | None = None
    _environment: dict[str, str] | None = None
    _file_states: KnownFiles | None = None

    async def call_tool(self, action: FunctionCall, caller: ToolContext) -> ToolResult:
        """Run a tool for an agent. A failure of the tool is a result, not an exception.

        The caller has already checked that the agent may use the tool.
        """
        ...

    async def wait_ready(self, servers: Collection[str] = ()) -> None:
        """Wait until the tools are available. Call it before each model request.

        `servers` are the MCP servers that the requesting agent was given by name. Raises nothing.
        """
        return  # Tools in this process are always available.

    async def close(self) -> None:
        """Close the connections of the world."""
        return

    @property
    def variables(self) -> dict[str, Any]:
        """Variables that tools and hooks share, for the lifetime of the process."""
        if self._variables is None:
            self._variables = {}
        return self._variables

    @property
    def environment(self) -> dict[str, str]:
        """Variables that hooks set for the programs that agents run."""
        if self._environment is None:
            self._environment = {}
        return self._environment

    @property
    def file_states(self) -> KnownFiles:
        """The file content that each agent has read; tools and hooks read and update it."""
        if self._file_states is None:
            from harken.world.files.read_state import KnownFiles  # noqa: PLC0415 - heavy

            self._file_states = KnownFiles(self.folder)
        return self._file_states

    def exclusive(self, resource: str = "") -> AbstractAsyncContextManager[object]:
        """Return a context in which the caller alone changes a resource."""
        return nullcontext()

    async def instructions(self, reference: str, caller: ToolContext) -> str:
        """Return the instructions that `file:PATH` or `mcp:SERVER/URI` names. Raises ToolError."""
        raise ToolError(f"this world has no instructions: {reference}")

    def read_instructions(self, path: str, caller: ToolContext | None = None) -> str:
        """Return the text of an instructions file. Raises ToolError."""
        raise ToolError(f"this world has no folder to read instructions from: {path}")
