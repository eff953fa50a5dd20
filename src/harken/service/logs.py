"""Logs over HTTP: how much of one is there, and lines that come after it.

Source: docs/formats/service.md, "Logs".
"""

from __future__ import annotations

from typing import Annotated, TypeAlias, cast

from fastapi import APIRouter, Depends, Query, Request

from harken.service.bodies import Json, Sent
from harken.service.description import operation
from harken.service.opened import CHANGES
from harken.service.received import Logs
from harken.session.received import End
from harken.store.remote import wire

routes = APIRouter(prefix="/v1/logs", tags=["logs"])
Offset: TypeAlias = Annotated[int, Query(alias="from", ge=0, le=2**53)]


async def logs_of(request: Request) -> Logs:
    """Return the logs of the service."""
    return cast(Logs, request.app.state.logs)


Kept = Annotated[Logs, Depends(logs_of)]


@routes.get("/{name}", **operation(wire.LogEnd, names=True))
def end(logs: Kept, name: str) -> Json:
    """Say how much is there of the log of a session; nothing, where there is none."""
    return _told(logs.end(name))


@routes.post(
    "/{name}", **operation(wire.LogEnd, names=True, takes_bytes=True), dependencies=CHANGES
)
def append(logs: Kept, name: str, at: Offset, given: Sent) -> Json:
    """Add whole lines after the first `from` bytes; once answered they are durable.

    Lines that are there already are not added again; others in their place are refused.
    """
    return _told(logs.receive(name, at, given))


def _told(found: End) -> Json:
    return Json(wire.LogEnd(found.size_bytes, found.last_sum.decode("ascii", "replace")))
