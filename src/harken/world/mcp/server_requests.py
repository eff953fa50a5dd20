"""`ServerRequestHandler`: what a server asks of us, and what it tells.

It may ask the user something while a call of its tools is under way, and for the folder where
agents work. It may not use our models: that is refused by the SDK, which is told of no sampling.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import mcp_types as types
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
"""How often a server may ask because of one call."""
MAX_NOTES = 200
"""So many lines a person is told of one server."""


@dataclass(slots=True, eq=False)
class ToolCallContext:
    """A call that is under way: whom the server may ask something because of it."""

    agent: str
    user: User | None
    patience: RequestTimeout
    forms: int = 0
    """How often the server asked so far."""
    refused: bool = False
    """Whether the user would not say, or nobody was there."""

    def is_enough(self) -> bool:
        """Whether the user is asked nothing more."""
        return self.refused or self.forms >= MAX_FORMS


class ServerRequestHandler:
    """Answers one server."""

    def __init__(
        self, server: McpServerConfig, around: McpHost, relist: Callable[[], None]
    ) -> None:
        """`relist` is told when the server has other tools than it had."""
        self._server, self._around, self._relist = server, around, relist
        self._asking: list[ToolCallContext] = []
        self._one_at_a_time = asyncio.Lock()
        self._told: set[str] = set()
        self.notes: list[str] = []
        """What a person was told, a line each."""

    @contextmanager
    def during(self, asking: ToolCallContext) -> Iterator[None]:
        """Let the server ask because of a call, while it is under way."""
        self._asking.append(asking)
        try:
            yield
        finally:
            self._asking.remove(asking)

    def tell(self, text: str, *, key: str = "") -> None:
        """Let a person know something of the server, once (for each `key`)."""
        if len(self.notes) == MAX_NOTES:
            text, key = "there is more to tell of it than anybody can read", ""
        if (key or text) not in self._told and len(self.notes) <= MAX_NOTES:
            self._told.add(key or text)
            self.notes.append(one_line(text))
            self._around.tell(f"MCP server {self._server.name}: {one_line(text)}")

    async def elicit(
        self, context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult | types.ErrorData:
        """Ask the user of the newest call that is under way; without a call nobody is asked.

        Who refused once is not asked again in that call: nobody is to be worn down.
        """
        asking = self._asking[-1] if self._asking else None
        if asking is None or asking.is_enough():
            return types.ElicitResult(action="cancel")
        with asking.patience.waiting_for_a_person():
            async with self._one_at_a_time:
                if asking.is_enough():
                    return types.ElicitResult(action="cancel")
                asking.forms += 1
                result = await ElicitationForm(self._server.name, asking.agent, asking.user).fill(
                    params
                )
        asking.refused = result.action != "accept"
        return result

    async def roots(self, context: ClientRequestContext) -> types.ListRootsResult | types.ErrorData:
        """Name the folder that agents work in."""
        folder = self._around.folder.absolute()
        root = types.Root(uri=FileUrl(folder.as_uri()), name=folder.name)
        return types.ListRootsResult(roots=[root])

    async def hear(self, message: IncomingMessage) -> None:
        """Take note of what the server tells."""
        if isinstance(message, InvalidMessageLine):
            self.tell(f"it writes to stdout what is no message: {str(message)!r}", key="noise")
        elif isinstance(message, Exception):
            self.tell(f"it sends what is no message ({type(message).__name__})", key="noise")
        elif isinstance(message, types.ToolListChangedNotification):
            self._relist()
