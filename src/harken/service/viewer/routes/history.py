"""Routes of the statistics of the home."""

from __future__ import annotations

from fastapi import APIRouter

from harken.service.body import Json
from harken.service.viewer.library import StatisticsQuery
from harken.service.viewer.requests import Library, Text
from harken.service.viewer.rows import cut_value

routes = APIRouter(prefix="/api", include_in_schema=False)


@routes.get("/stats", response_model=None)
def statistics(
    *,
    library: Library,
    session: Text = None,
    since: Text = None,
    until: Text = None,
    project: Text = None,
    runtime: Text = None,
) -> Json:
    """Return the statistics of all sessions, or of one."""
    query = StatisticsQuery(
        session=session or None,
        since=since or None,
        until=until or None,
        project=project or None,
        runtime=runtime or None,
    )
    return Json(cut_value(library.summarize(query)))
