"""`Life`: one time that a server is connected, from its opening to its end, owned by one task.

The SDK's sessions must be closed by the task that opened them, and last in, first out. So nobody
but the owning task has the session: whoever wants something puts a job into its queue, and waits.
Whatever happens to the server, everybody who waits gets an answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from mcp import Client
from mcp.shared.exceptions import MCPError

from harken.world.mcp.failing import is_closed, one_line, reason_of
from harken.world.mcp.patience import OutOfPatience, Patience
from harken.world.mcp.servers import Server
from harken.world.mcp.stdio import Stdio
from harken.world.result import Failed

CLOSE_S = 6.0
"""How long a server has to end, before its owner is cancelled."""
COURTESY_S = 1.0
"""How long the word that a call is cancelled may take to go out."""

Work: TypeAlias = Callable[[Client], Awaitable[Any]]


@dataclass(slots=True, eq=False)
class Job:
    """Something that somebody wants of the server, and waits for."""

    what: str
    """For messages: the name of a tool."""
    work: Work
    patience: Patience
    done: asyncio.Future[Any]
    task: asyncio.Task[None] | None = None


class Follower(Protocol):
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


class Life:
    """One time that a server is connected."""

    def __init__(
        self,
        server: Server,
        client: Client | Exception,
        stdio: Stdio | None,
        follower: Follower,
        before: Life | None = None,
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
        self._queue: asyncio.Queue[Job | None] = asyncio.Queue()
        self._jobs: set[Job] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        if stdio is not None:
            stdio.ended = self.is_lost
        self.owner = self.loop.create_task(self._own(), name=f"harken mcp {server.name}")

    async def request(self, what: str, work: Work, patience: Patience) -> Any:
        """Have something done and return what it gives.

        Where the caller is cancelled, so is the request, and the server is told. Raises Failed.
        """
        job = Job(what, work, patience, self.loop.create_future())
        if self.owner.done():
            raise Failed(self._gone(what, "it ended"))
        self._jobs.add(job)
        self._queue.put_nowait(job)
        try:
            return await job.done
        except asyncio.CancelledError:
            if job.task is not None:
                job.task.cancel()
                await asyncio.wait({job.task}, timeout=COURTESY_S)
            raise
        finally:
            self._jobs.discard(job)

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Do something beside, which ends with this life."""
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def is_lost(self) -> None:
        """Take note that the server is gone, and let the owner close what is left."""
        self.lost = not self.closing
        self._queue.put_nowait(None)

    async def close(self) -> None:
        """End it, and wait until the owner has done so. Raises nothing."""
        self.closing = True
        if self.owner.done():
            return
        if not self.opened.done():
            self.owner.cancel()
        self._queue.put_nowait(None)
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
        reason, limit_s = "it ended", self.server.start_timeout_s
        try:
            if self._before is not None:
                await asyncio.wait({self._before.owner})
                self._before = None
            if isinstance(self._client, Exception):
                raise self._client
            async with AsyncExitStack() as stack:
                async with asyncio.timeout(limit_s) as limit:
                    client = await stack.enter_async_context(self._client)
                    await self._follower.is_opening(client)
                self._follower.is_open(client)
                self.opened.set_result(None)
                await self._serve(client)
        except TimeoutError as error:
            late = f"it did not start within {limit_s:g} s"
            reason = late if limit.expired() else reason_of(error)
        except asyncio.CancelledError:
            self.closing = True  # with the loop, or by `close`
            raise
        except Exception as error:  # noqa: BLE001 - the border: whatever a server does is a reason
            reason = reason_of(error)
        finally:
            self._is_over(reason)

    def _is_over(self, reason: str) -> None:
        """Tell everybody who waits."""
        wanted = self.closing and not self.lost
        if wanted:
            reason = "it was closed"
        elif self._stdio is not None and self._stdio.ending:
            reason = f"{reason} ({one_line(self._stdio.ending)})"
        self._follower.is_over(reason, wanted=wanted)
        if not self.opened.done():
            self.opened.set_exception(
                Failed(f"the MCP server {self.server.name} cannot be used: {reason}")
            )
            self.opened.exception()  # nobody has to wait for it
        for job in self._jobs:
            if not job.done.done():
                job.done.set_exception(Failed(self._gone(job.what, reason)))

    def _gone(self, what: str, reason: str) -> str:
        return (
            f"the MCP server {self.server.name} is gone: {reason}. {what} may or may not have "
            f"acted; the next call starts the server again"
        )

    async def _serve(self, client: Client) -> None:
        """Do what is asked, each job in a task of its own, until there is no more to do."""
        try:
            while (job := await self._queue.get()) is not None:
                job.task = self.start(self._do(client, job))
        finally:
            tasks = [*self._tasks]
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks, timeout=COURTESY_S)

    async def _do(self, client: Client, job: Job) -> None:
        """Do one job. Its end, whatever it is, is what its future says."""
        if job.done.done():
            return
        of = f"{job.what} of the MCP server {self.server.name}"
        try:
            async with job.patience.limited():
                result = await job.work(client)
        except OutOfPatience:
            error = Failed(
                f"{of} did not finish within {job.patience.silence_s:g} s and was cancelled. "
                f"It may or may not have acted: check before you do it again"
            )
        except MCPError as failure:
            if is_closed(failure):
                self.is_lost()
                return  # the owner tells, when it knows why
            error = Failed(f"{of} failed: {reason_of(failure)}")
        except Exception as failure:  # noqa: BLE001 - the border: whatever it answers is a result
            error = Failed(f"{of} gave what cannot be used: {reason_of(failure)}")
        else:
            if not job.done.done():
                job.done.set_result(result)
            return
        if not job.done.done():
            job.done.set_exception(error)
