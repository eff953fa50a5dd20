"""The ASGI application of the viewer: built files, routes, security headers, compression."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from fastapi import Depends, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import DEFAULT_EXCLUDED_CONTENT_TYPES, GZipMiddleware
from starlette.types import ASGIApp

from harken.errors import HarkenError
from harken.service.app import handle_error, handle_invalid, make_api
from harken.service.body import Json, reject_unknown_parameters
from harken.service.dependencies import ServiceLimits
from harken.service.middleware import ErrorMiddleware
from harken.service.viewer.access import PageAccessCheck
from harken.service.viewer.code_library import CodeLibrary
from harken.service.viewer.commit_history import CommitHistory
from harken.service.viewer.home_pages.commit_agents import CommitAgents
from harken.service.viewer.home_pages.imports import ImportService
from harken.service.viewer.home_pages.statistics import StatisticsSource
from harken.service.viewer.library import SessionLibrary
from harken.service.viewer.long_work import WorkThreads
from harken.service.viewer.open_sessions import OpenSessions
from harken.service.viewer.responses.headers import LINES_TYPE, SecurityHeaders
from harken.service.viewer.routes import (
    analysis,
    commits,
    compare,
    conversation,
    files,
    follow,
    forks,
    proof,
    runs,
    sessions,
    steps,
    why,
)
from harken.service.viewer.routes import imports as import_routes
from harken.service.viewer.routes import statistics as statistics_routes
from harken.service.viewer.run_comparison import RunComparer
from harken.service.viewer.session_forks import SessionForker
from harken.service.viewer.session_runner import SessionRunner
from harken.store.remote.errors import ErrorBody, Problem

LIMITS = ServiceLimits(body_bytes=1 << 20, body_s=20, requests=64, connections=128, threads=8)
_MIN_COMPRESSED_BYTES = 1024
"""A smaller answer fits into one packet."""
_GZIP_LEVEL = 4
"""Higher levels take several times as long, for answers that are a tenth smaller."""


class ViewerApp(NamedTuple):
    """The application, and the function that ends its streams when the server stops."""

    app: ASGIApp
    end_streams: Callable[[], None]


class ViewerSources(NamedTuple):
    """What the routes of the viewer read, and what acts for them."""

    library: SessionLibrary
    code: CodeLibrary
    commits: CommitHistory
    comparer: RunComparer
    forker: SessionForker
    runner: SessionRunner
    statistics: StatisticsSource
    imports: ImportService


def make_viewer_app(sources: ViewerSources, access: PageAccessCheck) -> ViewerApp:
    """Return the viewer of these sources."""
    app = make_api("Harken viewer", LIMITS)
    app.state.limits, app.state.access = LIMITS, access
    app.state.library, app.state.sessions = sources.library, OpenSessions(sources.library)
    app.state.commit_agents = CommitAgents(sources.library)
    app.state.code, app.state.work_threads = sources.code, WorkThreads()
    app.state.commits, app.state.comparer = sources.commits, sources.comparer
    app.state.forker, app.state.runner = sources.forker, sources.runner
    app.state.statistics, app.state.imports = sources.statistics, sources.imports
    app.state.page_files, app.state.is_closing = files.read_page_files(), False
    # The path of a session matches those below it too, so it is the last one.
    groups = (
        *(analysis, commits, compare, conversation, follow, forks, import_routes),
        *(proof, runs, statistics_routes, steps, why),
        sessions,
    )
    for group_routes in (why.session_routes, *(group.routes for group in groups)):
        app.include_router(group_routes, dependencies=[Depends(reject_unknown_parameters)])
    app.include_router(files.routes)
    for kind in (HarkenError, ValueError, OverflowError, RecursionError, Exception):
        app.add_exception_handler(kind, handle_error)
    app.add_exception_handler(RequestValidationError, handle_invalid)
    app.add_exception_handler(HTTPException, _handle_no_route)

    def end_streams() -> None:
        app.state.is_closing = True

    # The token is in no answer, so the size of a compressed answer tells nobody anything.
    compressed = GZipMiddleware(
        ErrorMiddleware(app, access, LIMITS),
        minimum_size=_MIN_COMPRESSED_BYTES,
        compresslevel=_GZIP_LEVEL,
        exclude_content_types=(*DEFAULT_EXCLUDED_CONTENT_TYPES, LINES_TYPE),
    )
    return ViewerApp(SecurityHeaders(compressed), end_streams)


async def _handle_no_route(_: Request, error: Exception) -> Json:
    """Return an error response for an unknown path or method."""
    assert isinstance(error, HTTPException)
    if error.status_code == 405:
        allowed = (error.headers or {}).get("Allow", "GET")
        problem = Problem("method_not_allowed", f"this path supports {allowed}")
        return Json(ErrorBody(problem), problem.status, {"allow": allowed})
    problem = Problem("not_found", "path not found")
    return Json(ErrorBody(problem), problem.status)
