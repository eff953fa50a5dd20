"""What routes work with: the open store, and whether it may be changed."""

from __future__ import annotations

from typing import Annotated, cast

import anyio
from fastapi import Depends, Request

from harken.store.base import Store
from harken.store.remote.failures import Refused


async def store_of(request: Request) -> Store:
    """Return the store of the service."""
    return cast(Store, request.app.state.store)


async def streams_of(request: Request) -> anyio.CapacityLimiter:
    """Return what counts the threads of long answers."""
    return cast(anyio.CapacityLimiter, request.app.state.streams)


async def may_change(request: Request) -> None:
    """Raise Refused where the service only reads."""
    if request.app.state.read_only:
        raise Refused("read_only", "this service only reads: it was started with --read-only")


Open = Annotated[Store, Depends(store_of)]
Streams = Annotated[anyio.CapacityLimiter, Depends(streams_of)]
CHANGES = [Depends(may_change)]
"""The dependencies of a route that changes what is stored."""
