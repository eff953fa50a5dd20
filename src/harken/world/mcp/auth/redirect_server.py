"""`Callback`: where a browser comes back to when a person has logged in: here, once.

It listens on loopback, at a port that nobody knows before. Anybody on this machine, and any page in
the browser, can knock at it: only who knows the secret of this very login (`state`) is answered to,
and only the first time.

Source: RFC 8252 §7.3 (redirects to loopback), RFC 6749 §4.1.2 (what they carry).
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from secrets import compare_digest
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qsl, urlsplit

from harken.errors import ConfigError

PATH = "/callback"
MAX_REQUEST_BYTES = 16 << 10
REQUEST_S = 10.0
"""How long a browser may take to say what it wants."""
_MOST_AT_ONCE = 32
_COURTESY_S = 0.2
_DONE = "You can close this window, and go back to where you came from."
_REFUSED = "You were not logged in. You can close this window."
_NOT_HERE = "There is nothing here."


@dataclass(frozen=True, slots=True)
class AuthorizationResponse:
    """What came of a login, as the one who was asked says it."""

    code: str = ""
    state: str = ""
    issuer: str | None = None
    error: str = ""
    """What is wrong, in a word of the protocol; empty: nothing."""
    about: str = ""
    """The same for a person, where that is said."""


class Callback:
    """Waits for one answer: `async with Callback() as here: ... await here.answer(300)`."""

    def __init__(self, port: int = 0) -> None:
        """Prepare it; without a port any that is free."""
        self._port = port
        self._state = ""
        self._answer: asyncio.Future[AuthorizationResponse] = (
            asyncio.get_running_loop().create_future()
        )
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[Any]] = set()

    @property
    def address(self) -> str:
        """Where the browser is to come back to."""
        return f"http://127.0.0.1:{self._port}{PATH}"

    def expect(self, state: str) -> None:
        """Say by what the answer is known; before, there is none."""
        self._state = state

    async def answer(self, within_s: float) -> AuthorizationResponse:
        """Wait for the answer. Raises ConfigError where there is none."""
        try:
            async with asyncio.timeout(within_s):
                return await self._answer
        except TimeoutError:
            raise ConfigError(f"nobody logged in within {within_s:g} s") from None

    def take(self, address: str) -> bool:
        """Take the address that a browser was sent to; whether it was the answer."""
        try:
            parts = urlsplit(address.strip())
            said = dict(parse_qsl(parts.query, max_num_fields=32))
        except ValueError:
            return False
        known = self._state and compare_digest(
            said.get("state", "").encode("utf-8", "replace"), self._state.encode()
        )
        if parts.path != PATH or not known or self._answer.done():
            return False
        answer = AuthorizationResponse(
            code=said.get("code", ""),
            state=said["state"],
            issuer=said.get("iss"),
            error=said.get("error", ""),
            about=said.get("error_description", ""),
        )
        self._answer.set_result(answer)
        return True

    async def __aenter__(self) -> Self:
        """Listen. Raises ConfigError where the port is taken."""
        try:
            self._server = await asyncio.start_server(
                self._serve, "127.0.0.1", self._port, limit=MAX_REQUEST_BYTES
            )
        except OSError as error:
            raise ConfigError(
                f"port {self._port} of this machine cannot be listened at "
                f"({error.strerror or error}): it is the `callback_port` of this server"
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
        if self._serving:  # the page that says that all is well may be on its way
            await asyncio.wait(self._serving, timeout=_COURTESY_S)
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        try:
            if len(self._serving) <= _MOST_AT_ONCE:
                await self._reply(reader, writer)
        finally:
            self._serving.discard(task)
            writer.close()

    async def _reply(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request; what is sent in it is never sent back."""
        with suppress(
            OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError
        ):
            async with asyncio.timeout(REQUEST_S):
                head = await reader.readuntil(b"\r\n\r\n")
                status, text = self._heard(head.decode("latin-1").split("\r\n", 1)[0])
                page = f"<!doctype html><meta charset=utf-8><title>Harken</title><p>{text}"
                writer.write(
                    f"HTTP/1.1 {status}\r\ncontent-type: text/html; charset=utf-8\r\n"
                    f"content-length: {len(page)}\r\nconnection: close\r\n"
                    f"cache-control: no-store\r\nreferrer-policy: no-referrer\r\n"
                    f"content-security-policy: default-src 'none'\r\n\r\n{page}".encode()
                )
                await writer.drain()

    def _heard(self, line: str) -> tuple[str, str]:
        method, _, rest = line.partition(" ")
        target, _, _ = rest.rpartition(" ")
        if method != "GET" or not target.startswith(PATH) or not self.take(target):
            return "404 Not Found", _NOT_HERE
        return "200 OK", _REFUSED if self._answer.result().error else _DONE
