"""Passing on: one request to its server, and the answer back, as they are.

One idea: what a client sees with the proxy is what it would see without it. Bytes are passed as
they arrive, compressed as they are; an answer that is cut off is cut off; whoever hangs up is hung
up on. Only what belongs to a single connection is made anew. What is recorded is noted beside it.

Source: RFC 9110 §7.6 (what an intermediary does with headers).
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field

from aiohttp import ClientResponse, ClientSession, ClientTimeout, DummyCookieJar, TCPConnector, web
from aiohttp.client_exceptions import (
    ClientConnectorError,
    ClientError,
    ClientResponseError,
    ConnectionTimeoutError,
    InvalidURL,
)
from multidict import CIMultiDict
from yarl import URL

from harken.capture.proxy.tap import ProxyTap, TappedCall
from harken.capture.proxy.upstreams import Target, UpstreamError, Upstreams
from harken.core.loopback import browser_refusal
from harken.recording.exchange import CUT, ENDED, HUNG_UP

HOP_BY_HOP = frozenset({
    "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection",
    "te", "trailer", "transfer-encoding", "upgrade", "expect",
})  # fmt: skip
"""What is between two neighbours only; the proxy itself answers `expect`."""
MOST_HEADER_BYTES = 1 << 16
CONNECT_S = 60.0
_AUTOMATIC = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")
_ADDED = ("Server", "Date", "Content-Type")


def new_session() -> ClientSession:
    """Return what asks servers. It adds nothing, follows nothing, unpacks nothing, never tires."""
    return ClientSession(
        connector=TCPConnector(limit=0),
        cookie_jar=DummyCookieJar(),
        auto_decompress=False,
        skip_auto_headers=_AUTOMATIC,
        timeout=ClientTimeout(total=None, sock_connect=CONNECT_S),
        max_line_size=MOST_HEADER_BYTES,
        max_field_size=MOST_HEADER_BYTES,
    )


class ForwardedResponse(web.StreamResponse):
    """An answer that is passed on."""

    def __init__(self, answer: ClientResponse) -> None:
        headers = _passed_on(answer.raw_headers)
        super().__init__(status=answer.status, reason=answer.reason, headers=headers)
        self.added = [name for name in _ADDED if name not in headers]
        """What the library adds to it, and is taken away again."""


async def strip(_request: web.Request, response: web.StreamResponse) -> None:
    """Take away from an answer what the library added to it: a signal of its application."""
    if isinstance(response, ForwardedResponse):
        for name in response.added:
            response.headers.pop(name, None)


@dataclass(slots=True)
class Forwarder:
    """Passes on requests. All of it runs in one event loop."""

    upstreams: Upstreams
    session: ClientSession
    notes: ProxyTap
    open: int = 0
    """How many requests are under way."""
    touched_s: float = field(default_factory=time.monotonic)
    """When somebody last asked, or was answered."""
    is_ending: bool = False

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer a request."""
        self.open += 1
        self.touched_s = time.monotonic()
        try:
            return await self._handle(request)
        finally:
            self.open -= 1
            self.touched_s = time.monotonic()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        origin, host = request.headers.get("Origin"), request.headers.get("Host")
        if refusal := browser_refusal(origin, host, request.headers.get("Sec-Fetch-Site")):
            return _said(403, refusal)
        target = self.upstreams.find(request.raw_path, request.headers)
        if isinstance(target, UpstreamError):
            return _said(target.status, target.reason)
        if request.headers.get("Upgrade", "").lower() == "websocket":
            return _said(426, "WebSockets are not passed on: ask over HTTP")
        noted = self.notes.begin(request.method, target, request.headers)
        try:
            return await self._pass(request, target, noted)
        except asyncio.CancelledError:
            noted.broken = ENDED if self.is_ending else HUNG_UP
            raise
        finally:
            noted.end()

    async def _pass(
        self, request: web.Request, target: Target, noted: TappedCall
    ) -> web.StreamResponse:
        """Ask the server, and give its answer."""
        body = _body(request, noted) if request.body_exists else None
        if body is None:
            noted.asked()
        try:
            answer = await self.session.request(
                request.method,
                URL(target.url, encoded=True),
                headers=_passed_on(request.raw_headers, "host"),
                data=body,
                allow_redirects=False,
                proxy=target.upstream.proxy,
            )
        except (
            ClientConnectorError,
            ClientResponseError,
            ConnectionTimeoutError,
            InvalidURL,
        ) as error:
            noted.broken = f"{target.upstream.url} could not be reached ({_short(error)})"
            if not request.content.at_eof():  # what was asked is known, if only here
                async for _ in _body(request, noted):
                    pass
            return _said(502, noted.broken)
        except (ClientError, OSError):
            noted.broken = CUT
            return _cut(request, web.StreamResponse())
        try:
            return await self._answer(request, answer, noted)
        finally:
            answer.close()  # it goes on being used where it is whole

    async def _answer(
        self, request: web.Request, answer: ClientResponse, noted: TappedCall
    ) -> web.StreamResponse:
        response = ForwardedResponse(answer)
        noted.answered(answer.status, answer.headers)
        try:
            await response.prepare(request)
            while data := await _next(answer):
                noted.data(data)
                await response.write(data)
            await response.write_eof()
        except _Broken:
            noted.broken = CUT
            return _cut(request, response)
        except ConnectionError:
            noted.broken = HUNG_UP
            return _cut(request, response)
        return response


class _Broken(Exception):
    """The server has stopped in the midst of its answer."""


async def _next(answer: ClientResponse) -> bytes:
    """Return what has come; nothing: that was all. Raises _Broken."""
    try:
        return await answer.content.readany()
    except (ClientError, OSError) as error:
        raise _Broken from error


async def _body(request: web.Request, noted: TappedCall) -> AsyncIterator[bytes]:
    async for data in request.content.iter_any():
        noted.body(data)
        yield data
    noted.asked()


def _passed_on(raw: Iterable[tuple[bytes, bytes]], *without: str) -> CIMultiDict[str]:
    """Return headers as they go on, in their order, spelled as they are."""
    pairs = [(name.decode("ascii", "replace"), _text(value)) for name, value in raw]
    named = ",".join(value for name, value in pairs if name.lower() == "connection")
    left = HOP_BY_HOP.union(without, (name.strip().lower() for name in named.split(",")))
    return CIMultiDict((name, value) for name, value in pairs if name.lower() not in left)


def _text(value: bytes) -> str:
    return value.decode("utf-8", "surrogateescape")


def _said(status: int, reason: str) -> web.Response:
    """Return an answer of the proxy itself, in a shape that clients of all protocols read."""
    error = {"type": "api_error", "code": status, "status": "UNAVAILABLE"}
    message = f"harken proxy: {reason}"
    return web.json_response(
        {"type": "error", "error": {**error, "message": message}}, status=status
    )


def _cut(request: web.Request, response: web.StreamResponse) -> web.StreamResponse:
    """Close the connection without ending the answer."""
    if request.transport is not None:
        request.transport.close()
    return response


def _short(error: Exception) -> str:
    """Return what went wrong, without what the reader knows."""
    number = error.errno if isinstance(error, OSError) else None
    if number is not None and number > 0:
        return os.strerror(number)
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return " ".join(str(error).split())[:200] or type(error).__name__
