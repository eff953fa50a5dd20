"""Follow a conversation or a dialog: a stream of the items that changed, as lines of JSON.

A line tells the number of events that its items show, and the number from which a page resumes
that connects again: many changes are several lines, and only the last one has all of them. If the
log was read anew, the lines have another generation, and begin with all items. An empty line is
sent if there was nothing new for a while, so that both sides notice a broken connection.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any

import anyio
from anyio import to_thread
from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import StreamingResponse

from harken.core import canonical
from harken.core.ids import reference_number
from harken.errors import HarkenError
from harken.service.viewer.item_lists import AgentItems, DialogItems, ItemList, resolve_agents
from harken.service.viewer.open_sessions import OpenSession, OpenSessions
from harken.service.viewer.requests import Text, sessions_of
from harken.service.viewer.routes.runs import Runner, run_value
from harken.service.viewer.rows import MAX_ITEMS, cut_texts, resolve_agent, state_of
from harken.service.viewer.session_runner import SessionRunner
from harken.store.remote.errors import ErrorBody, encode_error
from harken.views.tree import TreeRow

routes = APIRouter(prefix="/api/sessions/{name:path}", include_in_schema=False)
POLL_INTERVAL_S = 0.2
_HEARTBEAT_S = 15.0
_NDJSON = "application/x-ndjson"


class Position:
    """What a page has: the items of an agent or of a dialog, up to a number of events."""

    def __init__(
        self,
        *,
        agent: Text = None,
        agents: Annotated[str | None, Query(max_length=10_000)] = None,
        events: Annotated[int, Query(ge=0, le=10**9)] = 0,
        generation: Text = None,
    ) -> None:
        """With `agents`, the items are those of their dialog."""
        self.agent, self.agents = agent, agents
        self.events, self.generation = events, generation

    def agent_ids(self) -> list[str]:
        """Return the ids of the agents whose items the page has, as far as it names them."""
        named = self.agent if self.agents is None else self.agents
        return [] if named is None else named.split(",")

    def find_items(self, session: OpenSession) -> ItemList:
        """Return the list of items that the page has. Raises NameNotFound, ValueError."""
        if self.agents is None:
            return AgentItems(session, resolve_agent(session, self.agent))
        if self.agent is not None:
            raise ValueError("give agent for a conversation, or agents for a dialog")
        return DialogItems(session, resolve_agents(session, self.agents))


@routes.get("/follow", response_model=None)
async def follow(
    name: str, request: Request, position: Annotated[Position, Depends()], runner: Runner
) -> StreamingResponse:
    """Stream the changes of an agent's conversation, or of a dialog, since a number of events."""
    changes = ChangeReader(await sessions_of(request), runner, name, position)
    # An unknown name is an error response, since nothing was sent yet.
    first_line = await to_thread.run_sync(changes.read_line)

    async def iter_lines() -> AsyncIterator[bytes]:
        line, silent_s = first_line, 0.0
        while not (request.app.state.is_closing or await request.is_disconnected()):
            if line is not None or silent_s >= _HEARTBEAT_S:
                silent_s = 0.0
                yield line or b"\n"
            if not changes.has_more:
                await anyio.sleep(POLL_INTERVAL_S)
                silent_s += POLL_INTERVAL_S
            try:
                line = await to_thread.run_sync(changes.read_line)
            except HarkenError as error:  # The session was purged, renamed or removed.
                yield _encode_line(ErrorBody(encode_error(error)))
                return

    return StreamingResponse(iter_lines(), media_type=_NDJSON)


class ChangeReader:
    """Reads the changes of a list of items, one line at a time."""

    def __init__(
        self, sessions: OpenSessions, runner: SessionRunner, name: str, position: Position
    ) -> None:
        """Read the changes since the position of a page."""
        self._runner = runner
        self._sessions, self._name, self._position = sessions, name, position
        self._generation = position.generation
        self._resume = self._seen = position.events
        """The number of events of which the page has all changes; of which they are known."""
        self._pending: list[int] = []
        """The indexes of changed items that were not sent yet."""
        self._last_state: tuple[Any, ...] = ()
        self._last_rows: list[TreeRow] = []

    @property
    def has_more(self) -> bool:
        """Whether the next line can be read at once."""
        return bool(self._pending)

    def read_line(self) -> bytes | None:
        """Return the next changes as a line of JSON. Return None if there is none.

        Raises NameNotFound, ValueError, and HarkenError if the session cannot be read.
        """
        with self._sessions.use(self._name) as session:
            state = (
                session.generation,
                session.event_count,
                session.damage,
                session.source.is_live(),
                self._runner.find_version(self._name),
            )
            if state == self._last_state and not self._pending:
                return None
            self._last_state = state
            line = self._compose_line(session, self._position.find_items(session))
        return _encode_line(line)

    def _compose_line(self, session: OpenSession, items: ItemList) -> dict[str, Any]:
        if self._generation not in (None, session.generation):  # The page starts anew.
            self._resume = self._seen = 0
            self._pending = []
        self._generation = session.generation
        # A page that does not state the generation may have more events than there are.
        changed = items.find_changed(min(self._seen, session.event_count))
        self._seen = session.event_count
        self._pending = sorted({*self._pending, *changed})
        indexes = self._pending[:MAX_ITEMS]
        rows = items.take(indexes)
        self._pending = self._pending[len(rows) :]
        if not self._pending:
            self._resume = session.event_count
        line = {
            **state_of(session),
            "resume": min(self._resume, session.event_count),
            "total": items.count(),
            "items": [
                {"index": index, "item": row} for index, row in zip(indexes, rows, strict=False)
            ],
        }
        if not self._pending:
            line |= {"is_live": session.source.is_live(), "damage": session.damage}
            # The answers in it are those that the events of this line do not have.
            last = session.links.events[-1].message_id if session.event_count else ""
            run = self._runner.find(
                self._name, agents=self._position.agent_ids(), upto=reference_number(last)
            )
            line["run"] = run_value(run)
            tree = session.tree()
            if tree != self._last_rows:
                line["agents"] = cut_texts(tree)
            self._last_rows = tree
        return line


def _encode_line(value: object) -> bytes:
    return canonical.to_json_line(value) + b"\n"
