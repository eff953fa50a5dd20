"""Routes of sessions: the list, the search, and a session with its agents."""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated

from fastapi import APIRouter, Query
from msgspec.structs import replace

from harken.service.body import Json
from harken.service.viewer.answers import describe_session
from harken.service.viewer.library import SessionQuery
from harken.service.viewer.requests import (
    MAX_NAME_CHARS,
    Library,
    Limit,
    Patience,
    Range,
    Sessions,
)
from harken.service.viewer.routes.runs import Runner, run_value
from harken.service.viewer.rows import agents_of, find_message, state_of, take_rows

routes = APIRouter(prefix="/api", include_in_schema=False)
_DEFAULT_HITS = 30


@routes.get("/about", response_model=None)
def about(library: Library) -> Json:
    """Return the version, the home, and the number of its sessions."""
    return Json({"version": version("harken"), "home": library.home, "sessions": library.count()})


@routes.get("/sessions", response_model=None)
def list_sessions(
    library: Library, runner: Runner, query: Annotated[SessionQuery, Query()]
) -> Json:
    """Return a page of the sessions that match, newest first."""
    page = library.list_sessions(query)
    questions = {run.name: len(run.questions) for run in runner.list_runs()}
    sessions = [
        replace(session, questions=questions.get(session.name, 0)) for session in page.sessions
    ]
    return Json(replace(page, sessions=sessions))


@routes.get("/choices", response_model=None)
def list_choices(library: Library) -> Json:
    """Return the values by which sessions can be filtered."""
    return Json(library.list_choices())


@routes.get("/search", response_model=None)
def search(
    library: Library,
    q: Annotated[str, Query(max_length=1000)],
    limit: Limit = _DEFAULT_HITS,
) -> Json:
    """Return messages of all sessions that match, newest first."""
    return Json(library.search(q, limit))


@routes.get("/sessions/{name:path}/moves", response_model=None)
def moves(name: str, sessions: Sessions, window: Range) -> Json:
    """Return a range of the changes of agents' places."""
    with sessions.use(name) as open_session:
        rows = open_session.tree_moves()
        page = take_rows(rows[window.start : window.stop])
        return Json({"total": len(rows), **state_of(open_session), "moves": page})


@routes.get("/sessions/{name:path}/tree", response_model=None)
def tree_after(
    name: str, sessions: Sessions, after: Annotated[str, Query(max_length=MAX_NAME_CHARS)]
) -> Json:
    """Return the agents as they were after an event."""
    with sessions.use(name) as open_session:
        rows = open_session.tree_after(find_message(open_session, after))
        return Json({**state_of(open_session), **agents_of(rows)})


@routes.get("/sessions/{name:path}", response_model=None)
def session(
    name: str, library: Library, sessions: Sessions, runner: Runner, patience: Patience
) -> Json:
    """Return a session with its agents."""
    summary = library.describe(name)
    with sessions.use(name, patience.max_s) as open_session:
        commands = library.commands(name, has_commits=open_session.has_commits())
        answer = describe_session(open_session, summary, commands)
        answer |= state_of(open_session)
    return Json({**answer, "run": run_value(runner.find(name))})
