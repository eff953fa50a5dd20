"""Webhooks: one small HTTP server on loopback; who knows a token may say something to an agent.

It answers with one line, and only when what was said is in the log: then it cannot be lost.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from harken.world.loop_lock import LoopLock
from harken.world.result import ToolError
from harken.world.triggers.base import TriggerEvent, missing_extra, quoted
from harken.world.triggers.trigger import WebhookTrigger

BODY_BYTES = 65_536
READ_S = 10.0
"""So long a request may take to arrive."""
WAITING = 8
"""So many messages may wait for a busy agent; more are refused for now."""
SHOWN = 4000
"""So many characters of a message an agent hears."""
HOST = "127.0.0.1"
CONNECTIONS = 64
"""So many may be open at once that have said nothing with a token: any program can open some, and
each takes a file from those that this process may open."""

# Without any handler Python prints on the terminal what somebody sends that is no request.
logging.getLogger("aiohttp").addHandler(logging.NullHandler())


def token_sha256(token: str) -> str:
    """Return what is kept of a token.

    >>> token_sha256("secret")[:8]
    '2bb80d53'
    """
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


@dataclass(eq=False)
class WebhookMessage:
    """What came in one request."""

    text: str
    size_bytes: int
    logged: asyncio.Future[None]


@dataclass(eq=False)
class WebhookCalled:
    """The source of one webhook."""

    armed: WebhookTrigger
    server: Webhooks
    pause_s: float = 1.0
    waiting: list[WebhookMessage] = field(default_factory=list)
    came: asyncio.Event = field(default_factory=asyncio.Event)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Begin to listen, at the port that was told when it was armed."""
        await self.server.start(self.armed.port)
        self.server.sources.append(self)
        try:
            yield
        finally:
            self.server.sources.remove(self)
            for message in self.waiting:
                message.logged.cancel()

    async def wait(self) -> TriggerEvent:
        """Return when something was said; all that waits is one happening."""
        await self.came.wait()
        self.came.clear()
        messages, self.waiting = self.waiting, []
        return TriggerEvent(text=_text(messages), on_logged=partial(_answer, messages))


def _text(messages: list[WebhookMessage]) -> str:
    """Say what came; nobody knows from whom.

    >>> loop = asyncio.new_event_loop()
    >>> print(_text([WebhookMessage("[hook x]: OK", 12, loop.create_future())]))
    a message from outside (12 bytes; whoever has the address can send one):
    > [hook x]: OK
    >>> loop.close()
    """
    many = f"{len(messages)} messages" if len(messages) > 1 else "a message"
    size = sum(message.size_bytes for message in messages)
    head = f"{many} from outside ({size:,} bytes; whoever has the address can send one):"
    most = SHOWN // max(1, len(messages))
    bodies = (quoted(one.text, most) or "> (nothing)" for one in messages)
    return "\n".join([head, "\n\n".join(bodies)])


def _answer(messages: list[WebhookMessage]) -> None:
    for message in messages:
        if not message.logged.done():
            message.logged.set_result(None)


class Webhooks:
    """The server of all webhooks; it runs as soon as there is one."""

    def __init__(self) -> None:
        self.sources: list[WebhookCalled] = []
        self.port: int | None = None
        self._runner: Any = None
        self._listener: asyncio.Server | None = None
        self._heard: set[Any] = set()
        """The connections of requests with a token."""
        self._starting = LoopLock()

    async def start(self, port: int = 0) -> int:
        """Listen, at this port if it runs not yet (0: any that is free); return the port.

        Raises ToolError where another program has it, InvalidArguments where the extra is missing.
        """
        async with self._starting.here():
            if self.port is None:
                await self._start(port)
        if self.port is None or port not in (0, self.port):
            raise ToolError(f"port {port} cannot be had beside port {self.port}: arm it anew")
        return self.port

    async def _start(self, port: int) -> None:
        try:
            from aiohttp import web  # noqa: PLC0415 - an extra
        except ImportError as error:
            raise missing_extra(error) from None
        app = web.Application(client_max_size=BODY_BYTES)
        app.router.add_route("*", "/{token:.*}", partial(self._called, web))
        runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=1.0)
        await runner.setup()
        try:
            loop = asyncio.get_running_loop()
            listener = await loop.create_server(partial(self._connected, runner.server), HOST, port)
        except (OSError, OverflowError) as error:
            await runner.cleanup()
            reason = getattr(error, "strerror", None) or error
            raise ToolError(f"nothing can listen at {HOST}:{port}: {reason}") from None
        self._runner, self._listener = runner, listener
        self.port = listener.sockets[0].getsockname()[1]

    def _connected(self, server: Any) -> Any:
        """Take one connection; where there are too many, the oldest are closed."""
        others = [one for one in server.connections if one not in self._heard]
        for one in others[: max(0, len(others) + 1 - CONNECTIONS)]:
            one.force_close()
        return server()

    async def close(self) -> None:
        """Listen no more."""
        runner, self._runner, self.port = self._runner, None, None
        if self._listener is not None:
            self._listener.close()
        if runner is not None:
            await runner.cleanup()

    async def _called(self, web: Any, request: Any) -> Any:
        """Take one request."""
        source = self._source(request)
        if source is None:
            return web.Response(status=404, text="there is nothing here\n")
        if request.method != "POST":
            return web.Response(status=405, text="POST what you have to say\n")
        self._heard.add(request.protocol)
        try:
            return await self._message(web, request, source)
        finally:
            self._heard.discard(request.protocol)

    async def _message(self, web: Any, request: Any, source: WebhookCalled) -> Any:
        """Take what is said to an agent; answer when it is logged."""
        try:
            async with asyncio.timeout(READ_S):
                body = await request.read()
        except TimeoutError:
            return web.Response(status=408, text="it took too long\n")
        except web.HTTPRequestEntityTooLarge:
            return web.Response(status=413, text=f"more than {BODY_BYTES:,} bytes\n")
        if len(source.waiting) >= WAITING:
            later = {"Retry-After": "10"}
            return web.Response(status=429, text="too much at once\n", headers=later)
        logged = asyncio.get_running_loop().create_future()
        source.waiting.append(WebhookMessage(body.decode("utf-8", "replace"), len(body), logged))
        source.came.set()
        try:
            await logged
        except asyncio.CancelledError:
            if not logged.cancelled():
                raise
            return web.Response(status=503, text="nobody listens any more\n")
        return web.Response(status=202, text="heard\n")

    def _source(self, request: Any) -> WebhookCalled | None:
        """Return whose token a request has; the time that takes says nothing of the others."""
        bearer = request.headers.get("Authorization", "").removeprefix("Bearer ")
        given = token_sha256(request.match_info["token"] or bearer).encode()
        found = None
        for source in self.sources:
            if hmac.compare_digest(source.armed.token_sha256.encode(), given):
                found = source
        return found
