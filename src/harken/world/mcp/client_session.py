"""One connection to an MCP server, from open to close, owned by one task.

The sessions of the SDK must be closed by the task that opened them, in reverse order. So one task
opens a connection, waits for its end and closes it. Requests run in the tasks of their callers:
cancelling such a task cancels its request, and a call has no overhead besides that of the SDK. If
the server fails, all waiting callers get an error.
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
"""The time that a server has to end before its owner task is cancelled."""
_CLOSED = "Connection closed"
"""The message of the SDK if it has no other reason."""
COURTESY_S = 1.0
"""The time that background tasks have to end."""

Work: TypeAlias = Callable[[Client], Awaitable[Any]]


class SessionObserver(Protocol):
    """Receives the events of a session."""

    async def is_opening(self, client: Client) -> None:
        """Called before the server is used."""
        ...

    def is_open(self, client: Client) -> None:
        """Called when the server can be used."""
        ...

    def is_over(self, reason: str, *, wanted: bool) -> None:
        """Called when it has ended; `wanted` if it was closed on purpose."""
        ...


class McpSession:
    """One connection to a server."""

    def __init__(
        self,
        server: McpServerConfig,
        client: Client | Exception,
        stdio: Stdio | None,
        follower: SessionObserver,
        before: McpSession | None = None,
    ) -> None:
        """Open the connection in a new task, after the previous session has ended.

        client: not opened yet; an exception in its place is the reason why there is none.
        """
        self.server, self._client, self._stdio = server, client, stdio
        self._observer, self._before = follower, before
        self.loop = asyncio.get_running_loop()
        self.on_open: asyncio.Future[None] = self.loop.create_future()
        self.closing = self.lost = False
        """Whether it was asked to end, and whether the server is gone."""
        self._close_reason = ""
        self.reason = ""
        """The reason for its end; empty while it runs."""
        self._session: Client | None = None
        self._end = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        if stdio is not None:
            stdio.on_end = self.mark_lost
        self.owner = self.loop.create_task(self._run_session(), name=f"harken mcp {server.name}")

    async def request(self, what: str, work: Work, patience: RequestTimeout) -> Any:
        """Run a request and return its result; error texts name it with `what`.

        If the caller is cancelled, the request is cancelled at the server, too. Raises ToolError.
        """
        if self._session is None:
            raise ToolError(self._format_gone(what))
        try:
            with patience:
                return await work(self._session)
        except TimeoutError:
            if not patience.is_over:
                raise
            raise ToolError(
                f"{self._format_request(what)} timed out after {patience.silence_s:g} s "
                "and was cancelled. It may or may not have acted: check before "
                "you repeat it"
            ) from None
        except MCPError as error:
            if is_closed(error):
                self._close_reason = "" if error.message == _CLOSED else reason_of(error)
                self.mark_lost()
                await asyncio.wait({self.owner}, timeout=CLOSE_S)  # The owner records the reason.
                raise ToolError(self._format_gone(what)) from None
            raise ToolError(f"{self._format_request(what)} failed: {reason_of(error)}") from None
        except ToolError:
            raise
        except Exception as error:  # noqa: BLE001 - any failure of a server becomes a result
            raise ToolError(
                f"{self._format_request(what)} returned an invalid response: {reason_of(error)}"
            ) from None

    @property
    def is_over(self) -> bool:
        """Whether it has ended, or could not be opened."""
        return self.on_open.done() and self._session is None

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a background task that ends with this session."""
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def mark_lost(self) -> None:
        """Record that the server is gone, and let the owner close the connection."""
        self.lost = not self.closing
        self._end.set()

    async def close(self) -> None:
        """Close it, and wait for the owner task. Raises nothing."""
        self.closing = True
        if self.owner.done():
            return
        if not self.on_open.done():
            self.owner.cancel()
        self._end.set()
        await asyncio.wait({self.owner}, timeout=CLOSE_S)
        if not self.owner.done():
            self.owner.cancel()
            await asyncio.wait({self.owner}, timeout=CLOSE_S)

    def abandon(self) -> None:
        """Kill the remaining process: its event loop is gone."""
        if self._stdio is not None and self._stdio.child is not None:
            self._stdio.child.kill()

    async def _run_session(self) -> None:
        """Open the connection, wait for its end, close it and report the reason."""
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
                    await self._observer.is_opening(client)
                self._session = client
                self._observer.is_open(client)
                self.on_open.set_result(None)
                await self._end.wait()
                await self._stop_tasks()
        except asyncio.CancelledError:
            self.closing = True  # The loop ends, or `close` was called.
            raise
        except Exception as error:  # noqa: BLE001 - any failure of a server becomes the reason
            # The SDK converts the timeout to other errors, too.
            is_late = not self.on_open.done() and self.loop.time() >= due
            reason = f"it did not start within {limit_s:g} s" if is_late else reason_of(error)
        finally:
            self._session = None
            self._report_end(reason)

    def _report_end(self, reason: str) -> None:
        """Notify all waiting tasks."""
        is_wanted = self.closing and not self.lost
        if is_wanted:
            reason = "it was closed"
        reason = reason or self._close_reason or "it ended"
        if not is_wanted and self._stdio is not None and self._stdio.ending:
            reason = f"{reason} ({one_line(self._stdio.ending)})"
        self.reason = reason
        self._observer.is_over(reason, wanted=is_wanted)
        if not self.on_open.done():
            self.on_open.set_exception(
                ToolError(f"MCP server {self.server.name} is unavailable: {reason}")
            )
            # Retrieve the exception, because possibly no task waits for it.
            self.on_open.exception()

    def _format_gone(self, request_name: str) -> str:
        why = self.reason or "it does not stop"
        return (
            f"MCP server {self.server.name} ended: {why}. {request_name} may or may "
            "not have acted; the next call restarts the server"
        )

    def _format_request(self, request_name: str) -> str:
        return f"{request_name} of the MCP server {self.server.name}"

    async def _stop_tasks(self) -> None:
        tasks = [*self._tasks]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=COURTESY_S)
