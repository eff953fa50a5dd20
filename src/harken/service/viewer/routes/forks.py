"""The route that forks a session."""

from __future__ import annotations

from typing import Annotated, cast

from anyio import to_thread
from fastapi import APIRouter, Depends, Request

from harken.service.body import Json, RequestBody
from harken.service.viewer.session_forks import SessionForker, SessionForkRequest

routes = APIRouter(prefix="/api/sessions/{name:path}", include_in_schema=False)


async def forker_of(request: Request) -> SessionForker:
    """Return the forker of the viewer."""
    return cast(SessionForker, request.app.state.forker)


@routes.post("/fork", response_model=None)
async def fork(
    name: str, body: RequestBody, forker: Annotated[SessionForker, Depends(forker_of)]
) -> Json:
    """Fork a session. The session itself is not changed."""
    wish = body.json(SessionForkRequest)
    row = await to_thread.run_sync(forker.fork, name, wish)
    return Json(row, 201)
