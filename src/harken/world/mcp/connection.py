"""`McpConnection`: a server, whether it is connected now, and whether it may be started again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Literal, TypeAlias

import mcp_types as types
from mcp import Client
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from harken.errors import ConfigError
from harken.world.mcp.auth.bearer import Bearer
from harken.world.mcp.auth.client_credentials import ProgramBearer
from harken.world.mcp.auth.token_store import Logins
from harken.world.mcp.client_session import McpSession, Work
from harken.world.mcp.errors import one_line
from harken.world.mcp.host import McpHost
from harken.world.mcp.pagination import tools_of
from harken.world.mcp.server_config import McpServerConfig
from harken.world.mcp.server_requests import ServerRequestHandler, ToolCallContext
from harken.world.mcp.timeout import RequestTimeout
from harken.world.mcp.transport.http import http_transport
from harken.world.mcp.transport.stdio import Stdio
from harken.world.result import ToolError

for _name in ("mcp", "client", "httpx2"):
    # Without any handler Python prints warnings on the terminal, which is somebody's screen.
    logging.getLogger(_name).addHandler(logging.NullHandler())

BACKOFF_S = (0.0, 5.0, 30.0, 120.0, 600.0)
"""How long a server that ended is left alone, by how often that happened in a row. One that could
not be started is not started again at once."""
STEADY_S = 60.0
"""A server that ran so long had started well."""
RELIST_S = 1.0
"""How long after a list of tools the next one is asked for."""

State: TypeAlias = Literal["new", "starting", "open", "failed", "closed"]
Connect: TypeAlias = Callable[[McpServerConfig], Any]
"""Gives what the SDK's `Client` takes for a server; tests give servers of their own process."""
OnProgress: TypeAlias = Callable[[float, float | None, str | None], None]
"""Told how far a call is, of how much, and in words."""


class McpConnection:
    """A server, as the agents of a world reach it."""

    def __init__(
        self,
        server: McpServerConfig,
        around: McpHost,
        *,
        changed: Callable[[], None],
        connect: Connect | None = None,
    ) -> None:
        """Nothing is started yet. `changed` is told when the server has other tools."""
        self.server, self.around = server, around
        self.state: State = "new"
        self.reason = ""
        """Why it is not connected, for a person."""
        self.tools: list[types.Tool] = []
        """What it said last that it has; it stays while the server is away."""
        self.capabilities = types.ServerCapabilities()
        self.about = ""
        """What it calls itself, with its version and that of the protocol."""
        self._changed, self._connect = changed, connect
        self._inbound = ServerRequestHandler(server, around, self._relist)
        self._life: McpSession | None = None
        self._bearer: Bearer | None = None
        self._failures, self._retry_at, self._open_since = 0, 0.0, 0.0
        self._looking: asyncio.Task[None] | None = None
        self._look_again = False

    @property
    def notes(self) -> list[str]:
        """What a person was told of it, a line each."""
        return self._inbound.notes

    @property
    def is_tried(self) -> bool:
        """Whether it was opened in the running event loop, or could not be."""
        life = self._life
        here = life is not None and life.loop is asyncio.get_running_loop()
        return here and self.state in ("open", "failed")

    @property
    def may_retry(self) -> bool:
        """Whether it failed, and was left alone for long enough."""
        now = asyncio.get_running_loop().time()
        return self.state == "failed" and now >= self._retry_at

    async def open(self) -> None:
        """Connect where it is not connected. Raises ToolError, which says why not."""
        loop = asyncio.get_running_loop()
        if self._life is not None and self._life.loop is not loop:
            self._life.abandon()  # what ran in another loop has ended with it
            self._life, self.state, self._retry_at = None, "new", 0.0
            self._inbound, self._looking = (
                ServerRequestHandler(self.server, self.around, self._relist),
                None,
            )
        if self.state not in ("starting", "open"):
            if (wait_s := self._retry_at - loop.time()) > 0:
                again = f"it is not started again within {wait_s:.0f} s"
                raise ToolError(
                    f"the MCP server {self.server.name} is away: {self.reason}; {again}"
                )
            self.state = "starting"
            self._life = self._begin(self._life)
        assert self._life is not None
        await asyncio.shield(self._life.opened)

    def _begin(self, before: McpSession | None) -> McpSession:
        stdio: Stdio | None = None
        client: Client | Exception
        try:
            if self._connect is not None:
                transport = self._connect(self.server)
            elif self.server.url is not None:
                transport = self._over_http(self._filled())
            else:
                stdio = transport = Stdio(self._filled(), self.around, self._inbound.tell)
            client = Client(
                transport,
                client_info=types.Implementation(name="harken", version="1"),
                elicitation_callback=self._inbound.elicit,
                list_roots_callback=self._inbound.roots,
                message_handler=self._inbound.hear,
                cache=None,
                mode="auto" if self.server.protocol == "auto" else "legacy",
            )
        except ConfigError as error:
            client = error
        return McpSession(self.server, client, stdio, self, before)

    @property
    def _is_program(self) -> bool:
        """Whether it is used by a program that gets its own tokens."""
        return self.server.oauth.grant == "client_credentials"

    def _over_http(self, filled: McpServerConfig) -> Any:
        logins = None if self.around.logins is None else Logins(self.around.logins)
        self._bearer = ProgramBearer(filled) if self._is_program else Bearer(filled, logins)
        return http_transport(filled, self._inbound.tell, self._bearer)

    @property
    def wants(self) -> str:
        """What a person has to do before it lets anybody in; empty where it does."""
        return "" if self._bearer is None else self._bearer.wants

    @property
    def needs_login(self) -> bool:
        """Whether that is to log in."""
        return self._bearer is not None and self._bearer.needs_login

    def _filled(self) -> McpServerConfig:
        hidden = self.server.variables & self.around.hide
        if hidden and not self.server.may_have_keys:
            raise ConfigError(f"it names {min(hidden)}, the key of a model, which is not for it")
        return self.server.filled(self.around.environ)

    async def close(self) -> None:
        """End the connection, and wait until its owner has done so. Raises nothing."""
        if self._life is not None and self._life.loop is asyncio.get_running_loop():
            await self._life.close()
        self.state = "closed"

    async def request(self, what: str, work: Work, patience: RequestTimeout | None = None) -> Any:
        """Have something done by the server and return what it gives; `what` is for messages.

        Where the caller is cancelled, so is the request, and the server is told. Raises ToolError.
        """
        await self.open()
        assert self._life is not None
        patience = patience or RequestTimeout(self.server.timeout_s)
        return await self._life.request(what, work, patience)

    async def call(
        self,
        tool: str,
        arguments: dict[str, Any],
        asking: ToolCallContext,
        on_progress: OnProgress | None = None,
    ) -> types.CallToolResult:
        """Call a tool. Raises ToolError."""

        async def report(progress: float, total: float | None, message: str | None) -> None:
            asking.patience.renew()
            if on_progress is not None:
                on_progress(progress, total, message)

        async def work(client: Client) -> types.CallToolResult:
            with self._inbound.during(asking):
                return await client.call_tool(tool, arguments, progress_callback=report)

        result: types.CallToolResult = await self.request(tool, work, asking.patience)
        return result

    async def is_opening(self, client: Client) -> None:
        """Look which tools it has."""
        self._take(await tools_of(client))

    def is_open(self, client: Client) -> None:
        """Take note that it can be used."""
        info = client.server_info
        name = one_line(f"{info.name} {info.version}") if info is not None else "unnamed"
        self.about = f"{name}, protocol {client.protocol_version}"
        self.capabilities = client.server_capabilities
        self.state, self.reason = "open", ""
        self._open_since = asyncio.get_running_loop().time()
        tools = self.capabilities.tools
        if client.protocol_version in MODERN_PROTOCOL_VERSIONS and tools and tools.list_changed:
            assert self._life is not None
            self._life.start(self._listen(client))
        self._changed()

    def _take(self, found: tuple[list[types.Tool], list[str]]) -> None:
        before = {tool.name: _meaning(tool) for tool in self.tools}
        self.tools, notes = found
        for tool in self.tools:
            if before.get(tool.name, meaning := _meaning(tool)) != meaning:
                notes.append(f"its tool {tool.name[:64]!r} is another one now than it was before")
        for note in notes:
            self._inbound.tell(note)

    def is_over(self, reason: str, *, wanted: bool) -> None:
        """Take note that it ended, and until when it is left alone."""
        was_open, self.reason = self.state == "open", reason
        self.state = "closed" if wanted else "failed"
        if wanted:
            return
        now = asyncio.get_running_loop().time()
        steady = was_open and now - self._open_since > STEADY_S
        self._failures = 1 if steady else self._failures + 1
        step = self._failures if was_open else max(self._failures, 2)
        if self.wants and not self._is_program:
            step = 1  # a person may have done it meanwhile
        self._retry_at = now + BACKOFF_S[min(step, len(BACKOFF_S)) - 1]
        if was_open:
            self._inbound.tell(f"it is gone: {reason}")

    async def _listen(self, client: Client) -> None:
        """Ask a server of the newer protocol to tell of other tools."""
        with suppress(Exception):  # without it the tools stay as they are
            async with client.listen(tools_list_changed=True) as changes:
                async for _ in changes:
                    pass

    def _relist(self) -> None:
        """Look again which tools it has: soon, and not more often than it makes sense."""
        self._look_again = True
        life = self._life
        if life is not None and (self._looking is None or self._looking.done()):
            self._looking = life.start(self._look(life))

    async def _look(self, life: McpSession) -> None:
        await asyncio.wait({life.opened})  # some tell of other tools before they were asked
        while self._look_again and not life.is_over:
            self._look_again = False
            try:
                patience = RequestTimeout(self.server.timeout_s)
                self._take(await life.request("tools/list", tools_of, patience))
            except ToolError as error:
                self._inbound.tell(str(error))
                return
            self._changed()
            await asyncio.sleep(RELIST_S)


def _meaning(tool: types.Tool) -> tuple[object, ...]:
    """Return what a person may have gone by who allowed a tool for good."""
    return tool.title, tool.description, tool.input_schema, tool.annotations
