"""`Callback`: a local HTTP server for the single redirect after a login.

It listens on loopback at an unpredictable port. Any local program or web page can connect, so only
a request with the secret `state` of this login is accepted, and only once.

Source: RFC 8252 §7.3 (redirects to loopback), RFC 6749 §4.1.2 (what they carry).
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from secrets import compare_digest
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qsl, urlsplit

import msgspec

from harken.errors import ConfigError

PATH = "/callback"
MAX_REQUEST_BYTES = 16 << 10
REQUEST_S = 10.0
"""The time limit for receiving a request."""
_MAX_CONNECTIONS = 32
_GRACE_PERIOD_S = 0.2
_DONE_TEXT = "You are logged in. You can close this window."
_REFUSED_TEXT = "You were not logged in. You can close this window."
_NOT_FOUND_TEXT = "Not found."


class AuthorizationResponse(msgspec.Struct, frozen=True):
    """The parameters of the redirect after a login."""

    code: str = ""
    state: str = ""
    issuer: str | None = None
    error: str = ""
    """The error code of the protocol; empty if there is none."""
    about: str = ""
    """The error description for a person, if any."""


class Callback:
    """Waits for one redirect: `async with Callback() as callback: await callback.answer(300)`."""

    def __init__(self, port: int = 0) -> None:
        """Create it for a port; 0 is any free port."""
        self._port = port
        self._state = ""
        self._answer: asyncio.Future[AuthorizationResponse] = (
            asyncio.get_running_loop().create_future()
        )
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[Any]] = set()

    @property
    def address(self) -> str:
        """The URL of the redirect."""
        return f"http://127.0.0.1:{self._port}{PATH}"

    def expect(self, state: str) -> None:
        """Set the state of the expected redirect; before, none is accepted."""
        self._state = state

    async def answer(self, within_s: float) -> AuthorizationResponse:
        """Wait for the redirect. Raises ConfigError on timeout."""
        try:
            async with asyncio.timeout(within_s):
                return await self._answer
        except TimeoutError:
            raise ConfigError(f"no login within {within_s:g} s") from None

    def accept(self, address: str) -> bool:
        """Accept a redirect URL; return whether it was the expected one."""
        try:
            parts = urlsplit(address.strip())
            parameters = dict(parse_qsl(parts.query, max_num_fields=32))
        except ValueError:
            return False
        is_expected = self._state and compare_digest(
            parameters.get("state", "").encode("utf-8", "replace"), self._state.encode()
        )
        if parts.path != PATH or not is_expected or self._answer.done():
            return False
        answer = AuthorizationResponse(
            code=parameters.get("code", ""),
            state=parameters["state"],
            issuer=parameters.get("iss"),
            error=parameters.get("error", ""),
            about=parameters.get("error_description", ""),
        )
        self._answer.set_result(answer)
        return True

    async def __aenter__(self) -> Self:
        """Start to listen. Raises ConfigError if the port is in use."""
        try:
            self._server = await asyncio.start_server(
                self._serve, "127.0.0.1", self._port, limit=MAX_REQUEST_BYTES
            )
        except OSError as error:
            raise ConfigError(
                f"port {self._port}, the `callback_port` of this server, cannot be "
                f"opened: {error.strerror or error}"
            ) from None
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._server is not None
        self._server.close()
        self._answer.cancel()
        if self._serving:  # The success page may still be in transit.
            await asyncio.wait(self._serving, timeout=_GRACE_PERIOD_S)
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        try:
            if len(self._serving) <= _MAX_CONNECTIONS:
                await self._reply(reader, writer)
        finally:
            self._serving.discard(task)
            writer.close()

    async def _reply(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Respond to one request, without echoing its content."""
        with suppress(
            OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError
        ):
            async with asyncio.timeout(REQUEST_S):
                head = await reader.readuntil(b"\r\n\r\n")
                status, text = self._route(head.decode("latin-1").split("\r\n", 1)[0])
                page = f"<!doctype html><meta charset=utf-8><title>Harken</title><p>{text}"
                writer.write(
                    f"HTTP/1.1 {status}\r\ncontent-type: text/html; charset=utf-8\r\n"
                    f"content-length: {len(page)}\r\nconnection: close\r\n"
                    f"cache-control: no-store\r\nreferrer-policy: no-referrer\r\n"
                    f"content-security-policy: default-src 'none'\r\n\r\n{page}".encode()
                )
                await writer.drain()

    def _route(self, line: str) -> tuple[str, str]:
        method, _, tail = line.partition(" ")
        target, _, _ = tail.rpartition(" ")
        if method != "GET" or not target.startswith(PATH) or not self.accept(target):
            return "404 Not Found", _NOT_FOUND_TEXT
        return "200 OK", _REFUSED_TEXT if self._answer.result().error else _DONE_TEXT
