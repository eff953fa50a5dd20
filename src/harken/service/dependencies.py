"""Dependencies and limits of routes.

`ServiceLimits` has the limits for sizes, times and concurrency.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, TypeAlias, cast

import anyio
import anyio.to_thread
import msgspec
from fastapi import Depends, Query, Request

from harken.context.checkpoint import CommitOrigin
from harken.service.team.access import OWNER_CALLER, check_route, find_right
from harken.service.team.trace import RequestTrace, trace_of
from harken.store.base import Store
from harken.store.remote.errors import RequestRefused
from harken.store.remote.wire import MAX_BATCH_BYTES, MAX_NAMES
from harken.teams.caller import Caller


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


async def require_right(request: Request) -> None:
    """Raise RequestRefused unless the sender has the right that the route needs."""
    trace = trace_of(request.scope)
    if trace.team is None or not trace.needs_right:
        return
    caller = _require_caller(trace)
    right = find_right(request.method, request.scope["route"].path)
    trace.right = right or "admin"
    if not caller.is_owner:
        check_route(caller, right)


async def caller_of(request: Request) -> Caller:
    """Return the sender of the request. Without a team, everyone is the owner."""
    trace = trace_of(request.scope)
    return OWNER_CALLER if trace.team is None else _require_caller(trace)


def _require_caller(trace: RequestTrace) -> Caller:
    if trace.caller is None:
        raise RequestRefused("unauthorized", "send a token: Authorization: Bearer")
    return trace.caller


async def store_of(request: Request) -> Store:
    """Return the store of the service, as the sender of the request may use it."""
    store, trace = cast(Store, request.app.state.store), trace_of(request.scope)
    team = trace.team
    if team is None:
        return store
    trace.store = await anyio.to_thread.run_sync(
        lambda: team.open_store(store, _require_caller(trace), is_writing=trace.right != "read")
    )
    return cast(Store, trace.store)


async def streams_of(request: Request) -> anyio.CapacityLimiter:
    """Return the capacity limiter for streaming responses."""
    return cast(anyio.CapacityLimiter, request.app.state.streams)


async def require_writable(request: Request) -> None:
    """Raise RequestRefused if the service is read-only."""
    if request.app.state.read_only:
        raise RequestRefused(
            "read_only", "this service only reads: it was started with --read-only"
        )


def sign(caller: Caller, origin: CommitOrigin) -> CommitOrigin:
    """Return the origin of a commit with the principal of the sender. Raises RequestRefused."""
    return replace(origin, principal=caller.sign(origin.principal))


PageLimit: TypeAlias = Annotated[int, Query(ge=1, le=MAX_NAMES)]
"""The limit of a page, as a parameter of a path."""
BodyLimit: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=MAX_NAMES)]
"""The limit of a page, in a body."""
OpenStore = Annotated[Store, Depends(store_of)]
Sender = Annotated[Caller, Depends(caller_of)]
StreamLimiter = Annotated[anyio.CapacityLimiter, Depends(streams_of)]
WRITE_DEPENDENCIES = [Depends(require_writable)]
"""The dependencies of a route that modifies the store."""
