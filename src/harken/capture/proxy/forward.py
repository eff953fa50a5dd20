"""`Forwarder`: pass one request to its server, and the response back, unchanged.

A client should not notice the proxy. Bytes are passed on as they arrive and stay compressed. A
truncated response stays truncated, and a disconnect is passed on in both directions. Only
hop-by-hop headers are replaced. The recording is separate, in a `ProxyTap`.

Source: RFC 9110 §7.6 (what an intermediary does with headers).
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Iterable

import msgspec
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
from harken.recording.exchange import CLIENT_DISCONNECTED, PROVIDER_DISCONNECTED, PROXY_STOPPED

HOP_BY_HOP = frozenset({
    "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection",
    "te", "trailer", "transfer-encoding", "upgrade", "expect",
})  # fmt: skip
"""Headers of a single connection. The proxy itself answers `expect`."""
MAX_HEADER_BYTES = 1 << 16
CONNECT_TIMEOUT_S = 60.0
_AUTOMATIC_HEADERS = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")
_ADDED_HEADERS = ("Server", "Date", "Content-Type")


def new_session() -> ClientSession:
    """Create the HTTP client.

    It adds no headers, follows no redirects, does not decompress, and has no total timeout.
    """
    return ClientSession(
        connector=TCPConnector(limit=0),
        cookie_jar=DummyCookieJar(),
        auto_decompress=False,
        skip_auto_headers=_AUTOMATIC_HEADERS,
        timeout=ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S),
        max_line_size=MAX_HEADER_BYTES,
        max_field_size=MAX_HEADER_BYTES,
    )


class ForwardedResponse(web.StreamResponse):
    """A response that is passed on."""

    def __init__(self, answer: ClientResponse) -> None:
        headers = _forwarded_headers(answer.raw_headers)
        super().__init__(status=answer.status, reason=answer.reason, headers=headers)
        self.added = [name for name in _ADDED_HEADERS if name not in headers]
        """Headers that the library adds, and that `strip` removes again."""


async def strip_added_headers(_request: web.Request, response: web.StreamResponse) -> None:
    """Remove the headers that the library added to a response: an `on_response_prepare` signal."""
    if isinstance(response, ForwardedResponse):
        for name in response.added:
            response.headers.pop(name, None)


class Forwarder(msgspec.Struct):
    """Pass on requests. All methods run in one event loop."""

    upstreams: Upstreams
    session: ClientSession
    tap: ProxyTap
    open: int = 0
    """The number of active requests."""
    last_active_s: float = msgspec.field(default_factory=time.monotonic)
    """The time of the last request or response."""
    is_ending: bool = False

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Handle a request."""
        self.open += 1
        self.last_active_s = time.monotonic()
        try:
            return await self._handle(request)
        finally:
            self.open -= 1
            self.last_active_s = time.monotonic()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        origin, host = request.headers.get("Origin"), request.headers.get("Host")
        if refusal := browser_refusal(origin, host, request.headers.get("Sec-Fetch-Site")):
            return _error_response(403, refusal)
        target = self.upstreams.find(request.raw_path, request.headers)
        if isinstance(target, UpstreamError):
            return _error_response(target.status, target.reason)
        if request.headers.get("Upgrade", "").lower() == "websocket":
            return _error_response(426, "WebSockets are not passed on: ask over HTTP")
        tapped = self.tap.begin(request.method, target, request.headers)
        try:
            return await self._forward(request, target, tapped)
        except asyncio.CancelledError:
            tapped.broken = PROXY_STOPPED if self.is_ending else CLIENT_DISCONNECTED
            raise
        finally:
            tapped.end()

    async def _forward(
        self, request: web.Request, target: Target, tapped: TappedCall
    ) -> web.StreamResponse:
        """Send the request, and return the response."""
        body = _iter_body(request, tapped) if request.body_exists else None
        if body is None:
            tapped.end_request()
        try:
            answer = await self.session.request(
                request.method,
                URL(target.url, encoded=True),
                headers=_forwarded_headers(request.raw_headers, "host"),
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
            tapped.broken = f"{target.upstream.url} could not be reached ({_format_error(error)})"
            if (
                not request.content.at_eof()
            ):  # The request is recorded even if the server is unreachable.
                async for _ in _iter_body(request, tapped):
                    pass
            return _error_response(502, tapped.broken)
        except (ClientError, OSError):
            tapped.broken = PROVIDER_DISCONNECTED
            return _abort_connection(request, web.StreamResponse())
        try:
            return await self._answer(request, answer, tapped)
        finally:
            answer.close()  # A completely read connection returns to the pool.

    async def _answer(
        self, request: web.Request, answer: ClientResponse, tapped: TappedCall
    ) -> web.StreamResponse:
        response = ForwardedResponse(answer)
        tapped.begin_response(answer.status, answer.headers)
        try:
            await response.prepare(request)
            while data := await _read_next(answer):
                tapped.data(data)
                await response.write(data)
            await response.write_eof()
        except _ServerDisconnected:
            tapped.broken = PROVIDER_DISCONNECTED
            return _abort_connection(request, response)
        except ConnectionError:
            tapped.broken = CLIENT_DISCONNECTED
            return _abort_connection(request, response)
        return response


class _ServerDisconnected(Exception):
    """The server closed the connection within its response."""


async def _read_next(answer: ClientResponse) -> bytes:
    """Return the next bytes. Return empty bytes at the end. Raises _Broken."""
    try:
        return await answer.content.readany()
    except (ClientError, OSError) as error:
        raise _ServerDisconnected from error


async def _iter_body(request: web.Request, tapped: TappedCall) -> AsyncIterator[bytes]:
    async for data in request.content.iter_any():
        tapped.body(data)
        yield data
    tapped.end_request()


def _forwarded_headers(raw: Iterable[tuple[bytes, bytes]], *excluded: str) -> CIMultiDict[str]:
    """Return the headers to pass on, in their order and spelling."""
    pairs = [(name.decode("ascii", "replace"), _decode_header(value)) for name, value in raw]
    connection_options = ",".join(value for name, value in pairs if name.lower() == "connection")
    removed = HOP_BY_HOP.union(
        excluded, (name.strip().lower() for name in connection_options.split(","))
    )
    return CIMultiDict((name, value) for name, value in pairs if name.lower() not in removed)


def _decode_header(value: bytes) -> str:
    return value.decode("utf-8", "surrogateescape")


def _error_response(status: int, reason: str) -> web.Response:
    """Return an error response of the proxy, in a format that clients of all protocols can read."""
    error = {"type": "api_error", "code": status, "status": "UNAVAILABLE"}
    message = f"harken proxy: {reason}"
    return web.json_response(
        {"type": "error", "error": {**error, "message": message}}, status=status
    )


def _abort_connection(request: web.Request, response: web.StreamResponse) -> web.StreamResponse:
    """Close the connection without completing the response."""
    if request.transport is not None:
        request.transport.close()
    return response


def _format_error(error: Exception) -> str:
    """Return a short error message."""
    number = error.errno if isinstance(error, OSError) else None
    if number is not None and number > 0:
        return os.strerror(number)
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return " ".join(str(error).split())[:200] or type(error).__name__
