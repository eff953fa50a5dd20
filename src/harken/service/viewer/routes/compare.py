"""Routes of the comparison of sessions, and of the session that one was forked from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Annotated, cast

from fastapi import APIRouter, Depends, Query, Request

from harken.service.body import Json
from harken.service.viewer.requests import Library, Range, Sessions, Text
from harken.service.viewer.rows import cut_value, take_rows
from harken.service.viewer.run_comparison import ComparedRuns, RunComparer, RunSource
from harken.store.remote.errors import RequestRefused

routes = APIRouter(prefix="/api", include_in_schema=False)


async def _comparer_of(request: Request) -> RunComparer:
    return cast(RunComparer, request.app.state.comparer)


class _Choice:
    """A value for each of the compared sessions, in order."""

    def __init__(self, *, a: Text = None, b: Text = None, c: Text = None, d: Text = None) -> None:
        self.values = [a or None, b or None, c or None, d or None]

    def read_names(self) -> list[str]:
        """Return the names of the sessions. Raises RequestRefused unless there are several."""
        names = [name for name in self.values if name is not None]
        if len(names) < 2 or len(set(names)) < len(names):
            raise RequestRefused("invalid", "a, b, c and d are two to four different sessions")
        return names


class _AgentChoice:
    """The names of the compared agents, each of the session with the same letter."""

    def __init__(
        self,
        *,
        agent_a: Text = None,
        agent_b: Text = None,
        agent_c: Text = None,
        agent_d: Text = None,
    ) -> None:
        self._values = [agent_a or None, agent_b or None, agent_c or None, agent_d or None]

    def select(self, choice: _Choice) -> list[str | None]:
        """Return an agent for each of the chosen sessions."""
        pairs = zip(choice.values, self._values, strict=True)
        return [agent for name, agent in pairs if name is not None]


Comparer = Annotated[RunComparer, Depends(_comparer_of)]
Choice = Annotated[_Choice, Depends()]
AgentChoice = Annotated[_AgentChoice, Depends()]
Position = Annotated[int, Query(ge=0, le=10**9)]


@routes.get("/sessions/{name:path}/original", response_model=None)
def original(name: str, comparer: Comparer, sessions: Sessions) -> Json:
    """Return the session that a session was forked from. It is null if there is none."""
    with sessions.use(name) as session:
        return Json({"original": comparer.find_original(session.links)})


@routes.get("/compare", response_model=None)
def compare(library: Library, comparer: Comparer, sessions: Sessions, choice: Choice) -> Json:
    """Return the outcomes of sessions, and where each other one parts from the first."""
    names = choice.read_names()
    with _open_runs(sessions, comparer, names) as runs:
        summary = cut_value(runs.summarize())
    return Json({"sessions": [library.describe(name) for name in names], **summary})


@routes.get("/compare/rows", response_model=None)
def rows(
    comparer: Comparer, sessions: Sessions, choice: Choice, agents: AgentChoice, window: Range
) -> Json:
    """Return a range of the transcripts of an agent of each session, aligned by position."""
    names = choice.read_names()
    with _open_runs(sessions, comparer, names) as runs:
        agent_names, alignment = runs.align(agents.select(choice))
        indexes = range(window.start, min(window.stop, len(alignment)))
        return Json(
            {
                "agents": agent_names,
                "total": len(alignment),
                "earlier": alignment.earlier,
                "position": alignment.position,
                "rows": take_rows(alignment.build_row(index) for index in indexes),
            }
        )


@routes.get("/compare/text", response_model=None)
def text(
    *,
    comparer: Comparer,
    sessions: Sessions,
    choice: Choice,
    agents: AgentChoice,
    row: Position,
    run: Annotated[int, Query(ge=0, le=3)],
) -> Json:
    """Return the whole text of a message of one of the sessions."""
    names = choice.read_names()
    with _open_runs(sessions, comparer, names) as runs:
        _, alignment = runs.align(agents.select(choice))
        return Json({"text": alignment.read_text(row, run)})


@contextmanager
def _open_runs(
    sessions: Sessions, comparer: RunComparer, names: Sequence[str]
) -> Iterator[ComparedRuns]:
    """Yield the comparison of sessions, which do not change until the end of the block.

    They are opened in the order of their names, so that two requests never wait for each other.
    """
    with ExitStack() as stack:
        opened = {name: stack.enter_context(sessions.use(name)) for name in sorted(names)}
        sources = [
            RunSource(name, (session.generation, session.event_count), session.steps())
            for name, session in ((name, opened[name]) for name in names)
        ]
        yield comparer.compare(sources)
