"""Changes of the store, in order, and the audit log of a team.

Source: docs/formats/service.md, "Changes".
"""

from __future__ import annotations

import time
from typing import Annotated, TypeAlias, cast

import anyio
import anyio.to_thread
import msgspec
from fastapi import APIRouter, Query, Request

from harken.service.body import Json
from harken.service.dependencies import OpenStore, PageLimit
from harken.service.openapi import operation
from harken.service.team.trace import trace_of
from harken.store.changes import ChangePage, ChangeStore
from harken.store.remote.errors import RequestRefused
from harken.teams.audit import AuditPage, read_audit_page

routes = APIRouter(prefix="/v1", tags=["team"])
Position: TypeAlias = Annotated[int, Query(ge=0, le=2**53)]
Wait: TypeAlias = Annotated[float, Query(ge=0, le=30)]
_POLL_S = 0.2


@routes.get("/changes", **operation(ChangePage, names=True))
async def changes(
    store: OpenStore, after: Position = 0, limit: PageLimit = 1000, wait_s: Wait = 0
) -> Json:
    """Return the changes after a position, oldest first; `next` is the position to continue at.

    If there are none, wait up to `wait_s` seconds for one. A page without changes and with another
    `next` is not the last one.
    """
    if not isinstance(store, ChangeStore):
        raise RequestRefused("not_found", "this store keeps no changes")
    end = time.monotonic() + wait_s
    while True:
        page = await anyio.to_thread.run_sync(store.changes, after, limit)
        after = page.next
        if page.changes or time.monotonic() >= end:
            return Json(page)
        await anyio.sleep(_POLL_S)


@routes.get("/audit", **operation(AuditPage, names=True))
def audit(request: Request, after: Position = 0, limit: PageLimit = 1000) -> Json:
    """Return records of the audit log, oldest first; `next` is the position to continue at."""
    team = trace_of(request.scope).team
    if team is None:
        raise RequestRefused("not_found", "this service has no users")
    return Json(cast(msgspec.Struct, read_audit_page(team.audit.path, after, limit)))
