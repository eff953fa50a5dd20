"""Dependencies of the routes: the library, the open sessions, ranges, and short texts."""

from __future__ import annotations

import math
from typing import Annotated, cast

from fastapi import Depends, Query, Request

from harken.service.viewer.home_pages.commit_agents import CommitAgents
from harken.service.viewer.library import SessionLibrary
from harken.service.viewer.open_sessions import OpenSessions
from harken.service.viewer.rows import MAX_ITEMS

MAX_NAME_CHARS = 1000
MAX_PANELS = 16
"""The maximum number of panels of a page in a request."""
_SOON_S = 0.1
"""How long a request that is content with the first events of a log waits for them."""


async def library_of(request: Request) -> SessionLibrary:
    """Return the library of the viewer."""
    return cast(SessionLibrary, request.app.state.library)


async def sessions_of(request: Request) -> OpenSessions:
    """Return the open sessions of the viewer."""
    return cast(OpenSessions, request.app.state.sessions)


async def commit_agents_of(request: Request) -> CommitAgents:
    """Return the agents of the commits of the viewer."""
    return cast(CommitAgents, request.app.state.commit_agents)


Library = Annotated[SessionLibrary, Depends(library_of)]
Sessions = Annotated[OpenSessions, Depends(sessions_of)]
Limit = Annotated[int, Query(ge=1, le=MAX_ITEMS)]
Text = Annotated[str | None, Query(max_length=MAX_NAME_CHARS)]


class _Range:
    """A range of a list: its first position, and its maximum length."""

    def __init__(
        self,
        *,
        start: Annotated[int, Query(alias="from", ge=0, le=10**9)] = 0,
        limit: Limit = 100,
    ) -> None:
        self.start, self.stop = start, start + limit


Range = Annotated[_Range, Depends()]


class _Patience:
    """Whether a request waits until a log was read, which may take seconds."""

    def __init__(self, *, soon: bool = False) -> None:
        """soon: answer with the first events, and with `is_complete` if these are all."""
        self.max_s = _SOON_S if soon else math.inf


Patience = Annotated[_Patience, Depends()]
