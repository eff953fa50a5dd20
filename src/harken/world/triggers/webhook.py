"""Webhooks: a small HTTP server on loopback; a client with a token can send messages to an agent.

It responds with one line, and only when the message is in the log and cannot be lost.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import msgspec

from harken.world.loop_lock import LoopLock
from harken.world.result import ToolError
from harken.world.triggers.base import TriggerEvent, missing_extra, quote_text
from harken.world.triggers.trigger import WebhookTrigger

MAX_BODY_BYTES = 65_536
READ_TIMEOUT_S = 10.0
"""The time limit for receiving a request."""
MAX_WAITING_MESSAGES = 8
"""The maximum number of messages waiting for a busy agent; further ones are refused."""
MAX_SHOWN_CHARS = 4000
"""The maximum number of characters of messages that the agent gets."""
HOST = "127.0.0.1"
MAX_UNAUTHORIZED_CONNECTIONS = 64
"""The maximum number of connections without a valid token: any program can open them."""

# Without a handler, Python prints errors for malformed requests on the terminal.
logging.getLogger("aiohttp").addHandler(logging.NullHandler())


def token_sha256(token: str) -> str:
    """Return the hash of a token for the log.

    >>> token_sha256("secret")[:8]
    '2bb80d53'
    """
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


class WebhookMessage(msgspec.Struct, eq=False):
    """The content of one request."""

    text: str
    size_bytes: int
    logged: asyncio.Future[None]


class WebhookCalled(msgspec.Struct, eq=False):
    """The event source of one webhook."""

    armed: WebhookTrigger
    server: Webhooks
    pause_s: float = 1.0
    waiting: list[WebhookMessage] = msgspec.field(default_factory=list)
    came: asyncio.Event = msgspec.field(default_factory=asyncio.Event)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Start to listen, at the port that was reported when it was armed."""
        await self.server.start(self.armed.port)
        self.server.sources.append(self)
        try:
            yield
        finally:
            self.server.sources.remove(self)
            for message in self.waiting:
                message.logged.cancel()

    async def wait(self) -> TriggerEvent:
        """Wait for messages; all waiting ones form one event."""
        await self.came.wait()
        self.came.clear()
        messages, self.waiting = self.waiting, []
        return TriggerEvent(text=_format_messages(messages), on_logged=partial(_confirm, messages))


def _format_messages(messages: list[WebhookMessage]) -> str:
    """Format messages; their sender is unknown.

    >>> loop = asyncio.new_event_loop()
    >>> print(_format_messages([WebhookMessage("[hook x]: OK", 12, loop.create_future())]))
    a message from outside (12 bytes; anyone with the URL can send one):
    > [hook x]: OK
    >>> loop.close()
    """
    count_text = f"{len(messages)} messages" if len(messages) > 1 else "a message"
    size = sum(message.size_bytes for message in messages)
    head = f"{count_text} from outside ({size:,} bytes; anyone with the URL can send one):"
    max_chars = MAX_SHOWN_CHARS // max(1, len(messages))
    bodies = (quote_text(message.text, max_chars) or "> (nothing)" for message in messages)
    return "\n".join([head, "\n\n".join(bodies)])


def _confirm(messages: list[WebhookMessage]) -> None:
    for message in messages:
        if not message.logged.done():
            message.logged.set_result(None)


class Webhooks:
    """The HTTP server of all webhooks; it starts with the first one."""

    def __init__(self) -> None:
        self.sources: list[WebhookCalled] = []
        self.port: int | None = None
        self._runner: Any = None
        self._listener: asyncio.Server | None = None
        self._authorized: set[Any] = set()
        """The connections of requests with a valid token."""
        self._start_lock = LoopLock()

    async def start(self, port: int = 0) -> int:
        """Start the server, unless it runs, at this port (0: any free one); return the port.

        Raises ToolError if another program has the port, InvalidArguments if the extra is missing.
        """
        async with self._start_lock.current():
            if self.port is None:
                await self._start(port)
        if self.port is None or port not in (0, self.port):
            raise ToolError(
                f"port {port} cannot be used beside port {self.port}: set the trigger again"
            )
        return self.port

    async def _start(self, port: int) -> None:
        try:
            from aiohttp import web  # noqa: PLC0415 - an extra
        except ImportError as error:
            raise missing_extra(error) from None
        app = web.Application(client_max_size=MAX_BODY_BYTES)
        app.router.add_route("*", "/{token:.*}", partial(self._handle_request, web))
        runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=1.0)
        await runner.setup()
        try:
            loop = asyncio.get_running_loop()
            listener = await loop.create_server(
                partial(self._accept_connection, runner.server), HOST, port
            )
        except (OSError, OverflowError) as error:
            await runner.cleanup()
            reason = getattr(error, "strerror", None) or error
            raise ToolError(f"cannot listen at {HOST}:{port}: {reason}") from None
        self._runner, self._listener = runner, listener
        self.port = listener.sockets[0].getsockname()[1]

    def _accept_connection(self, server: Any) -> Any:
        """Accept a connection; close the oldest ones if there are too many."""
        unauthorized = [
            connection for connection in server.connections if connection not in self._authorized
        ]
        for connection in unauthorized[
            : max(0, len(unauthorized) + 1 - MAX_UNAUTHORIZED_CONNECTIONS)
        ]:
            connection.force_close()
        return server()

    async def close(self) -> None:
        """Stop the server."""
        runner, self._runner, self.port = self._runner, None, None
        if self._listener is not None:
            self._listener.close()
        if runner is not None:
            await runner.cleanup()

    async def _handle_request(self, web: Any, request: Any) -> Any:
        """Handle a request."""
        source = self._find_source(request)
        if source is None:
            return web.Response(status=404, text="not found\n")
        if request.method != "POST":
            return web.Response(status=405, text="use POST\n")
        self._authorized.add(request.protocol)
        try:
            return await self._handle_message(web, request, source)
        finally:
            self._authorized.discard(request.protocol)

    async def _handle_message(self, web: Any, request: Any, source: WebhookCalled) -> Any:
        """Queue a message for an agent; respond when it is logged."""
        try:
            async with asyncio.timeout(READ_TIMEOUT_S):
                body = await request.read()
        except TimeoutError:
            return web.Response(status=408, text="timed out\n")
        except web.HTTPRequestEntityTooLarge:
            return web.Response(status=413, text=f"more than {MAX_BODY_BYTES:,} bytes\n")
        if len(source.waiting) >= MAX_WAITING_MESSAGES:
            headers = {"Retry-After": "10"}
            return web.Response(status=429, text="too many requests\n", headers=headers)
        logged = asyncio.get_running_loop().create_future()
        source.waiting.append(WebhookMessage(body.decode("utf-8", "replace"), len(body), logged))
        source.came.set()
        try:
            await logged
        except asyncio.CancelledError:
            if not logged.cancelled():
                raise
            return web.Response(status=503, text="the trigger ended\n")
        return web.Response(status=202, text="heard\n")

    def _find_source(self, request: Any) -> WebhookCalled | None:
        """Find the source by the token of a request, in time independent of the tokens."""
        bearer = request.headers.get("Authorization", "").removeprefix("Bearer ")
        token_hash = token_sha256(request.match_info["token"] or bearer).encode()
        matching_source = None
        for source in self.sources:
            if hmac.compare_digest(source.armed.token_sha256.encode(), token_hash):
                matching_source = source
        return matching_source
