"""Routes of questions about a session: where a message came from and went, hooks, the timeline."""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import APIRouter, Path, Query

from harken.service.body import Json
from harken.service.viewer.answers import describe_message, find_item
from harken.service.viewer.requests import MAX_NAME_CHARS, Library, Range, Sessions
from harken.service.viewer.rows import MAX_LANES_CHARS, cut_value, state_of, take_rows

routes = APIRouter(prefix="/api/sessions/{name:path}", include_in_schema=False)


@routes.get("/find", response_model=None)
def find(
    name: str, sessions: Sessions, message: Annotated[str, Query(max_length=MAX_NAME_CHARS)]
) -> Json:
    """Return the agent and the index of the item that shows a message."""
    with sessions.use(name) as session:
        return Json(find_item(session, message))


@routes.get("/messages/{message_id}", response_model=None)
def message(
    name: str,
    sessions: Sessions,
    library: Library,
    message_id: Annotated[str, Path(max_length=MAX_NAME_CHARS)],
) -> Json:
    """Return a message with its origins, the agents that read it, and its effects."""
    with sessions.use(name) as session:
        answer = describe_message(session, message_id)
    commands = library.commands(name, has_commits=False, request=answer["message"]["message_id"])
    return Json({**answer, "fork": commands.get("fork")})


@routes.get("/hooks", response_model=None)
def hooks(name: str, sessions: Sessions, window: Range) -> Json:
    """Return a range of the watches, verdicts and interventions."""
    with sessions.use(name) as session:
        rows = session.hook_rows()
        page = take_rows(rows[window.start : window.stop])
        return Json({"total": len(rows), **state_of(session), "rows": page})


@routes.get("/timeline", response_model=None)
def timeline(name: str, sessions: Sessions, window: Range) -> Json:
    """Return the lanes of the timeline, and a range of its events."""
    with sessions.use(name) as session:
        index = session.timeline()
        return Json(
            {
                "total": len(index),
                "generation": session.generation,
                "event_count": session.event_count,
                **cut_value({"lanes": msgspec.to_builtins(index.lanes())}, MAX_LANES_CHARS),
                "events": take_rows(index.marks(window.start, window.stop)),
            }
        )
