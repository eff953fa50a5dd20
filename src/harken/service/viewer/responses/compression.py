"""Compression of answers: JSON when it is sent, built files once.

A viewer may be looked at from another machine, through a tunnel. Only whole answers are compressed:
a stream of lines must arrive line by line. The token is in no answer, and a foreign page can cause
none, so the size of a compressed answer tells nobody anything.

Source: RFC 9110, section 12.5.3 (Accept-Encoding).
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable

from anyio import to_thread
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MIN_BYTES = 4096
"""The size from which an answer is compressed: a smaller one fits into few packets."""
_LEVEL = 1
"""Higher levels take several times as long, for answers that are a tenth smaller."""
_MIN_THREAD_BYTES = 50_000
"""The size from which a thread compresses, so that the event loop is free."""
_JSON = b"application/json"
GZIP_HEADERS = ((b"content-encoding", b"gzip"), (b"vary", b"accept-encoding"))


class JsonCompression:
    """Compresses the JSON of an application, for clients that accept it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and accepts_gzip(scope["headers"]):
            send = _Compressor(send).send
        await self._app(scope, receive, send)


class _Compressor:
    """Sends a response, compressed if it is whole and JSON."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._start: Message | None = None
        """The beginning of a response that may be compressed."""

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start" and _is_json(message["headers"]):
            self._start = message
            return
        if self._start is not None:
            start, self._start = self._start, None
            body: bytes = message.get("body", b"")
            if len(body) >= MIN_BYTES and not message.get("more_body", False):
                body = await _compress(body)
                start = {**start, "headers": [*_iter_headers(start["headers"], body)]}
                message = {**message, "body": body}
            await self._send(start)
        await self._send(message)


def accepts_gzip(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Whether a client accepts gzip, by the headers of its request."""
    for name, value in headers:
        if name == b"accept-encoding":
            for coding in value.lower().split(b","):
                word, _, weight = coding.partition(b";")
                if word.strip() == b"gzip":
                    return weight.strip().rstrip(b"0.") != b"q="
    return False


def _is_json(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    return any(name == b"content-type" and value.startswith(_JSON) for name, value in headers)


def _iter_headers(
    headers: Iterable[tuple[bytes, bytes]], body: bytes
) -> Iterable[tuple[bytes, bytes]]:
    """Yield the headers of a response with a compressed body."""
    yield from ((name, value) for name, value in headers if name != b"content-length")
    yield b"content-length", b"%d" % len(body)
    yield from GZIP_HEADERS


async def _compress(body: bytes) -> bytes:
    if len(body) < _MIN_THREAD_BYTES:
        return gzip.compress(body, _LEVEL, mtime=0)
    return await to_thread.run_sync(gzip.compress, body, _LEVEL)
