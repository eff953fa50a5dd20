"""One time that a server is connected, from its opening to its end, owned by one task.

The SDK's sessions must be closed by the task that opened them, and last in, first out. So one task
opens a connection, waits for its end and closes it, and does nothing else. Requests are made in the
tasks of whoever wants something: that way cancelling such a task cancels its request, and a call
costs no more than the SDK takes. Whatever happens to the server, all who wait get an answer.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack
from typing import Any, Protocol, TypeAlias

from mcp import Client
from mcp.shared.exceptions import MCPError

from harken.world.mcp.errors import is_closed, one_line, reason_of
from harken.world.mcp.server_config import McpServerConfig
from harken.world.mcp.timeout import RequestTimeout
from harken.world.mcp.transport.stdio import Stdio
from harken.world.result import ToolError

CLOSE_S = 6.0
"""How long a server has to end, before its owner is cancelled."""
_CLOSED = "Connection closed"
"""What the SDK says where it does not know more."""
COURTESY_S = 1.0
"""How long what goes on beside may take to end."""

Work: TypeAlias = Callable[[Client], Awaitable[Any]]


class SessionObserver(Protocol):
    """Who wants to know how a life goes on."""

    async def is_opening(self, client: Client) -> None:
        """Look at a server before anybody uses it."""
        ...

    def is_open(self, client: Client) -> None:
        """Take note that it can be used."""
        ...

    def is_over(self, reason: str, *, wanted: bool) -> None:
        """Take note that it ended; `wanted` says that it was closed."""
        ...


class McpSession:
    """One time that a server is connected."""

    def __init__(
        self,
        server: McpServerConfig,
        client: Client | Exception,
        stdio: Stdio | None,
        follower: SessionObserver,
        before: McpSession | None = None,
    ) -> None:
        """Begin: open it in a task of its own, after the life before it has ended.

        client: not opened yet; an exception in its place says why there is none.
        """
        self.server, self._client, self._stdio = server, client, stdio
        self._follower, self._before = follower, before
        self.loop = asyncio.get_running_loop()
        self.opened: asyncio.Future[None] = self.loop.create_future()
        self.closing = self.lost = False
        """Whether somebody wants it to end; whether the server is gone."""
        self._why = ""
        self.reason = ""
        """How it ended; empty while it goes on."""
        self._session: Client | None = None
        self._end = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        if stdio is not None:
            stdio.ended = self.is_lost
        self.owner = self.loop.create_task(self._own(), name=f"harken mcp {server.name}")

    async def request(self, what: str, work: Work, patience: RequestTimeout) -> Any:
        """Have something done and return what it gives; `what` is for messages.

        Where the caller is cancelled, so is the request, and the server is told. Raises ToolError.
        """
        if self._session is None:
            raise ToolError(self._gone(what))
        try:
            with patience:
                return await work(self._session)
        except TimeoutError:
            if not patience.is_over:
                raise
            raise ToolError(
                f"{self._of(what)} did not finish within {patience.silence_s:g} s and was "
                f"cancelled. It may or may not have acted: check before you do it again"
            ) from None
        except MCPError as error:
            if is_closed(error):
                self._why = "" if error.message == _CLOSED else reason_of(error)
                self.is_lost()
                await asyncio.wait({self.owner}, timeout=CLOSE_S)  # it knows why
                raise ToolError(self._gone(what)) from None
            raise ToolError(f"{self._of(what)} failed: {reason_of(error)}") from None
        except ToolError:
            raise
        except Exception as error:  # noqa: BLE001 - the border: whatever it answers is a result
            raise ToolError(
                f"{self._of(what)} gave what cannot be used: {reason_of(error)}"
            ) from None

    @property
    def is_over(self) -> bool:
        """Whether it was open, or could not be opened, and is at its end."""
        return self.opened.done() and self._session is None

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Do something beside, which ends with this life."""
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def is_lost(self) -> None:
        """Take note that the server is gone, and let the owner close what is left."""
        self.lost = not self.closing
        self._end.set()

    async def close(self) -> None:
        """End it, and wait until the owner has done so. Raises nothing."""
        self.closing = True
        if self.owner.done():
            return
        if not self.opened.done():
            self.owner.cancel()
        self._end.set()
        await asyncio.wait({self.owner}, timeout=CLOSE_S)
        if not self.owner.done():
            self.owner.cancel()
            await asyncio.wait({self.owner}, timeout=CLOSE_S)

    def abandon(self) -> None:
        """Kill what is left of it: its event loop is gone."""
        if self._stdio is not None and self._stdio.child is not None:
            self._stdio.child.let_go()

    async def _own(self) -> None:
        """Open the connection, serve, and close it; say then how it was."""
        reason, limit_s, due = "", self.server.start_timeout_s, math.inf
        try:
            if self._before is not None:
                await asyncio.wait({self._before.owner})
                self._before = None
            if isinstance(self._client, Exception):
                raise self._client
            due = self.loop.time() + limit_s
            async with AsyncExitStack() as stack:
                async with asyncio.timeout_at(due):
                    client = await stack.enter_async_context(self._client)
                    await self._follower.is_opening(client)
                self._session = client
                self._follower.is_open(client)
                self.opened.set_result(None)
                await self._end.wait()
                await self._stop_tasks()
        except asyncio.CancelledError:
            self.closing = True  # with the loop, or by `close`
            raise
        except Exception as error:  # noqa: BLE001 - the border: whatever a server does is a reason
            # The SDK makes other errors of the timeout, too.
            is_late = not self.opened.done() and self.loop.time() >= due
            reason = f"it did not start within {limit_s:g} s" if is_late else reason_of(error)
        finally:
            self._session = None
            self._is_over(reason)

    def _is_over(self, reason: str) -> None:
        """Tell everybody who waits."""
        wanted = self.closing and not self.lost
        if wanted:
            reason = "it was closed"
        reason = reason or self._why or "it ended"
        if not wanted and self._stdio is not None and self._stdio.ending:
            reason = f"{reason} ({one_line(self._stdio.ending)})"
        self.reason = reason
        self._follower.is_over(reason, wanted=wanted)
        if not self.opened.done():
            self.opened.set_exception(
                ToolError(f"the MCP server {self.server.name} cannot be used: {reason}")
            )
            self.opened.exception()  # nobody has to wait for it

    def _gone(self, what: str) -> str:
        why = self.reason or "it does not end"
        return (
            f"the MCP server {self.server.name} is gone: {why}. {what} may or may not have acted; "
            f"the next call starts the server again"
        )

    def _of(self, what: str) -> str:
        return f"{what} of the MCP server {self.server.name}"

    async def _stop_tasks(self) -> None:
        tasks = [*self._tasks]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=COURTESY_S)
