"""`http_transport`: connect over streamable HTTP, with a limit on the size of responses."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial

import httpx2
from mcp.client._transport import TransportStreams
from mcp.client.streamable_http import streamable_http_client

from harken.world.mcp.auth.bearer import Bearer
from harken.world.mcp.server_config import McpServerConfig
from harken.world.mcp.transport.lines import MAX_LINE_BYTES, MAX_PIECES, is_too_much
from harken.world.mcp.transport.rate_limit import MessageFilter

_CONNECT_S = 30.0
_SILENCE_S = 300.0
"""The time without events after which a stream is reopened."""
_EVENT_ENDS = (b"\n\n", b"\n\r\n", b"\r\r")


class _LimitedStream(httpx2.AsyncByteStream):
    """A body that fails if it exceeds the size limit; for an event stream, per event."""

    def __init__(self, body: httpx2.AsyncByteStream, *, ends: Sequence[bytes] = ()) -> None:
        self._body, self._ends = body, ends

    async def __aiter__(self) -> AsyncIterator[bytes]:
        buffer = bytearray()
        async for chunk in self._body:
            search_start = max(0, len(buffer) - 2)  # An end may have been received in part.
            buffer += chunk
            # For events, the SDK raises the error.
            if len(buffer) > MAX_LINE_BYTES and not self._ends:
                raise httpx2.StreamError(f"the response is longer than {MAX_LINE_BYTES >> 20} MB")
            event_ends = [
                offset + len(event_end)
                for event_end in self._ends
                if (offset := buffer.rfind(event_end, search_start)) >= 0
            ]
            if event_ends or len(buffer) > MAX_LINE_BYTES:
                size = max(event_ends, default=len(buffer))
                yield _check_pieces(bytes(buffer[:size]))
                del buffer[:size]
        yield _check_pieces(bytes(buffer))

    async def aclose(self) -> None:
        await self._body.aclose()


def _check_pieces(data: bytes) -> bytes:
    """Return data within the limit on pieces. Raises StreamError."""
    if is_too_much(data):
        raise httpx2.StreamError(f"the response has more than {MAX_PIECES:,} pieces")
    return data


async def _limit_response(response: httpx2.Response, tell: Callable[[str], None]) -> None:
    """Limit the size of a response, and report a server error, which the SDK does not."""
    if response.status_code >= 500:
        tell(f"HTTP {response.status_code}")
    if response.headers.get("content-encoding", "identity").lower() != "identity":
        raise httpx2.StreamError("its response is compressed, which was not requested")
    has_events = "text/event-stream" in response.headers.get("content-type", "").lower()
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    response.stream = _LimitedStream(response.stream, ends=_EVENT_ENDS if has_events else ())


@asynccontextmanager
async def http_transport(
    server: McpServerConfig, tell: Callable[[str], None], bearer: Bearer
) -> AsyncIterator[TransportStreams]:
    """Connect with a server that has a `url` and resolved variables."""
    assert server.url is not None
    patience = httpx2.Timeout(_CONNECT_S, read=max(_SILENCE_S, server.timeout_s))
    async with (
        httpx2.AsyncClient(
            headers={**server.headers, "accept-encoding": "identity"},
            timeout=patience,
            auth=bearer,
            event_hooks={"response": [partial(_limit_response, tell=tell)]},
        ) as client,
        streamable_http_client(
            server.url, http_client=client, max_sse_event_size=MAX_LINE_BYTES
        ) as (incoming, outgoing),
    ):
        yield MessageFilter(incoming, tell), outgoing
