"""Follow the panels of a page: a stream of the items that changed, as lines of JSON.

One stream serves all panels of a page, each a conversation or a dialog, since a browser opens six
connections to a server for all its tabs. A line has changes of one panel. It tells the number of
events that its items show, and the number from which the panel resumes when the page connects
again: many changes are several lines, and only the last one has all of them. If the log was read
anew, the lines have another generation, and begin with all items. The last line of a round, after
which all panels show all events, also has the state of the session. An empty line is sent if there
was nothing new for a while, so that both sides notice a broken connection.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator
from typing import Annotated, Any

import anyio
from anyio import to_thread
from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import StreamingResponse

from harken.core import canonical
from harken.core.ids import reference_number
from harken.errors import HarkenError
from harken.service.viewer.item_lists import find_panel
from harken.service.viewer.open_sessions import OpenSession, OpenSessions
from harken.service.viewer.requests import MAX_PANELS, Text, sessions_of
from harken.service.viewer.responses.headers import LINES_TYPE
from harken.service.viewer.routes.runs import Runner, run_value
from harken.service.viewer.rows import MAX_ITEMS, state_of
from harken.service.viewer.session_runner import SessionRunner
from harken.service.viewer.tree_changes import TreeChanges
from harken.store.remote.errors import ErrorBody, encode_error

routes = APIRouter(prefix="/api/sessions/{name:path}", include_in_schema=False)
POLL_INTERVAL_S = 0.2
_HEARTBEAT_S = 15.0
_MAX_EVENTS = 10**9


class Position:
    """What a page has: its panels, each with the items up to a number of events."""

    def __init__(
        self,
        *,
        panels: Annotated[str, Query(max_length=20_000)] = "",
        events: Annotated[str, Query(max_length=1000, pattern=r"^[0-9;]*$")] = "",
        generation: Text = None,
    ) -> None:
        """Semicolons separate the panels, and their numbers of events.

        A panel is an agent, or several with commas: their dialog. An empty one is the first agent
        that the user talked with. Raises ValueError if the numbers are not those of the panels.
        """
        names, counts = panels.split(";"), events.split(";") if events else []
        if counts and len(counts) != len(names):
            raise ValueError("give one number of events for each panel")
        if len(names) > MAX_PANELS:
            raise ValueError(f"follow at most {MAX_PANELS} panels")
        numbers = [min(int(count or 0), _MAX_EVENTS) for count in counts] or [0] * len(names)
        self.panels = [*zip(names, numbers, strict=True)]
        self.generation = generation

    def agent_ids(self) -> list[str]:
        """Return the ids of the agents whose items the page has, as far as it names them."""
        return sorted({agent for names, _ in self.panels for agent in names.split(",") if agent})


@routes.get("/follow", response_model=None)
async def follow(
    name: str, request: Request, position: Annotated[Position, Depends()], runner: Runner
) -> StreamingResponse:
    """Stream the changes of panels, each since a number of events."""
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

    return StreamingResponse(iter_lines(), media_type=LINES_TYPE)


class PanelChanges:
    """The changes of a panel that were not sent yet."""

    def __init__(self, number: int, agents: str, events: int) -> None:
        """Nothing is known of the changes since `events`."""
        self.number, self._agents = number, agents
        self._resume = self._seen = events
        """The number of events of which the page has all changes; of which they are known."""
        self._pending: list[int] = []
        """The indexes of changed items that were not sent yet."""

    @property
    def has_more(self) -> bool:
        """Whether the last line did not have all changes."""
        return bool(self._pending)

    def restart(self) -> None:
        """Begin with all items again."""
        self._resume = self._seen = 0
        self._pending = []

    def compose_line(self, session: OpenSession) -> dict[str, Any]:
        """Return the next changes. Raises NameNotFound."""
        items = find_panel(session, self._agents)
        # A page that does not state the generation may have more events than there are.
        changed = items.find_changed(min(self._seen, session.event_count))
        self._seen = session.event_count
        self._pending = sorted({*self._pending, *changed})
        indexes = self._pending[:MAX_ITEMS]
        rows = items.take(indexes)
        self._pending = self._pending[len(rows) :]
        if not self._pending:
            self._resume = session.event_count
        return {
            "panel": self.number,
            **state_of(session),
            "resume": min(self._resume, session.event_count),
            "total": items.count(),
            "items": [
                {"index": index, "item": row} for index, row in zip(indexes, rows, strict=False)
            ],
        }


class ChangeReader:
    """Reads the changes of the panels of a page, one line at a time."""

    def __init__(
        self, sessions: OpenSessions, runner: SessionRunner, name: str, position: Position
    ) -> None:
        """Read the changes since the position of a page."""
        self._sessions, self._runner, self._name = sessions, runner, name
        self._agents = position.agent_ids()
        self._generation = position.generation
        self._panels = [
            PanelChanges(number, agents, events)
            for number, (agents, events) in enumerate(position.panels)
        ]
        self._due = deque[PanelChanges]()
        """The panels of which a line is to be sent, those that wait longest first."""
        self._last_state: tuple[Any, ...] = ()
        self._tree = TreeChanges()

    @property
    def has_more(self) -> bool:
        """Whether the next line can be read at once."""
        return bool(self._due)

    def read_line(self) -> bytes | None:
        """Return the next changes as a line of JSON. Return None if there is none.

        Raises NameNotFound, and HarkenError if the session cannot be read.
        """
        with self._sessions.use(self._name) as session:
            state = (
                session.generation,
                session.event_count,
                session.damage,
                session.source.is_live(),
                self._runner.find_version(self._name),
            )
            if state != self._last_state:
                self._due.extend(panel for panel in self._panels if panel not in self._due)
            self._last_state = state
            line = self._compose_line(session) if self._due else None
        return None if line is None else _encode_line(line)

    def _compose_line(self, session: OpenSession) -> dict[str, Any]:
        if self._generation not in (None, session.generation):  # The page starts anew.
            self._tree.restart()
            for panel in self._panels:
                panel.restart()
        self._generation = session.generation
        line = self._due[0].compose_line(session)
        if not self._due[0].has_more:
            self._due.popleft()
        if not self._due:
            line |= {"is_live": session.source.is_live(), "damage": session.damage}
            # The answers in it are those that the events of this line do not have.
            last = session.links.events[-1].message_id if session.event_count else ""
            run = self._runner.find(self._name, agents=self._agents, upto=reference_number(last))
            line["run"] = run_value(run)
            line |= self._tree.compose(session.tree())
        return line


def _encode_line(value: object) -> bytes:
    return canonical.to_json_line(value) + b"\n"
