"""Follow a conversation: a stream of the items that changed, as lines of JSON.

A line has all changes since the number of events that the page has seen, so a page that connects
again passes the last number that it received, and misses nothing. An empty line is sent if there
was nothing new for a while, so that both sides notice a broken connection.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any

import anyio
from anyio import to_thread
from fastapi import APIRouter, Query, Request
from fastapi.responses import StreamingResponse

from harken.core import canonical
from harken.errors import HarkenError
from harken.service.viewer.open_sessions import OpenSessions
from harken.service.viewer.requests import (
    MAX_ITEMS,
    Text,
    cut_texts,
    resolve_agent,
    sessions_of,
)
from harken.store.remote.errors import ErrorBody, encode_error
from harken.views.tree import TreeRow

routes = APIRouter(prefix="/api/sessions/{name:path}", include_in_schema=False)
POLL_INTERVAL_S = 0.2
_HEARTBEAT_S = 15.0
_NDJSON = "application/x-ndjson"


@routes.get("/follow", response_model=None)
async def follow(
    name: str,
    request: Request,
    agent: Text = None,
    events: Annotated[int, Query(ge=0, le=10**9)] = 0,
) -> StreamingResponse:
    """Stream the changes of an agent's conversation since this number of events."""
    changes = ChangeReader(await sessions_of(request), name, agent, events)
    # An unknown name is an error response, since nothing was sent yet.
    first_lines = await to_thread.run_sync(changes.read)

    async def iter_lines() -> AsyncIterator[bytes]:
        for line in first_lines:
            yield line
        silent_s = 0.0
        while not (request.app.state.is_closing or await request.is_disconnected()):
            await anyio.sleep(POLL_INTERVAL_S)
            try:
                lines = await to_thread.run_sync(changes.read)
            except HarkenError as error:  # The session was purged, renamed or removed.
                yield _encode_line(ErrorBody(encode_error(error)))
                return
            silent_s = 0.0 if lines else silent_s + POLL_INTERVAL_S
            if silent_s >= _HEARTBEAT_S:
                silent_s, lines = 0.0, [b"\n"]
            for line in lines:
                yield line

    return StreamingResponse(iter_lines(), media_type=_NDJSON)


class ChangeReader:
    """Reads the changes of an agent's conversation, from one number of events to the next."""

    def __init__(
        self, sessions: OpenSessions, name: str, agent: str | None, event_count: int
    ) -> None:
        """Read the changes since `event_count` events."""
        self._sessions, self._name, self._agent = sessions, name, agent
        self._event_count = event_count
        self._last_state: tuple[Any, ...] = ()
        self._last_rows: list[TreeRow] = []

    def read(self) -> list[bytes]:
        """Return the changes since the last call as lines of JSON, without a change none.

        Many changes are several lines; the last one has the new number of events. Raises
        NameNotFound, and HarkenError if the session cannot be read.
        """
        with self._sessions.use(self._name) as session:
            # A session that was read again may be shorter: a purge replaced it.
            since = min(self._event_count, session.event_count)
            state = (session.event_count, session.damage, session.source.is_live())
            if state == self._last_state:
                return []
            agent = resolve_agent(session, self._agent)
            conversations = session.conversations
            indexes = conversations.find_changed(agent, since)
            chunks = [
                indexes[start : start + MAX_ITEMS] for start in range(0, len(indexes), MAX_ITEMS)
            ]
            lines: list[dict[str, Any]] = [
                {
                    "events": since,
                    "total": conversations.count(agent),
                    "items": [
                        {"index": index, "item": conversations.items(agent, index, index + 1)[0]}
                        for index in chunk
                    ],
                }
                for chunk in chunks or [[]]
            ]
            lines[-1] |= {
                "events": session.event_count,
                "is_live": state[2],
                "damage": session.damage,
            }
            rows = session.tree()
            if rows != self._last_rows:
                lines[-1]["agents"] = cut_texts(rows)
            self._last_rows = rows
            self._event_count, self._last_state = session.event_count, state
        return [*map(_encode_line, lines)]


def _encode_line(value: object) -> bytes:
    return canonical.to_json_line(value) + b"\n"
