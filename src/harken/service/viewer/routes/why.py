"""Routes from the lines of files to the conversations behind them, and back."""

from __future__ import annotations

from itertools import takewhile
from typing import Annotated, Any, cast

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import StreamingResponse

from harken.core.commits import CommitId
from harken.errors import NameNotFound
from harken.service.body import Json
from harken.service.viewer.code_library import BlamePage, CodeFile, CodeLibrary, ExplainedPage, Tell
from harken.service.viewer.home_pages.commit_agents import CommitAgentName, CommitAgents
from harken.service.viewer.long_work import Send, Work, WorkThreads
from harken.service.viewer.open_sessions import OpenSession
from harken.service.viewer.requests import Range, Sessions, commit_agents_of
from harken.service.viewer.rows import MAX_ITEMS, AnswerSize, cut_value
from harken.views.conversation.call_lookup import find_call

routes = APIRouter(prefix="/api/why", include_in_schema=False)
session_routes = APIRouter(prefix="/api/sessions/{name:path}", include_in_schema=False)
_MAX_PATH_CHARS = 4096
_MAX_LINE = 10**9
_MAX_PATHS = 100


async def code_of(request: Request) -> CodeLibrary:
    """Return the code library of the viewer."""
    return cast(CodeLibrary, request.app.state.code)


Agents = Annotated[CommitAgents, Depends(commit_agents_of)]
Code = Annotated[CodeLibrary, Depends(code_of)]


class _CodeRequest:
    """A request for long work, with the library that does it."""

    def __init__(self, request: Request, code: Code) -> None:
        self.code, self._request = code, request

    async def stream(self, work: Work) -> StreamingResponse:
        """Return the lines of work as a response."""
        threads: WorkThreads = self._request.app.state.work_threads
        return await threads.stream(self._request, work)


LongRequest = Annotated[_CodeRequest, Depends()]
PathText = Annotated[str, Query(max_length=_MAX_PATH_CHARS)]
Name = Annotated[str, Query(max_length=1000)]
Line = Annotated[int, Query(ge=1, le=_MAX_LINE)]


class _FileWords:
    """The file that a request names."""

    def __init__(self, *, repository: PathText, path: PathText = "", revision: Name = "") -> None:
        self.file = CodeFile(repository, path, revision)


File = Annotated[_FileWords, Depends()]


class _LineRange:
    """A range of lines, which are small: an answer has as many as fit into its size."""

    def __init__(
        self,
        *,
        start: Annotated[int, Query(alias="from", ge=0, le=_MAX_LINE)] = 0,
        limit: Annotated[int, Query(ge=1, le=10_000)] = 100,
    ) -> None:
        self.start, self.stop = start, start + limit


Lines = Annotated[_LineRange, Depends()]


@routes.get("/repositories", response_model=None)
def repositories(code: Code) -> Json:
    """Return the repositories that the home knows."""
    return Json(code.list_repositories())


@routes.get("/tree", response_model=None)
def tree(code: Code, words: File, window: Range) -> Json:
    """Return a range of the folders and files in a folder."""
    return Json(code.list_folder(words.file, window.start, window.stop))


@routes.get("/paths", response_model=None)
def paths(
    code: Code,
    repository: PathText,
    q: Name,
    revision: Name = "",
    limit: Annotated[int, Query(ge=1, le=_MAX_PATHS)] = 50,
) -> Json:
    """Return the files whose path matches a query, the best ones first."""
    return Json({"paths": code.filter_paths(repository, revision, q, limit)})


@routes.get("/file", response_model=None)
def file_lines(code: Code, words: File, window: Lines) -> Json:
    """Return a range of the lines of a file, fewer if they are long."""
    page = code.read_lines(words.file, window.start, window.stop).as_json()
    size = AnswerSize()
    page["lines"] = [*takewhile(size.add, map(cut_value, page["lines"]))]
    return Json(page)


@routes.get("/blame", response_model=None)
async def blame(
    request: LongRequest, agents: Agents, words: File, window: Lines
) -> StreamingResponse:
    """Stream a range of the lines of a file with their agents."""

    def work(tell: Tell, send: Send) -> object:
        lines = range(window.start, window.stop)

        def build(page: BlamePage) -> dict[str, Any]:
            return _cut_page(page, agents)

        return build(request.code.blame(words.file, lines, tell, lambda part: send(build(part))))

    return await request.stream(work)


def _cut_page(
    page: BlamePage | ExplainedPage, agents: CommitAgents, max_rows: int | None = None
) -> dict[str, Any]:
    """Return a page with as many rows as an answer has room for.

    `agents` has the ids that the agents of commits have in their sessions.
    """
    answer = page.as_json()
    size = AnswerSize()
    rows = [*takewhile(size.add, map(cut_value, answer["rows"][:max_rows]))]
    edits = [row["edit"] for row in rows if row["edit"] is not None]
    sessions = page.sessions
    names = {
        CommitId(edit["ctx"]): CommitAgentName(sessions.get(edit["session"]), edit["agent"])
        for edit in edits
    }
    answer["agents"] = agents.find(names)
    answer["rows"] = rows
    return answer


@routes.get("/line", response_model=None)
async def line(
    request: LongRequest,
    agents: Agents,
    words: File,
    first: Line,
    last: Annotated[int | None, Query(ge=1, le=_MAX_LINE)] = None,
) -> StreamingResponse:
    """Stream the answer why lines were written."""

    def work(tell: Tell, _: Send) -> object:
        page = request.code.explain(words.file, first, last or first, tell)
        return _cut_page(page, agents, MAX_ITEMS)

    return await request.stream(work)


@routes.get("/commit", response_model=None)
async def commit(
    request: LongRequest,
    agents: Agents,
    repository: PathText,
    commit: Name,
) -> StreamingResponse:
    """Stream the answer why the lines were written that a commit added."""

    def work(tell: Tell, _: Send) -> object:
        page = request.code.explain_commit(repository, commit, tell)
        return _cut_page(page, agents, MAX_ITEMS)

    return await request.stream(work)


@routes.get("/shares", response_model=None)
async def shares(request: LongRequest, words: File) -> StreamingResponse:
    """Stream the shares of agents in a folder."""
    return await request.stream(lambda tell, _: request.code.count_shares(words.file, tell))


@routes.get("/sessions", response_model=None)
async def sessions_of_file(request: LongRequest, words: File) -> StreamingResponse:
    """Stream the sessions that edited a file."""

    def work(tell: Tell, _: Send) -> object:
        rows = request.code.list_sessions(words.file, tell)
        return {"total": len(rows), "sessions": cut_value(rows[:MAX_ITEMS])}

    return await request.stream(work)


@session_routes.get("/call", response_model=None)
def call_of_session(
    name: str,
    sessions: Sessions,
    id_: Annotated[str, Query(alias="id", max_length=1000)],
    ctx: Name,
) -> Json:
    """Return the message with a tool call, and the model call that made it."""
    with sessions.use(name) as session:
        message = find_call(session.links, id_, ctx)
        if message is None:
            raise NameNotFound("call", id_, [])
        item = session.conversations.find_index(message)
        agent, index = item or (None, None)
        step = _find_step(session, message)
    return Json({"message": message, "agent": agent, "index": index, "step": step})


def _find_step(session: OpenSession, message: str) -> int | None:
    """Return the number of the model call that made a message. Return None if it is not known."""
    try:
        return session.steps().find(message)
    except NameNotFound:
        return None


@session_routes.get("/lines", response_model=None)
async def lines_of_call(
    name: str,
    request: LongRequest,
    sessions: Sessions,
    message: Name,
    position: Annotated[int, Query(ge=0, le=_MAX_LINE)],
) -> StreamingResponse:
    """Stream the lines of today's files that a tool call wrote."""

    def work(tell: Tell, _: Send) -> object:
        with sessions.use(name) as session:
            call = session.conversations.find_call(message, position)
            if call is None:
                raise NameNotFound("call", f"{message} at {position}", [])
            id_, files = call.call.id, call.find_files()
        return request.code.find_lines(name, id_, files, tell)

    return await request.stream(work)
