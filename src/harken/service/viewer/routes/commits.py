"""Routes of commits: the graph, a commit, the comparison of two, and changes of their names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, cast

import msgspec
from fastapi import APIRouter, Depends, Path, Query, Request
from msgspec.structs import replace

from harken.core.commits import CommitId
from harken.core.ids import AgentId
from harken.errors import NameNotFound
from harken.service.body import Json, RequestBody
from harken.service.viewer.commit_history import CommitHistory, SessionSelection
from harken.service.viewer.home_pages.commit_agents import CommitAgents
from harken.service.viewer.requests import (
    MAX_NAME_CHARS,
    Limit,
    Range,
    Sessions,
    Text,
    commit_agents_of,
)
from harken.service.viewer.rows import AnswerSize, cut_value, take_rows
from harken.store.remote.errors import RequestRefused
from harken.views.history.commit_comparison import CommitComparison
from harken.views.history.commit_graph import HistoryRow
from harken.views.history.session_commits import list_session_commits

routes = APIRouter(prefix="/api", include_in_schema=False)
_COMMIT = r"^ctx-[0-9a-f]{64}$"
_MAX_LABELS = 100


async def _history_of(request: Request) -> CommitHistory:
    return cast(CommitHistory, request.app.state.commits)


def _read_session(sessions: Sessions, session: Text = None) -> SessionSelection | None:
    """Return the commits of a session, or None for those of the home. Raises NameNotFound."""
    if not session:
        return None
    with sessions.use(session) as opened:
        events = list_session_commits(opened.links)
        agents = {name: event.agent_id or "" for name, event in events.items()}
    return SessionSelection(session, agents)


Agents = Annotated[CommitAgents, Depends(commit_agents_of)]
History = Annotated[CommitHistory, Depends(_history_of)]
OfSession = Annotated[SessionSelection | None, Depends(_read_session)]
Position = Annotated[int | None, Query(ge=0, le=10**9)]
CommitPath = Annotated[str, Path(pattern=_COMMIT)]
CommitQuery = Annotated[str, Query(pattern=_COMMIT)]


@routes.get("/commits", response_model=None)
def commits(history: History, agents: Agents, session: OfSession, window: Range) -> Json:
    """Return a range of the graph of the commits of a session, or of all, newest first."""
    page = history.read_rows(session, window.start, window.stop)
    ids = agents.find(page.authors)
    rows = take_rows([_set_agents(row, ids) for row in page.rows])
    return Json({"total": page.total, "version": page.version, "rows": rows})


def _set_agents(row: HistoryRow, agents: Mapping[CommitId, AgentId]) -> HistoryRow:
    """Return a row with the ids of its agents that the history of a session did not tell."""
    passing = [replace(line, agent=line.agent or agents.get(line.source)) for line in row.passing]
    return replace(row, agent=row.agent or agents.get(row.id), passing=passing)


@routes.get("/commits/find", response_model=None)
def find(
    history: History,
    session: OfSession,
    name: Annotated[str, Query(min_length=1, max_length=MAX_NAME_CHARS)],
) -> Json:
    """Return the commit that a name stands for, and its row in the graph."""
    return Json(history.find(session, name))


@routes.get("/commits/names", response_model=None)
def names(history: History, text: Text = None, limit: Limit = 100) -> Json:
    """Return branches and labels that contain a text."""
    return Json(cut_value(history.list_names(text or "", limit).as_json()))


@routes.get("/commits/compare", response_model=None)
def compare(
    history: History, agents: Agents, before: CommitQuery, after: CommitQuery, window: Range
) -> Json:
    """Return two commits, and a range of the differences of what a model reads at each."""
    compared = history.compare(CommitId(before), CommitId(after))
    ids = agents.find(compared.authors)
    return Json(
        {
            "before": cut_value(_set_agents(compared.before, ids).as_json()),
            "after": cut_value(_set_agents(compared.after, ids).as_json()),
            "ancestor": compared.ancestor,
            "kept": compared.comparison.kept,
            "total": len(compared.comparison),
            "counts": compared.comparison.count_kinds(),
            "rows": _take_differences(compared.comparison, window.start, window.stop),
        }
    )


def _take_differences(comparison: CommitComparison, start: int, stop: int) -> list[Any]:
    size = AnswerSize()
    rows: list[Any] = []
    for difference in comparison.iter_bounded_rows(start, stop):
        row = {**cut_value(difference.row.as_json()), "is_partial": difference.is_partial}
        if not size.add(row, steps=difference.steps):
            break
        rows.append(row)
    return rows


@routes.get("/commits/{commit}", response_model=None)
def commit(history: History, agents: Agents, commit: CommitPath, window: Range) -> Json:
    """Return a commit, the commits beside it, and a range of its messages."""
    details = history.describe(CommitId(commit))
    row = _set_agents(details.commit, agents.find({details.commit.id: details.author}))
    return Json(
        {
            "commit": cut_value(row.as_json()),
            "session": details.session,
            "parent": None if details.parent is None else cut_value(details.parent.as_json()),
            "children": take_rows(details.children),
            "child_count": details.child_count,
            "total": len(details.messages),
            "messages": take_rows(details.messages[window.start : window.stop]),
        }
    )


@routes.get("/commits/{commit}/text", response_model=None)
def text(
    history: History, commit: CommitPath, position: Position = None, own: Position = None
) -> Json:
    """Return the whole text of a message that a model reads at a commit, or of its own messages."""
    if (position is None) == (own is None):
        raise RequestRefused("invalid", "pass position, or own")
    name = CommitId(commit)
    if position is not None:
        return Json({"text": history.read_text(name, position)})
    messages = history.describe(name).messages
    if own is None or own >= len(messages):
        raise NameNotFound("message", str(own), [f"0 to {len(messages) - 1}"])
    return Json({"text": messages[own].text})


@routes.get("/commits/{commit}/place", response_model=None)
def place(history: History, sessions: Sessions, commit: CommitPath) -> Json:
    """Return the session, the agent and the last message of a commit, if a session names it."""
    details = history.describe(CommitId(commit))
    if details.session is None:
        raise NameNotFound("session", details.commit.session_id, [])
    answer: dict[str, Any] = {"session": details.session, "agent": None, "message": None}
    with sessions.use(details.session) as session:
        event = list_session_commits(session.links).get(CommitId(commit))
        if event is not None:
            answer |= {"agent": event.agent_id, "message": event.upto}
    return Json(answer)


class _Labels(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    labels: Annotated[list[str], msgspec.Meta(max_length=_MAX_LABELS)]
    expected: list[str]


class _LabelMove(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    label: str
    source: CommitId
    target: CommitId


class _BranchMove(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    to: CommitId | None
    expected: CommitId | None


class _BranchRename(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    new_name: str
    expected: CommitId


@routes.post("/commits/{commit}/labels", response_model=None)
def set_labels(history: History, commit: CommitPath, body: RequestBody) -> Json:
    """Replace the labels of a commit, if it has the expected ones."""
    change = body.json(_Labels)
    labels = history.set_labels(CommitId(commit), change.labels, change.expected)
    return Json({"labels": labels})


@routes.post("/labels/move", response_model=None)
def move_label(history: History, body: RequestBody) -> Json:
    """Move a label from one commit to another."""
    move = body.json(_LabelMove)
    history.move_label(move.label, move.source, move.target)
    return Json({"commit": move.target})


@routes.post("/branches", response_model=None)
def set_branch(history: History, body: RequestBody) -> Json:
    """Create, move or delete a branch, if it is at the expected commit."""
    move = body.json(_BranchMove)
    history.set_branch(move.name, move.to, move.expected)
    return Json({"commit": move.to})


@routes.post("/branches/rename", response_model=None)
def rename_branch(history: History, body: RequestBody) -> Json:
    """Rename a branch, if it is at the expected commit."""
    rename = body.json(_BranchRename)
    history.rename_branch(rename.name, rename.new_name, rename.expected)
    return Json({"commit": rename.expected})
