"""Dependencies and limits of routes.

`ServiceLimits` has the limits for sizes, times and concurrency.
"""

from __future__ import annotations

from typing import Annotated, cast

import anyio
import msgspec
from fastapi import Depends, Request

from harken.store.base import Store
from harken.store.remote.errors import RequestRefused
from harken.store.remote.wire import MAX_BATCH_BYTES


class ServiceLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of the service. A request that exceeds one is rejected without effect."""

    body_bytes: int = MAX_BATCH_BYTES
    body_s: float = 60
    """Maximum time for receiving a body, in seconds."""
    silence_s: float = 60
    """Maximum time without progress on a connection, in seconds."""
    requests: int = 256
    """Maximum number of concurrent requests; others get status 503."""
    connections: int = 512
    threads: int = 32
    """Maximum number of concurrent store operations; concurrent writes share one fsync."""
    streams: int = 8
    """Maximum number of concurrent streaming responses, each with its own thread."""


async def store_of(request: Request) -> Store:
    """Return the store of the service."""
    return cast(Store, request.app.state.store)


async def streams_of(request: Request) -> anyio.CapacityLimiter:
    """Return the capacity limiter for streaming responses."""
    return cast(anyio.CapacityLimiter, request.app.state.streams)


async def require_writable(request: Request) -> None:
    """Raise RequestRefused if the service is read-only."""
    if request.app.state.read_only:
        raise RequestRefused(
            "read_only", "this service only reads: it was started with --read-only"
        )


OpenStore = Annotated[Store, Depends(store_of)]
StreamLimiter = Annotated[anyio.CapacityLimiter, Depends(streams_of)]
WRITE_DEPENDENCIES = [Depends(require_writable)]
"""The dependencies of a route that modifies the store."""
