"""`McpServers`: the MCP servers of a world, with their tools, prompts and resources.

A server is started when it is first needed, and the library is imported only then. A server that
cannot be started is reported and blocks no agent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

import msgspec

from harken.core.arguments import format_existing
from harken.core.messages import Content
from harken.errors import ConfigError
from harken.world.mcp.host import McpHost
from harken.world.mcp.server_config import McpServerConfig
from harken.world.mcp.timeout import Progress
from harken.world.result import ToolError
from harken.world.tool import Tool, ToolContext, tool

if TYPE_CHECKING:
    from harken.world.mcp.connection import McpConnection
    from harken.world.mcp.prompts import Prompt

LATE_S = 4.0
PREFIX = "mcp:"
"""The prefix of resources in instructions."""


class McpServerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a server, for a person."""

    name: str
    program: str
    """Its command or URL."""
    origin: str
    state: str
    """`new`, `starting`, `open`, `failed`, `closed`."""
    reason: str = ""
    """The reason why it is unavailable."""
    about: str = ""
    """Its own name and version."""
    tools: tuple[str, ...] = ()
    """The names of its tools for agents."""
    notes: tuple[str, ...] = ()
    reserved: bool = False
    needs_login: bool = False
    """Whether the user must log in first."""


class McpServers:
    """The MCP servers of one world."""

    def __init__(
        self,
        servers: Iterable[McpServerConfig] = (),
        *,
        host: McpHost,
        on_progress: Callable[[Progress], None] | None = None,
        connect: Callable[[McpServerConfig], Any] | None = None,
        late_s: float = LATE_S,
    ) -> None:
        """Create it without connections. `on_progress` is called during long calls.

        connect: returns the transport of a server in place of its program or URL. late_s: the delay
        before a person is told which servers are awaited.
        """
        self.host = host
        self.servers = {server.name: server for server in servers}
        self.on_tools: Callable[[], None] | None = None
        """Called when the tools have changed."""
        self._on_progress, self._connect, self._late_s = on_progress, connect, late_s
        self._connections: dict[str, McpConnection] = {}
        self._tools: dict[str, list[Tool]] = {}
        self._retry_tasks: set[asyncio.Task[None]] = set()
        self._reported: set[str] = set()
        self._resource_tools = self._create_resource_tools()

    @property
    def tools(self) -> dict[str, Tool]:
        """The tools of all servers that were connected once, in the order of the servers."""
        lists = [self._tools[name] for name in self.servers if name in self._tools]
        by_name = {server_tool.name: server_tool for tools in lists for server_tool in tools}
        resource_tools = (
            self._resource_tools if any(map(_has_resources, self._connections.values())) else []
        )
        return by_name | {server_tool.name: server_tool for server_tool in resource_tools}

    def add(self, server: McpServerConfig) -> None:
        """Add a server. Raises ConfigError if another one has its name."""
        existing = self.servers.setdefault(server.name, server)
        if existing != server:
            raise ConfigError(
                f"MCP server {server.name} exists, from {existing.origin or 'the settings'}"
            )

    async def wait_ready(self, granted: Collection[str] = ()) -> None:
        """Wait until the unreserved and the granted servers were tried. Raises nothing.

        Returns at once if all were tried.
        """
        usable = [
            server
            for server in self.servers.values()
            if not server.reserved or server.name in granted
        ]
        untried = [server.name for server in usable if not self._is_tried(server.name)]
        for name in (server.name for server in usable if server.name not in untried):
            if self._connections[name].may_retry:
                self._retry_in_background(name)
        if untried:
            text = f"waiting for MCP servers to start: {', '.join(untried)}"
            timer = asyncio.get_running_loop().call_later(self._late_s, self.host.on_notice, text)
            try:
                await asyncio.gather(*(self._open(name) for name in untried))
            finally:
                timer.cancel()

    def _is_tried(self, name: str) -> bool:
        connection = self._connections.get(name)
        return connection is not None and connection.is_tried

    async def _open(self, name: str, *, quiet: bool = False) -> None:
        try:
            await (await self._connection(name)).open()
        except ToolError as error:
            if not quiet and str(error) not in self._reported:
                self._reported.add(str(error))
                self.host.on_notice(str(error))

    def _retry_in_background(self, name: str) -> None:
        """Retry in the background, without blocking a caller."""
        task = asyncio.get_running_loop().create_task(self._open(name, quiet=True))
        self._retry_tasks.add(task)
        task.add_done_callback(self._retry_tasks.discard)

    async def _connection(self, name: str) -> McpConnection:
        """Return the connection of a server, opened or not. Raises ToolError."""
        if name not in self._connections:
            await _import_library()
            from harken.world.mcp.connection import McpConnection  # noqa: PLC0415 - the extra

            if name not in self._connections:
                self._connections[name] = McpConnection(
                    self.servers[name],
                    self.host,
                    changed=lambda: self._update_tools(name),
                    connect=self._connect,
                )
        return self._connections[name]

    def _update_tools(self, name: str) -> None:
        """Update the tools of a server."""
        from harken.world.mcp.tools import tools_of  # noqa: PLC0415 - the extra

        self._tools[name] = tools_of(self._connections[name], self._on_progress)
        if self.on_tools is not None:
            self.on_tools()

    async def close(self) -> None:
        """Close all connections. Raises nothing."""
        for task in self._retry_tasks:
            with suppress(RuntimeError):  # The task may belong to a closed loop.
                task.cancel()
        await asyncio.gather(*(connection.close() for connection in self._connections.values()))

    def describe(self) -> list[McpServerInfo]:
        """Return all servers, for a person."""
        return [self._describe(server) for server in self.servers.values()]

    def _describe(self, server: McpServerConfig) -> McpServerInfo:
        connection = self._connections.get(server.name)
        return McpServerInfo(
            name=server.name,
            program=server.program,
            origin=server.origin,
            state="new" if connection is None else connection.state,
            reason="" if connection is None else connection.required_action or connection.reason,
            about="" if connection is None else connection.description,
            tools=tuple(server_tool.name for server_tool in self._tools.get(server.name, ())),
            notes=() if connection is None else tuple(connection.notes),
            reserved=server.reserved,
            needs_login=connection is not None and connection.needs_login,
        )

    async def prompts(self) -> list[Prompt]:
        """Return the prompts of all unreserved servers; failing servers are skipped."""
        await self.wait_ready()
        prompts: list[Prompt] = []
        for name, connection in self._connections.items():
            if connection.state == "open" and not self.servers[name].reserved:
                from harken.world.mcp.prompts import prompts_in  # noqa: PLC0415 - the extra

                with suppress(ToolError):
                    prompts += await prompts_in(connection)
        return prompts

    async def get_prompt(
        self, server: str, name: str, arguments: Mapping[str, str] | None = None
    ) -> str:
        """Return the text of a prompt with these arguments. Raises ToolError."""
        if server not in self.servers:
            existing = format_existing(self.servers, "servers")
            raise ToolError(f"MCP server {server!r} not found{existing}")
        connection = await self._connection(server)
        from harken.world.mcp.prompts import prompt_text  # noqa: PLC0415 - the extra

        return await prompt_text(connection, name, arguments or {})

    async def resource_text(self, resource: str, granted: Collection[str] = ()) -> str:
        """Return the text of a resource, named `SERVER/URI`. Raises ToolError if there is none."""
        await self.wait_ready(granted)
        from harken.world.mcp import resources  # noqa: PLC0415 - the extra

        return await resources.text(
            *resources.parse_resource_uri(resource, self._find_with_resources(granted))
        )

    def _find_with_resources(self, granted: Collection[str]) -> dict[str, McpConnection]:
        """Return the connections with resources that an agent may use."""
        return {
            name: connection
            for name, connection in self._connections.items()
            if _has_resources(connection) and (name in granted or not connection.server.reserved)
        }

    def _create_resource_tools(self) -> list[Tool]:
        """Create the tools with which agents read resources."""

        @tool(reads_only=True)
        async def mcp_resources(
            caller: ToolContext, server: str | None = None, cursor: str | None = None
        ) -> str:
            """List what MCP servers have to read: `SERVER/URI`, its kind, what it is.

            Without `server` that of all; `cursor` goes on where a list ended. `mcp_read` reads one;
            `task` takes one as instructions, as `mcp:SERVER/URI`.
            """
            from harken.world.mcp import resources  # noqa: PLC0415 - the extra

            connections = self._find_with_resources(granted_to(caller))
            if server is not None and server not in connections:
                existing = format_existing(connections, "servers")
                raise ToolError(f"server {server!r} with resources not found{existing}")
            selected = connections.values() if server is None else [connections[server]]
            return await resources.listing(selected, None if server is None else cursor)

        @tool(reads_only=True)
        async def mcp_read(caller: ToolContext, resource: str) -> Content:
            """Read a resource of an MCP server, named as `mcp_resources` lists it: SERVER/URI."""
            from harken.world.mcp import resources  # noqa: PLC0415 - the extra

            matching_servers = self._find_with_resources(granted_to(caller))
            return await resources.content(
                *resources.parse_resource_uri(resource, matching_servers)
            )

        return [mcp_resources, mcp_read.with_subject(by="resource")]


def _has_resources(connection: McpConnection) -> bool:
    return connection.capabilities.resources is not None


def granted_to(caller: ToolContext | None) -> Collection[str]:
    """Return the servers that an agent was given by name."""
    granted: Collection[str] = getattr(caller.agent, "_servers", ()) if caller is not None else ()
    return granted


async def _import_library() -> None:
    """Import the library in a thread, because it is slow. Raises ToolError if it is missing."""
    try:
        await asyncio.to_thread(import_module, "harken.world.mcp.tools")
    except ImportError as error:
        raise ToolError(
            f"MCP servers need the extra `mcp`: pip install 'harken[mcp]' ({error})"
        ) from None
