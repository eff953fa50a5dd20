"""`ServerRequestHandler`: handle requests and notifications of a server.

A server may ask the user for input during a call of its tools, and for the folder of the agents. It
may not use models of Harken: the SDK refuses sampling.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import mcp_types as types
import msgspec
from mcp.client import ClientRequestContext
from mcp.client.session import IncomingMessage
from pydantic import FileUrl

from harken.world.mcp.elicitation import ElicitationForm
from harken.world.mcp.errors import one_line
from harken.world.mcp.host import McpHost
from harken.world.mcp.server_config import McpServerConfig
from harken.world.mcp.timeout import RequestTimeout
from harken.world.mcp.transport.stdio import InvalidMessageLine
from harken.world.user import User

MAX_FORMS = 8
"""The maximum number of forms from a server during one call."""
MAX_NOTES = 200
"""The maximum number of notices about one server."""


class ToolCallContext(msgspec.Struct, eq=False):
    """A pending call, with the user to ask during it."""

    agent: str
    user: User | None
    timeout: RequestTimeout
    forms: int = 0
    """The number of forms so far."""
    refused: bool = False
    """Whether the user declined, or no user was available."""

    def is_enough(self) -> bool:
        """Whether the user must not be asked again."""
        return self.refused or self.forms >= MAX_FORMS


class ServerRequestHandler:
    """Handles the requests of one server."""

    def __init__(self, server: McpServerConfig, host: McpHost, relist: Callable[[], None]) -> None:
        """Create a handler; `relist` is called when the tools of the server have changed."""
        self._server, self._host, self._relist = server, host, relist
        self._pending_calls: list[ToolCallContext] = []
        self._form_lock = asyncio.Lock()
        self._answered_keys: set[str] = set()
        self.notes: list[str] = []
        """The notices for a person, one per line."""

    @contextmanager
    def allow_forms(self, call_context: ToolCallContext) -> Iterator[None]:
        """Let the server ask because of a call, while it is under way."""
        self._pending_calls.append(call_context)
        try:
            yield
        finally:
            self._pending_calls.remove(call_context)

    def notify(self, text: str, *, key: str = "") -> None:
        """Send a notice about the server to a person, once for each `key`."""
        if len(self.notes) == MAX_NOTES:
            text, key = "further notices are omitted: there are too many", ""
        if (key or text) not in self._answered_keys and len(self.notes) <= MAX_NOTES:
            self._answered_keys.add(key or text)
            self.notes.append(one_line(text))
            self._host.on_notice(f"MCP server {self._server.name}: {one_line(text)}")

    async def elicit(
        self, context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult | types.ErrorData:
        """Ask the user of the newest pending call; cancel if there is no call.

        A user who declined is not asked again in that call, so that a server cannot insist.
        """
        call_context = self._pending_calls[-1] if self._pending_calls else None
        if call_context is None or call_context.is_enough():
            return types.ElicitResult(action="cancel")
        with call_context.timeout.waiting_for_a_person():
            async with self._form_lock:
                if call_context.is_enough():
                    return types.ElicitResult(action="cancel")
                call_context.forms += 1
                result = await ElicitationForm(
                    self._server.name, call_context.agent, call_context.user
                ).fill(params)
        call_context.refused = result.action != "accept"
        return result

    async def roots(self, context: ClientRequestContext) -> types.ListRootsResult | types.ErrorData:
        """Return the folder of the agents."""
        folder = self._host.folder.absolute()
        root = types.Root(uri=FileUrl(folder.as_uri()), name=folder.name)
        return types.ListRootsResult(roots=[root])

    async def on_message(self, message: IncomingMessage) -> None:
        """Handle a notification of the server."""
        if isinstance(message, InvalidMessageLine):
            self.notify(
                f"it writes a line to stdout that is not a message: {str(message)!r}", key="noise"
            )
        elif isinstance(message, Exception):
            self.notify(f"it sends an invalid message ({type(message).__name__})", key="noise")
        elif isinstance(message, types.ToolListChangedNotification):
            self._relist()
