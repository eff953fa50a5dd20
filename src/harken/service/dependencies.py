"""What routes work with: the open store, and whether it may be changed.

How much the service takes at once, and how long it waits for whoever is slow.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, cast

import anyio
from fastapi import Depends, Request

from harken.store.base import Store
from harken.store.remote.errors import RequestRefused
from harken.store.remote.wire import BATCH_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceLimits:
    """What nobody may go beyond. Whoever does is refused, and nothing of it is done."""

    body_bytes: int = BATCH_BYTES
    body_s: float = 60
    """How long a body may take to arrive."""
    silence_s: float = 60
    """How long a connection may do nothing: neither ask whole nor take what it is given."""
    requests: int = 256
    """How many are answered at once; those above are told to come again."""
    connections: int = 512
    threads: int = 32
    """How many requests use the store at once: writes of that time share one sync of the disk."""
    streams: int = 8
    """How many long answers are made at once, in threads of their own."""


async def store_of(request: Request) -> Store:
    """Return the store of the service."""
    return cast(Store, request.app.state.store)


async def streams_of(request: Request) -> anyio.CapacityLimiter:
    """Return what counts the threads of long answers."""
    return cast(anyio.CapacityLimiter, request.app.state.streams)


async def may_change(request: Request) -> None:
    """Raise Refused where the service only reads."""
    if request.app.state.read_only:
        raise RequestRefused(
            "read_only", "this service only reads: it was started with --read-only"
        )


Open = Annotated[Store, Depends(store_of)]
Streams = Annotated[anyio.CapacityLimiter, Depends(streams_of)]
CHANGES = [Depends(may_change)]
"""The dependencies of a route that changes what is stored."""
