"""`http_transport`: a server that answers over streamable HTTP, with a bound on what it sends."""

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
"""How long a stream may say nothing before it is opened anew."""


_ENDS_OF_EVENTS = (b"\n\n", b"\n\r\n", b"\r\r")


class _Bounded(httpx2.AsyncByteStream):
    """A body that fails where it is more than can be held; of a stream of events, each event."""

    def __init__(self, body: httpx2.AsyncByteStream, *, ends: Sequence[bytes] = ()) -> None:
        self._body, self._ends = body, ends

    async def __aiter__(self) -> AsyncIterator[bytes]:
        held = bytearray()
        async for chunk in self._body:
            begun = max(0, len(held) - 2)  # an end may have come in part
            held += chunk
            if len(held) > MAX_LINE_BYTES and not self._ends:  # else the SDK says so
                raise httpx2.StreamError(f"the answer is longer than {MAX_LINE_BYTES >> 20} MB")
            found = [at + len(one) for one in self._ends if (at := held.rfind(one, begun)) >= 0]
            if found or len(held) > MAX_LINE_BYTES:
                whole = max(found, default=len(held))
                yield _bearable(bytes(held[:whole]))
                del held[:whole]
        yield _bearable(bytes(held))

    async def aclose(self) -> None:
        await self._body.aclose()


def _bearable(data: bytes) -> bytes:
    """Return data that can be read. Raises StreamError."""
    if is_too_much(data):
        raise httpx2.StreamError(f"the answer is made of more than {MAX_PIECES:,} pieces")
    return data


async def _bound(response: httpx2.Response, tell: Callable[[str], None]) -> None:
    """Bound what is read of an answer; tell of a status that says what the SDK does not."""
    if response.status_code >= 500:
        tell(f"it answers HTTP {response.status_code}")
    if response.headers.get("content-encoding", "identity").lower() != "identity":
        raise httpx2.StreamError("it answers compressed, which nobody asked for")
    has_events = "text/event-stream" in response.headers.get("content-type", "").lower()
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    response.stream = _Bounded(response.stream, ends=_ENDS_OF_EVENTS if has_events else ())


@asynccontextmanager
async def http_transport(
    server: McpServerConfig, tell: Callable[[str], None], bearer: Bearer
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
        yield MessageFilter(incoming, tell), outgoing
