"""Routes of sessions: the list, the search, and a session with its agents."""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated

from fastapi import APIRouter, Depends, Query

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
    Text,
)
from harken.service.viewer.routes.runs import Runner, run_value
from harken.service.viewer.rows import agents_of, find_message, state_of, take_rows

routes = APIRouter(prefix="/api", include_in_schema=False)
_DEFAULT_SESSIONS = 50
_DEFAULT_HITS = 30


@routes.get("/about", response_model=None)
def about(library: Library) -> Json:
    """Return the version, the home, and the number of its sessions."""
    return Json({"version": version("harken"), "home": library.home, "sessions": library.count()})


class SessionWords:
    """The conditions of a list of sessions that are words."""

    def __init__(
        self,
        *,
        text: Text = None,
        runtime: Text = None,
        project: Text = None,
        agent: Text = None,
        outcome: Text = None,
    ) -> None:
        self.text, self.runtime, self.project = text or None, runtime or None, project or None
        self.agent, self.outcome = agent or None, outcome or None


class SessionBounds:
    """The conditions of a list of sessions that are limits."""

    def __init__(
        self,
        *,
        since: Text = None,
        until: Text = None,
        min_cost: Annotated[float | None, Query(ge=0, le=1e9)] = None,
        live: bool | None = None,
    ) -> None:
        self.since, self.until = since or None, until or None
        self.min_cost_usd, self.is_live = min_cost, live


@routes.get("/sessions", response_model=None)
def list_sessions(
    library: Library,
    words: Annotated[SessionWords, Depends()],
    bounds: Annotated[SessionBounds, Depends()],
    cursor: Text = None,
    limit: Limit = _DEFAULT_SESSIONS,
) -> Json:
    """Return a page of the sessions that match, newest first."""
    query = SessionQuery(**vars(words), **vars(bounds), cursor=cursor or None, limit=limit)
    return Json(library.list_sessions(query))


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
    return Json({**answer, "run": run_value(runner.find(name))})
