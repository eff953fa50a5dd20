"""Routes of questions about a session: where a message came from and went, hooks, the timeline."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Path, Query

from harken.core.events import event_dict
from harken.core.ids import MessageId
from harken.errors import NameNotFound
from harken.service.body import Json
from harken.service.viewer.open_sessions import OpenSession
from harken.service.viewer.requests import (
    MAX_ITEMS,
    MAX_NAME_CHARS,
    Range,
    Sessions,
    cut_value,
    find_message,
    state_of,
    take_rows,
)
from harken.views.flow import hearers, origins, spread
from harken.views.interventions import Intervention
from harken.views.verdicts import HookRow, VerdictRow, Watch

routes = APIRouter(prefix="/api/sessions/{name:path}", include_in_schema=False)
_MAX_LANES_CHARS = 1_000_000
"""The number of characters of the lanes of a timeline: some thousand agents."""
MAX_READERS = 20
"""The maximum number of model calls that are listed as readers of a message."""


@routes.get("/find", response_model=None)
def find(
    name: str, sessions: Sessions, message: Annotated[str, Query(max_length=MAX_NAME_CHARS)]
) -> Json:
    """Return the agent and the index of the item that shows a message."""
    with sessions.use(name) as session:
        agent, index = _find_item(session, find_message(session, message))
    if agent is None:
        raise NameNotFound("item", message, [])
    return Json({"agent": agent, "index": index})


@routes.get("/messages/{message_id}", response_model=None)
def message(
    name: str, sessions: Sessions, message_id: Annotated[str, Path(max_length=MAX_NAME_CHARS)]
) -> Json:
    """Return a message with its origins, the agents that read it, and its effects."""
    with sessions.use(name) as session:
        links = session.links
        id_ = find_message(session, message_id)
        event = links.get(id_)
        assert event is not None  # find_message has found it.
        agent, index = _find_item(session, id_)
        hops = {
            "origins": origins(links, id_),
            "hearers": hearers(links, id_),
            "effects": spread(links, id_),
        }
        readers = session.steps().find_readers(id_, event.agent_id, MAX_READERS + 1)
        rows = [row for row in session.hook_rows() if _is_about(session, row, id_)]
        answer: dict[str, Any] = {
            "message": cut_value(event_dict(event)),
            "agent": agent,
            "index": index,
            **{kind: take_rows(kind_hops[:MAX_ITEMS]) for kind, kind_hops in hops.items()},
            "totals": {kind: len(kind_hops) for kind, kind_hops in hops.items()},
            "readers": {
                "agent": event.agent_id,
                "steps": readers[:MAX_READERS],
                "is_more": len(readers) > MAX_READERS,
            },
            "interventions": take_rows(row for row in rows if isinstance(row, Intervention)),
            "verdicts": take_rows(row for row in rows if isinstance(row, VerdictRow)),
        }
    return Json(answer)


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
                **cut_value({"lanes": msgspec.to_builtins(index.lanes())}, _MAX_LANES_CHARS),
                "events": take_rows(index.marks(window.start, window.stop)),
            }
        )


def _find_item(session: OpenSession, message_id: MessageId) -> tuple[str | None, int | None]:
    return session.conversations.find_index(message_id) or (None, None)


def _is_about(session: OpenSession, row: HookRow, message_id: MessageId) -> bool:
    """Whether a row is about a message, or the message is its effect."""
    if isinstance(row, Watch):
        return False
    if isinstance(row, Intervention):
        return message_id in (row.message_id, row.became_id)
    subject = session.links.target(row.subject)
    effects = [effect.message_id for effect in row.outcomes]
    return message_id in (subject, row.message_id, row.question, *effects)
