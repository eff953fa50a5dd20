"""`McpServers`: the MCP servers of a world, and all that agents and people have of them.

A server is started when it is first needed, and the library is imported only then. One that cannot
be started is told of, and keeps nobody from working.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

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
"""Before a resource, where instructions are given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class McpServerInfo:
    """A server, for a person."""

    name: str
    program: str
    """What is run, or the address."""
    origin: str
    state: str
    """`new`, `starting`, `open`, `failed`, `closed`."""
    reason: str = ""
    """Why it is away."""
    about: str = ""
    """What it calls itself."""
    tools: tuple[str, ...] = ()
    """Its tools, as agents have them."""
    notes: tuple[str, ...] = ()
    reserved: bool = False
    needs_login: bool = False
    """Whether it lets nobody in before the user logs in."""


class McpServers:
    """The servers of one world."""

    def __init__(
        self,
        servers: Iterable[McpServerConfig] = (),
        *,
        around: McpHost,
        on_progress: Callable[[Progress], None] | None = None,
        connect: Callable[[McpServerConfig], Any] | None = None,
        late_s: float = LATE_S,
    ) -> None:
        """Nothing is started yet. `on_progress` is told a `Progress` of calls that go on.

        connect: gives the transport of a server in place of its program or address. late_s: after
        how long a person is told which servers are waited for.
        """
        self.around = around
        self.servers = {server.name: server for server in servers}
        self.on_tools: Callable[[], None] | None = None
        """Told when there are other tools than before."""
        self._on_progress, self._connect, self._late_s = on_progress, connect, late_s
        self._connections: dict[str, McpConnection] = {}
        self._tools: dict[str, list[Tool]] = {}
        self._retrying: set[asyncio.Task[None]] = set()
        self._told: set[str] = set()
        self._reading = self._reading_tools()

    @property
    def tools(self) -> dict[str, Tool]:
        """The tools of all servers that were connected once, in the order of the servers."""
        lists = [self._tools[name] for name in self.servers if name in self._tools]
        found = {one.name: one for tools in lists for one in tools}
        reading = self._reading if any(map(_has_resources, self._connections.values())) else []
        return found | {one.name: one for one in reading}

    def add(self, server: McpServerConfig) -> None:
        """Add a server. Raises ConfigError where another one has its name."""
        before = self.servers.setdefault(server.name, server)
        if before != server:
            raise ConfigError(
                f"there is another MCP server {server.name}, of {before.origin or 'the settings'}"
            )

    async def ready(self, granted: Collection[str] = ()) -> None:
        """Wait until each server was tried that anybody may use, or that is named. Raises nothing.

        Costs nothing where all were.
        """
        wanted = [s for s in self.servers.values() if not s.reserved or s.name in granted]
        waiting = [s.name for s in wanted if not self._is_tried(s.name)]
        for name in (server.name for server in wanted if server.name not in waiting):
            if self._connections[name].may_retry:
                self._retry(name)
        if waiting:
            text = f"waiting for MCP servers to start: {', '.join(waiting)}"
            late = asyncio.get_running_loop().call_later(self._late_s, self.around.tell, text)
            try:
                await asyncio.gather(*(self._open(name) for name in waiting))
            finally:
                late.cancel()

    def _is_tried(self, name: str) -> bool:
        connection = self._connections.get(name)
        return connection is not None and connection.is_tried

    async def _open(self, name: str, *, quiet: bool = False) -> None:
        try:
            await (await self._connection(name)).open()
        except ToolError as error:
            if not quiet and str(error) not in self._told:
                self._told.add(str(error))
                self.around.tell(str(error))

    def _retry(self, name: str) -> None:
        """Try again, without letting anybody wait: nobody has asked for it."""
        task = asyncio.get_running_loop().create_task(self._open(name, quiet=True))
        self._retrying.add(task)
        task.add_done_callback(self._retrying.discard)

    async def _connection(self, name: str) -> McpConnection:
        """Return the connection of a server, opened or not. Raises ToolError."""
        if name not in self._connections:
            await _library()
            from harken.world.mcp.connection import McpConnection  # noqa: PLC0415 - the extra

            if name not in self._connections:
                self._connections[name] = McpConnection(
                    self.servers[name],
                    self.around,
                    changed=lambda: self._take(name),
                    connect=self._connect,
                )
        return self._connections[name]

    def _take(self, name: str) -> None:
        """Take over the tools that a server has now."""
        from harken.world.mcp.tools import tools_of  # noqa: PLC0415 - the extra

        self._tools[name] = tools_of(self._connections[name], self._on_progress)
        if self.on_tools is not None:
            self.on_tools()

    async def close(self) -> None:
        """End all connections. Raises nothing."""
        for task in self._retrying:
            with suppress(RuntimeError):  # it is of a loop that is closed
                task.cancel()
        await asyncio.gather(*(one.close() for one in self._connections.values()))

    def describe(self) -> list[McpServerInfo]:
        """Return all servers, for a person."""
        return [self._described(server) for server in self.servers.values()]

    def _described(self, server: McpServerConfig) -> McpServerInfo:
        connection = self._connections.get(server.name)
        return McpServerInfo(
            name=server.name,
            program=server.program,
            origin=server.origin,
            state="new" if connection is None else connection.state,
            reason="" if connection is None else connection.wants or connection.reason,
            about="" if connection is None else connection.about,
            tools=tuple(one.name for one in self._tools.get(server.name, ())),
            notes=() if connection is None else tuple(connection.notes),
            reserved=server.reserved,
            needs_login=connection is not None and connection.needs_login,
        )

    async def prompts(self) -> list[Prompt]:
        """Return the prompts of all servers that anybody may use; one that fails has none."""
        await self.ready()
        found: list[Prompt] = []
        for name, connection in self._connections.items():
            if connection.state == "open" and not self.servers[name].reserved:
                from harken.world.mcp.prompts import prompts_in  # noqa: PLC0415 - the extra

                with suppress(ToolError):
                    found += await prompts_in(connection)
        return found

    async def get_prompt(
        self, server: str, name: str, arguments: Mapping[str, str] | None = None
    ) -> str:
        """Return what a prompt says, with these arguments. Raises ToolError."""
        if server not in self.servers:
            there = ", ".join(self.servers) or "none"
            raise ToolError(f"there is no MCP server {server!r}; there is: {there}")
        connection = await self._connection(server)
        from harken.world.mcp.prompts import prompt_text  # noqa: PLC0415 - the extra

        return await prompt_text(connection, name, arguments or {})

    async def resource_text(self, resource: str, granted: Collection[str] = ()) -> str:
        """Return the text of a resource, named `SERVER/URI`. Raises ToolError where it is none."""
        await self.ready(granted)
        from harken.world.mcp import resources  # noqa: PLC0415 - the extra

        return await resources.text(
            *resources.parse_resource_uri(resource, self._readable(granted))
        )

    def _readable(self, granted: Collection[str]) -> dict[str, McpConnection]:
        """Return the servers with resources, of those that somebody may use."""
        return {
            name: connection
            for name, connection in self._connections.items()
            if _has_resources(connection) and (name in granted or not connection.server.reserved)
        }

    def _reading_tools(self) -> list[Tool]:
        """The tools with which agents read resources."""

        @tool(reads_only=True)
        async def mcp_resources(
            caller: ToolContext, server: str | None = None, cursor: str | None = None
        ) -> str:
            """List what MCP servers have to read: `SERVER/URI`, its kind, what it is.

            Without `server` that of all; `cursor` goes on where a list ended. `mcp_read` reads one;
            `task` takes one as instructions, as `mcp:SERVER/URI`.
            """
            from harken.world.mcp import resources  # noqa: PLC0415 - the extra

            found = self._readable(granted_to(caller))
            if server is not None and server not in found:
                there = ", ".join(found) or "none"
                raise ToolError(f"there is no server {server!r} with resources; there is: {there}")
            asked = found.values() if server is None else [found[server]]
            return await resources.listing(asked, None if server is None else cursor)

        @tool(reads_only=True)
        async def mcp_read(caller: ToolContext, resource: str) -> Content:
            """Read a resource of an MCP server, named as `mcp_resources` lists it: SERVER/URI."""
            from harken.world.mcp import resources  # noqa: PLC0415 - the extra

            there = self._readable(granted_to(caller))
            return await resources.content(*resources.parse_resource_uri(resource, there))

        return [mcp_resources, mcp_read.with_subject(by="resource")]


def _has_resources(connection: McpConnection) -> bool:
    return connection.capabilities.resources is not None


def granted_to(caller: ToolContext | None) -> Collection[str]:
    """Return the servers that an agent was given by name."""
    granted: Collection[str] = getattr(caller.agent, "servers", ()) if caller is not None else ()
    return granted


async def _library() -> None:
    """Import what takes long to import, in a thread. Raises ToolError where it is not installed."""
    try:
        await asyncio.to_thread(import_module, "harken.world.mcp.tools")
    except ImportError as error:
        raise ToolError(
            f"MCP servers need the extra mcp: pip install 'harken[mcp]' ({error})"
        ) from None
