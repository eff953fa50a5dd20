"""`McpConnection`: a server, its current session, and the delay before a restart."""

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
    # Without a handler, Python prints warnings on the terminal.
    logging.getLogger(_name).addHandler(logging.NullHandler())

BACKOFF_S = (0.0, 5.0, 30.0, 120.0, 600.0)
"""The delay before a restart, by the number of failures in a row.

A server that could not be started is not restarted at once.
"""
STEADY_S = 60.0
"""A session that lasted this long counts as a successful start."""
RELIST_S = 1.0
"""The minimum time between two requests for the list of tools."""

State: TypeAlias = Literal["new", "starting", "open", "failed", "closed"]
Connect: TypeAlias = Callable[[McpServerConfig], Any]
"""Returns the transport of a server for the SDK's `Client`; tests return in-process servers."""
OnProgress: TypeAlias = Callable[[float, float | None, str | None], None]
"""Called with progress, total and message of a call."""


class McpConnection:
    """A server as the agents of a world reach it."""

    def __init__(
        self,
        server: McpServerConfig,
        host: McpHost,
        *,
        changed: Callable[[], None],
        connect: Connect | None = None,
    ) -> None:
        """Create it without a connection. `changed` is called when the tools change."""
        self.server, self.host = server, host
        self.state: State = "new"
        self.reason = ""
        """The reason why it is not connected, for a person."""
        self.tools: list[types.Tool] = []
        """Its last list of tools, also while it is unavailable."""
        self.capabilities = types.ServerCapabilities()
        self.description = ""
        """Its own name and version, and that of the protocol."""
        self._changed, self._connect = changed, connect
        self._request_handler = ServerRequestHandler(server, host, self._relist)
        self._session: McpSession | None = None
        self._bearer: Bearer | None = None
        self._failures, self._retry_at, self._open_since = 0, 0.0, 0.0
        self._relist_task: asyncio.Task[None] | None = None
        self._should_relist = False

    @property
    def notes(self) -> list[str]:
        """The notices about it for a person, one per line."""
        return self._request_handler.notes

    @property
    def is_tried(self) -> bool:
        """Whether opening it was attempted in the running event loop."""
        session = self._session
        is_current_loop = session is not None and session.loop is asyncio.get_running_loop()
        return is_current_loop and self.state in ("open", "failed")

    @property
    def may_retry(self) -> bool:
        """Whether it failed, and the delay before a restart is over."""
        now = asyncio.get_running_loop().time()
        return self.state == "failed" and now >= self._retry_at

    async def open(self) -> None:
        """Connect if it is not connected. Raises ToolError with the reason."""
        loop = asyncio.get_running_loop()
        if self._session is not None and self._session.loop is not loop:
            self._session.abandon()  # A session of another loop has ended with it.
            self._session, self.state, self._retry_at = None, "new", 0.0
            self._request_handler, self._relist_task = (
                ServerRequestHandler(self.server, self.host, self._relist),
                None,
            )
        if self.state not in ("starting", "open"):
            if (wait_s := self._retry_at - loop.time()) > 0:
                retry_note = f"it is not restarted within {wait_s:.0f} s"
                raise ToolError(
                    f"MCP server {self.server.name} is unavailable: {self.reason}; {retry_note}"
                )
            self.state = "starting"
            self._session = self._create_session(self._session)
        assert self._session is not None
        await asyncio.shield(self._session.on_open)

    def _create_session(self, before: McpSession | None) -> McpSession:
        stdio: Stdio | None = None
        client: Client | Exception
        try:
            if self._connect is not None:
                transport = self._connect(self.server)
            elif self.server.url is not None:
                transport = self._create_http_transport(self._resolve_variables())
            else:
                stdio = transport = Stdio(
                    self._resolve_variables(), self.host, self._request_handler.notify
                )
            client = Client(
                transport,
                client_info=types.Implementation(name="harken", version="1"),
                elicitation_callback=self._request_handler.elicit,
                list_roots_callback=self._request_handler.roots,
                message_handler=self._request_handler.on_message,
                cache=None,
                mode="auto" if self.server.protocol == "auto" else "legacy",
            )
        except ConfigError as error:
            client = error
        return McpSession(self.server, client, stdio, self, before)

    @property
    def _is_program(self) -> bool:
        """Whether it authenticates with tokens of the program, not of a person."""
        return self.server.oauth.grant == "client_credentials"

    def _create_http_transport(self, resolved: McpServerConfig) -> Any:
        logins = None if self.host.logins is None else Logins(self.host.logins)
        self._bearer = ProgramBearer(resolved) if self._is_program else Bearer(resolved, logins)
        return http_transport(resolved, self._request_handler.notify, self._bearer)

    @property
    def required_action(self) -> str:
        """The action that a person must take before it grants access; empty if none."""
        return "" if self._bearer is None else self._bearer.required_action

    @property
    def needs_login(self) -> bool:
        """Whether that action is a login."""
        return self._bearer is not None and self._bearer.needs_login

    def _resolve_variables(self) -> McpServerConfig:
        hidden_names = self.server.variables & self.host.hide
        if hidden_names and not self.server.may_have_keys:
            raise ConfigError(
                f"it uses {min(hidden_names)}, the API key of a model, which servers do not get"
            )
        return self.server.with_resolved_variables(self.host.environ)

    async def close(self) -> None:
        """Close the connection, and wait for its owner. Raises nothing."""
        if self._session is not None and self._session.loop is asyncio.get_running_loop():
            await self._session.close()
        self.state = "closed"

    async def request(self, what: str, work: Work, patience: RequestTimeout | None = None) -> Any:
        """Run a request at the server and return its result; error texts name it with `what`.

        If the caller is cancelled, the request is cancelled at the server, too. Raises ToolError.
        """
        await self.open()
        assert self._session is not None
        patience = patience or RequestTimeout(self.server.timeout_s)
        return await self._session.request(what, work, patience)

    async def call(
        self,
        tool: str,
        arguments: dict[str, Any],
        asking: ToolCallContext,
        on_progress: OnProgress | None = None,
    ) -> types.CallToolResult:
        """Call a tool. Raises ToolError."""

        async def report(progress: float, total: float | None, message: str | None) -> None:
            asking.timeout.renew()
            if on_progress is not None:
                on_progress(progress, total, message)

        async def call_tool(client: Client) -> types.CallToolResult:
            with self._request_handler.allow_forms(asking):
                return await client.call_tool(tool, arguments, progress_callback=report)

        result: types.CallToolResult = await self.request(tool, call_tool, asking.timeout)
        return result

    async def is_opening(self, client: Client) -> None:
        """Read its tools."""
        self._set_tools(await tools_of(client))

    def is_open(self, client: Client) -> None:
        """Record that it can be used."""
        info = client.server_info
        name = one_line(f"{info.name} {info.version}") if info is not None else "unnamed"
        self.description = f"{name}, protocol {client.protocol_version}"
        self.capabilities = client.server_capabilities
        self.state, self.reason = "open", ""
        self._open_since = asyncio.get_running_loop().time()
        tools = self.capabilities.tools
        if client.protocol_version in MODERN_PROTOCOL_VERSIONS and tools and tools.list_changed:
            assert self._session is not None
            self._session.start(self._listen(client))
        self._changed()

    def _set_tools(self, listing: tuple[list[types.Tool], list[str]]) -> None:
        previous = {tool.name: _approval_basis(tool) for tool in self.tools}
        self.tools, notes = listing
        for tool in self.tools:
            if previous.get(tool.name, basis := _approval_basis(tool)) != basis:
                notes.append(f"its tool {tool.name[:64]!r} changed")
        for note in notes:
            self._request_handler.notify(note)

    def is_over(self, reason: str, *, wanted: bool) -> None:
        """Record its end, and the time of the next restart."""
        was_open, self.reason = self.state == "open", reason
        self.state = "closed" if wanted else "failed"
        if wanted:
            return
        now = asyncio.get_running_loop().time()
        was_steady = was_open and now - self._open_since > STEADY_S
        self._failures = 1 if was_steady else self._failures + 1
        step = self._failures if was_open else max(self._failures, 2)
        if self.required_action and not self._is_program:
            step = 1  # A person may have logged in meanwhile.
        self._retry_at = now + BACKOFF_S[min(step, len(BACKOFF_S)) - 1]
        if was_open:
            self._request_handler.notify(f"it ended: {reason}")

    async def _listen(self, client: Client) -> None:
        """Subscribe to changes of tools at a server with the newer protocol."""
        with suppress(Exception):  # Without the subscription the tools stay unchanged.
            async with client.listen(tools_list_changed=True) as changes:
                async for _ in changes:
                    pass

    def _relist(self) -> None:
        """Schedule a new request for the list of tools, with a minimum interval."""
        self._should_relist = True
        session = self._session
        if session is not None and (self._relist_task is None or self._relist_task.done()):
            self._relist_task = session.start(self._relist_tools(session))

    async def _relist_tools(self, session: McpSession) -> None:
        # Some servers notify of other tools before the first request.
        await asyncio.wait({session.on_open})
        while self._should_relist and not session.is_over:
            self._should_relist = False
            try:
                patience = RequestTimeout(self.server.timeout_s)
                self._set_tools(await session.request("tools/list", tools_of, patience))
            except ToolError as error:
                self._request_handler.notify(str(error))
                return
            self._changed()
            await asyncio.sleep(RELIST_S)


def _approval_basis(tool: types.Tool) -> tuple[object, ...]:
    """Return the properties of a tool on which a permanent approval may be based."""
    return tool.title, tool.description, tool.input_schema, tool.annotations
