"""Routes of conversations: ranges of items, dialogs, whole texts and images."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from fastapi.responses import Response

from harken.errors import NameNotFound
from harken.service.body import Json
from harken.service.viewer.answers import find_shown_image
from harken.service.viewer.item_lists import (
    AgentItems,
    DialogItems,
    ItemList,
    find_panel,
    find_text,
    resolve_agents,
)
from harken.service.viewer.open_sessions import OpenSession
from harken.service.viewer.requests import (
    MAX_NAME_CHARS,
    MAX_PANELS,
    Patience,
    Range,
    Sessions,
    Text,
)
from harken.service.viewer.rows import find_message, resolve_agent, state_of
from harken.store.remote.errors import RequestRefused

routes = APIRouter(prefix="/api/sessions/{name:path}", include_in_schema=False)


class TextRequest:
    """Which text of an item is requested."""

    def __init__(
        self,
        *,
        part: Annotated[int | None, Query(ge=0, le=10**9)] = None,
        version: Annotated[str | None, Query(max_length=MAX_NAME_CHARS)] = None,
        agents: Annotated[str | None, Query(max_length=10_000)] = None,
    ) -> None:
        self.part, self.version, self.agents = part, version, agents


@routes.get("/items", response_model=None)
def items(
    name: str, sessions: Sessions, window: Range, patience: Patience, agent: Text = None
) -> Json:
    """Return a range of the items of an agent's conversation, fewer if they are large."""
    with sessions.use(name, patience.max_s) as session:
        conversation = AgentItems(session, resolve_agent(session, agent))
        return Json({"agent": conversation.agent, **_read_range(session, conversation, window)})


@routes.get("/dialog", response_model=None)
def dialog(
    name: str,
    sessions: Sessions,
    agents: Annotated[str, Query(max_length=10_000)],
    window: Range,
    patience: Patience,
) -> Json:
    """Return a range of the dialog of several agents, fewer items if they are large."""
    with sessions.use(name, patience.max_s) as session:
        dialog_items = DialogItems(session.dialog(resolve_agents(session, agents)))
        return Json(_read_range(session, dialog_items, window))


def _read_range(session: OpenSession, items: ItemList, window: Range) -> dict[str, Any]:
    return {
        "total": items.count(),
        **state_of(session),
        "items": items.take(range(window.start, window.stop)),
    }


@routes.get("/matches", response_model=None)
def matches(
    name: str,
    sessions: Sessions,
    text: Annotated[str, Query(min_length=1, max_length=MAX_NAME_CHARS)],
    panel: Annotated[str, Query(max_length=10_000)] = "",
) -> Json:
    """Return the indexes of the items of a panel that contain a text."""
    with sessions.use(name) as session:
        indexes, is_partial = find_panel(session, panel).find_matches(text)
        return Json({**state_of(session), "indexes": indexes, "is_partial": is_partial})


@routes.get("/align", response_model=None)
def align(
    name: str,
    sessions: Sessions,
    message: Annotated[str, Query(max_length=MAX_NAME_CHARS)],
    panels: Annotated[str, Query(max_length=20_000)],
) -> Json:
    """Return, for each panel, the index of its last item that is not after a message."""
    with sessions.use(name) as session:
        position = session.links.positions[find_message(session, message)]
        lists = [find_panel(session, panel) for panel in panels.split(";")[:MAX_PANELS]]
        indexes = [items.find_last_before(position) for items in lists]
        return Json({**state_of(session), "indexes": indexes})


@routes.get("/text", response_model=None)
def whole_text(
    name: str,
    sessions: Sessions,
    message: Annotated[str, Query(max_length=1000)],
    request: Annotated[TextRequest, Depends()],
) -> Json:
    """Return a whole text of an item: of a part, or of a version in a dialog."""
    with sessions.use(name) as session:
        text = find_text(session, message, **vars(request))
    if text is None:
        raise NameNotFound("text", message, [])
    return Json({"text": text})


@routes.get("/media", response_model=None)
def media(
    name: str,
    sessions: Sessions,
    hash_: Annotated[str, Query(alias="hash", pattern=r"^[0-9a-f]{64}$")],
) -> Response:
    """Return an image, if its data is of a type that can be shown."""
    with sessions.use(name) as session:
        image = find_shown_image(session, hash_)
    if image is None:
        raise RequestRefused("unsupported_media", "only PNG, JPEG, GIF and WebP images are shown")
    media_type, data = image
    return Response(data, media_type=media_type)
