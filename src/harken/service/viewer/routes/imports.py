"""Routes of the import of other runtimes' sessions. Nothing is imported without a POST request."""

from __future__ import annotations

from typing import Annotated, cast

from fastapi import APIRouter, Depends, Request

from harken.service.body import Json, RequestBody
from harken.service.viewer.home_pages.imports import ImportRequest, ImportService

routes = APIRouter(prefix="/api/import", include_in_schema=False)


async def service_of(request: Request) -> ImportService:
    """Return the imports of the viewer."""
    return cast(ImportService, request.app.state.imports)


Service = Annotated[ImportService, Depends(service_of)]


@routes.get("", response_model=None)
def state(service: Service) -> Json:
    """Return the state of the running import, or of the last one."""
    return Json(service.state())


@routes.get("/sources", response_model=None)
def sources(service: Service) -> Json:
    """Return the sessions of other runtimes on this machine, by runtime."""
    return Json({"sources": service.list_sources()})


@routes.post("", response_model=None)
def start(service: Service, body: RequestBody) -> Json:
    """Start an import of some runtimes."""
    return Json(service.start(body.json(ImportRequest).runtimes))


@routes.post("/cancel", response_model=None)
def cancel(service: Service) -> Json:
    """Ask the running import to end."""
    return Json(service.cancel())
