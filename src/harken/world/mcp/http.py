"""`http_transport`: a server that answers over streamable HTTP, with a bound on what it sends."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial

import httpx2
from mcp.client._transport import TransportStreams
from mcp.client.streamable_http import streamable_http_client

from harken.world.mcp.bearer import Bearer
from harken.world.mcp.lines import MAX_LINE_BYTES
from harken.world.mcp.servers import Server
from harken.world.mcp.sieve import Sieve

_CONNECT_S = 30.0
_SILENCE_S = 300.0
"""How long a stream may say nothing before it is opened anew."""


class _Bounded(httpx2.AsyncByteStream):
    """A body that fails where it is longer than can be held. Streams of events have no end."""

    def __init__(self, body: httpx2.AsyncByteStream, most: int) -> None:
        self._body, self._most = body, most

    async def __aiter__(self) -> AsyncIterator[bytes]:
        seen = 0
        async for chunk in self._body:
            seen += len(chunk)
            if seen > self._most:
                raise httpx2.StreamError(f"the answer is longer than {self._most >> 20} MB")
            yield chunk

    async def aclose(self) -> None:
        await self._body.aclose()


async def _bound(response: httpx2.Response, tell: Callable[[str], None]) -> None:
    """Bound what is read of an answer; tell of a status that says what the SDK does not."""
    if response.status_code >= 500:
        tell(f"it answers HTTP {response.status_code}")
    if response.headers.get("content-encoding", "identity").lower() != "identity":
        raise httpx2.StreamError("it answers compressed, which nobody asked for")
    if "text/event-stream" not in response.headers.get("content-type", "").lower():
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        response.stream = _Bounded(response.stream, MAX_LINE_BYTES)


@asynccontextmanager
async def http_transport(
    server: Server, tell: Callable[[str], None], bearer: Bearer
) -> AsyncIterator[TransportStreams]:
    """Connect with a server that has a `url`, its variables filled in."""
    assert server.url is not None
    patience = httpx2.Timeout(_CONNECT_S, read=max(_SILENCE_S, server.timeout_s))
    async with (
        httpx2.AsyncClient(
            headers={**server.headers, "accept-encoding": "identity"},
            timeout=patience,
            auth=bearer,
            event_hooks={"response": [partial(_bound, tell=tell)]},
        ) as client,
        streamable_http_client(
            server.url, http_client=client, max_sse_event_size=MAX_LINE_BYTES
        ) as (incoming, outgoing),
    ):
        yield Sieve(incoming, tell), outgoing
