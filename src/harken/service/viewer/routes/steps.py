"""Routes of model calls: the messages that each read, the new ones in them, and the outcome."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path

from harken.service.body import Json
from harken.service.viewer.answers import count_context, describe_step, read_context
from harken.service.viewer.requests import Library, Range, Sessions, Text
from harken.service.viewer.rows import resolve_agent, state_of, take_rows

routes = APIRouter(prefix="/api/sessions/{name:path}/steps", include_in_schema=False)


@routes.get("", response_model=None)
def steps(name: str, sessions: Sessions, window: Range, agent: Text = None) -> Json:
    """Return a range of the model calls of an agent, or of all."""
    with sessions.use(name) as session:
        calls = session.steps()
        numbers = calls.numbers_for(None if agent is None else resolve_agent(session, agent))
        rows = take_rows(map(calls.step, numbers[window.start : window.stop]))
        return Json({"total": len(numbers), **state_of(session), "steps": rows})


@routes.get("/{number}", response_model=None)
def step(
    name: str,
    number: Annotated[int, Path(ge=1, le=10**9)],
    library: Library,
    sessions: Sessions,
    window: Range,
) -> Json:
    """Return a model call with a range of the messages that the model read."""
    with sessions.use(name) as session:
        answer = describe_step(session, number)
        total = count_context(session, number)
        messages = take_rows(read_context(session, number, window.start, window.stop))
        commands = library.commands(
            name, has_commits=session.has_commits(), request=answer["step"]["request"]
        )
        return Json({**answer, "total": total, "messages": messages, "commands": commands})
