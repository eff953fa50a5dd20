"""The route by which the server proves to a page that it has the token. It needs no token."""

from __future__ import annotations

from typing import Annotated, cast

from fastapi import APIRouter, Query, Request

from harken.service.body import Json
from harken.service.viewer.access import PROOF_PATH, PageAccessCheck

routes = APIRouter(include_in_schema=False)


@routes.get(PROOF_PATH, response_model=None)
async def proof(request: Request, nonce: Annotated[str, Query(pattern="^[0-9a-f]{64}$")]) -> Json:
    """Return the proof for a nonce that the page chose."""
    access = cast(PageAccessCheck, request.app.state.access)
    return Json({"proof": access.prove(nonce)})
