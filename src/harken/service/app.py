"""The ASGI application: an open store, its routes, and error handling."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from harken.errors import HarkenError
from harken.service import commit_routes, lifecycle_routes, log_routes, store_routes, team_routes
from harken.service.access import HEALTH_PATH, AccessCheck
from harken.service.body import Json, reject_unknown_parameters
from harken.service.dependencies import ServiceLimits, require_right
from harken.service.log_routes import Logs
from harken.service.middleware import ErrorMiddleware, error_headers
from harken.service.openapi import SCHEMAS, describe, error_response, methods_of
from harken.service.schemas import Health
from harken.service.team.source import TeamSource
from harken.service.team.trace import trace_of
from harken.store.base import Store
from harken.store.remote.errors import ErrorBody, Problem, encode_error
from harken.store.remote.wire import JSON

if TYPE_CHECKING:
    from harken.teams.team import Team

# The service must not report requests to others. Older versions of FastAPI ignore this.
_NO_TELEMETRY: Any = {
    "tracing": False,
    "metrics": False,
    "logs": False,
    "operation_spans": False,
    "auto_configure": False,
}


def make_api(title: str, limits: ServiceLimits, dependencies: Sequence[Any] = ()) -> FastAPI:
    """Return an application without routes, pages of its own, and telemetry.

    dependencies: those of each route.
    """

    @asynccontextmanager
    async def living(_: FastAPI) -> AsyncIterator[None]:
        anyio.to_thread.current_default_thread_limiter().total_tokens = limits.threads
        yield

    return FastAPI(
        title=title,
        version=version("harken"),
        lifespan=living,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        dependencies=dependencies,
        telemetry=_NO_TELEMETRY,
    )


def make_app(
    store: Store,
    gate: AccessCheck,
    *,
    limits: ServiceLimits | None = None,
    read_only: bool = False,
    sessions: Path | None = None,
    refuses_credentials: bool = False,
    team: Team | TeamSource | None = None,
) -> ErrorMiddleware:
    """Return the service for an open store as an ASGI application. The caller closes the store.

    Received logs are written to the folder `sessions`. Without it, logs are rejected; with
    `refuses_credentials`, also those that contain a credential. With a team, its users have access
    as their rights say, and each request is recorded. The caller closes the team.
    """
    limits = limits or ServiceLimits()
    app = make_api("Harken", limits, [Depends(require_right)])
    app.description = "Commits of the contexts of agents, and the store that holds them."
    app.state.store, app.state.limits, app.state.read_only = store, limits, read_only
    app.state.streams = anyio.CapacityLimiter(limits.streams)
    app.state.logs = Logs(sessions, refuses_credentials=refuses_credentials)
    for routes in (
        commit_routes.routes,
        store_routes.routes,
        lifecycle_routes.routes,
        log_routes.routes,
        team_routes.routes,
    ):
        app.include_router(routes, dependencies=[Depends(reject_unknown_parameters)])
    _add_service_routes(app)
    for kind in (HarkenError, ValueError, OverflowError, RecursionError, Exception):
        app.add_exception_handler(kind, handle_error)
    app.add_exception_handler(RequestValidationError, handle_invalid)
    app.add_exception_handler(HTTPException, _handle_no_route)
    if team is None:
        return ErrorMiddleware(app, gate, limits)
    source = team if isinstance(team, TeamSource) else TeamSource(lambda: team)
    return ErrorMiddleware(app, gate, limits, lambda: source.find_parts(gate))


def _add_service_routes(app: FastAPI) -> None:
    """Add the routes of the service itself."""
    responses: dict[int | str, dict[str, Any]] = {
        200: {
            "description": "The service runs.",
            "content": {JSON: {"schema": SCHEMAS.of(Health)}},
        },
        **{status: error_response(status) for status in (403, 500, 503)},
    }

    @app.get(
        HEALTH_PATH,
        tags=["service"],
        response_class=Json,
        response_model=None,
        responses=responses,
        openapi_extra={"security": []},
    )
    async def health() -> Json:
        """Return the name and version of the service. Needs no token."""
        return Json(Health("harken", app.version))

    @app.get("/v1/openapi.json", include_in_schema=False)
    async def description() -> Json:
        """Describe the API."""
        return Json(describe(app))


def _build_response(request: Request, problem: Problem) -> Json:
    trace_of(request.scope).code = problem.code
    return Json(ErrorBody(problem), problem.status, error_headers(problem))


async def handle_error(request: Request, error: Exception) -> Json:
    """Return the error response of an exception."""
    return _build_response(request, encode_error(error))


async def handle_invalid(request: Request, error: Exception) -> Json:
    """Return an error response that names the invalid parameters."""
    assert isinstance(error, RequestValidationError)
    details = [f"{'.'.join(map(str, detail['loc']))}: {detail['msg']}" for detail in error.errors()]
    return _build_response(request, Problem("invalid", "; ".join(details)))


async def _handle_no_route(request: Request, error: Exception) -> Json:
    """Return an error response for an unknown path or method."""
    assert isinstance(error, HTTPException)
    if error.status_code == 405:
        methods = ", ".join(methods_of(request.app, request.url.path))
        problem = Problem("method_not_allowed", f"this path supports {methods}")
        return Json(ErrorBody(problem), problem.status, {"allow": methods})
    if error.status_code == 404:
        problem = Problem("not_found", "path not found; /v1/openapi.json describes all paths")
    else:
        problem = Problem("invalid", str(error.detail))
    return _build_response(request, problem)
