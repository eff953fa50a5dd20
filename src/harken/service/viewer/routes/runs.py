"""Routes of the sessions that this server runs.

Each change is a POST, and nothing is run without one. The functions of the runner block: they are
called in threads, and the agents have threads of their own.
"""

from __future__ import annotations

from typing import Annotated, cast

from anyio import to_thread
from fastapi import APIRouter, Depends, Path, Request

from harken.errors import NameNotFound
from harken.service.body import Json, RequestBody
from harken.service.viewer.requests import MAX_NAME_CHARS, Text
from harken.service.viewer.rows import cut_value
from harken.service.viewer.session_runner import (
    DecisionRequest,
    EndRequest,
    InterruptRequest,
    MessageRequest,
    RunRow,
    SessionRunner,
    StartRequest,
)

routes = APIRouter(prefix="/api/runs", include_in_schema=False)


async def runner_of(request: Request) -> SessionRunner:
    """Return the runner of the viewer."""
    return cast(SessionRunner, request.app.state.runner)


Runner = Annotated[SessionRunner, Depends(runner_of)]


def run_value(row: RunRow | None) -> object:
    """Return the row of a run as a JSON value with its long texts cut."""
    return None if row is None else cut_value(row.as_json())


@routes.get("", response_model=None)
def runs(runner: Runner) -> Json:
    """Return the sessions that this server runs."""
    return Json({"runs": [run_value(row) for row in runner.list_runs()]})


@routes.get("/choices", response_model=None)
def choices(runner: Runner, folder: Text = None, session: Text = None) -> Json:
    """Return the models, templates and permission modes of a run in a folder."""
    return Json(cut_value(runner.choices(folder or None, session or None).as_json()))


@routes.post("", response_model=None)
async def start(body: RequestBody, runner: Runner) -> Json:
    """Run a session, new or old."""
    request = body.json(StartRequest)
    return Json({"run": run_value(await to_thread.run_sync(runner.start, request))}, 201)


@routes.post("/{name:path}/messages", response_model=None)
async def send(name: str, body: RequestBody, runner: Runner) -> Json:
    """Send a message to an agent, which answers in its turn."""
    request = body.json(MessageRequest)
    return Json({"run": run_value(await to_thread.run_sync(runner.send, name, request))}, 202)


@routes.post("/{name:path}/interrupt", response_model=None)
async def interrupt(name: str, body: RequestBody, runner: Runner) -> Json:
    """Stop the turn of an agent, or of all."""
    request = body.json(InterruptRequest)
    return Json({"run": run_value(await to_thread.run_sync(runner.interrupt, name, request))})


@routes.post("/{name:path}/permissions/{question}", response_model=None)
async def decide(
    name: str,
    question: Annotated[str, Path(max_length=MAX_NAME_CHARS)],
    body: RequestBody,
    runner: Runner,
) -> Json:
    """Answer a question of an agent, or allow or deny an action."""
    request = body.json(DecisionRequest)
    row = await to_thread.run_sync(runner.decide, name, question, request)
    return Json({"run": run_value(row)})


@routes.get("/{name:path}/permissions/{question}/preview", response_model=None)
def preview(
    name: str, question: Annotated[str, Path(max_length=MAX_NAME_CHARS)], runner: Runner
) -> Json:
    """Return the whole preview of an action that waits for approval."""
    run = runner.find(name)
    for row in () if run is None else run.questions:
        if row.id == question:
            return Json({"text": row.preview})
    raise NameNotFound("question", question, [])


@routes.post("/{name:path}/end", response_model=None)
async def end(name: str, body: RequestBody, runner: Runner) -> Json:
    """End a run and its session."""
    body.json(EndRequest)
    return Json({"run": run_value(await to_thread.run_sync(runner.end, name))})
