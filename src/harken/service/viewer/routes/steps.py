"""Routes of model calls: the messages that each read, the new ones in them, and the outcome."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path

from harken.core import structs
from harken.errors import NameNotFound
from harken.service.body import Json
from harken.service.viewer.requests import (
    MAX_ITEMS,
    Library,
    Range,
    Sessions,
    Text,
    cut_value,
    resolve_agent,
    state_of,
    take_rows,
)

_MAX_PART_CHARS = 500_000
"""The number of characters of each of the changes, the outcome and the tools of a model call."""
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
        calls = session.steps()
        if number > len(calls):
            raise NameNotFound("model call", str(number), [f"1 to {len(calls)}"])
        row = calls.step(number)
        changes = calls.changes(number)
        messages = calls.context(number)
        is_intact = calls.is_intact(number)
        first_changes = structs.replace(changes, messages=changes.messages[:MAX_ITEMS])
        return Json(
            {
                "step": cut_value(row.as_json()),
                "changes": cut_value(first_changes.as_json(), _MAX_PART_CHARS),
                "changes_total": len(changes.messages),
                "result": cut_value(calls.outcome(number).as_json(), _MAX_PART_CHARS),
                **cut_value({"tools": calls.tools(number)}, _MAX_PART_CHARS),
                "is_intact": is_intact,
                "is_verified": is_intact and row.evidence == "recorded",
                "total": len(messages),
                "messages": take_rows(messages[window.start : window.stop]),
                "commands": library.commands(
                    name, has_commits=session.has_commits(), request=row.request
                ),
            }
        )
