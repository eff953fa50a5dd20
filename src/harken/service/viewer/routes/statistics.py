"""Routes of the statistics of the home. Their lists are cut; each has a route for its ranges."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile
from typing import Annotated, Any, cast

from fastapi import APIRouter, Depends, Query, Request

from harken.service.body import Json
from harken.service.viewer.home_pages.statistics import (
    StatisticsQuery,
    StatisticsRowsQuery,
    StatisticsSource,
)
from harken.service.viewer.rows import MAX_ITEMS, AnswerSize, cut_value
from harken.store.remote.errors import RequestRefused

routes = APIRouter(prefix="/api", include_in_schema=False)
_MAX_LIST_BYTES = 250_000
"""The number of bytes after which a list of an answer has no further rows."""
_MAX_NAME_CHARS = 2000


async def source_of(request: Request) -> StatisticsSource:
    """Return the statistics of the viewer."""
    return cast(StatisticsSource, request.app.state.statistics)


Source = Annotated[StatisticsSource, Depends(source_of)]


@routes.get("/stats", response_model=None)
def statistics(source: Source, query: Annotated[StatisticsQuery, Query()]) -> Json:
    """Return the statistics of all sessions, or of one. `totals` has the lengths of its lists."""
    answer = source.summarize(query)
    members = answer.members
    totals: dict[str, int] = {}
    for path, holder in _iter_lists(members):
        rows = holder[path.rpartition(".")[2]]
        totals[path] = len(rows)
    return Json({**_cut_lists(members), "totals": totals, "index": answer.index})


@routes.get("/stats/rows", response_model=None)
def rows(source: Source, query: Annotated[StatisticsRowsQuery, Query()]) -> Json:
    """Return a range of a list of the statistics."""
    scope = StatisticsQuery(**query.model_dump(include=set(StatisticsQuery.model_fields)))
    members = source.summarize(scope).members
    holders = dict(_iter_lists(members))
    if query.name not in holders:
        raise RequestRefused("invalid", f"list {query.name!r} not found in these statistics")
    all_rows = holders[query.name][query.name.rpartition(".")[2]]
    page = all_rows[query.start : query.start + query.limit]
    return Json({"total": len(all_rows), "rows": _take_rows(page)})


def _iter_lists(members: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the lists of rows, by their paths, with the object that each is a member of."""
    for name, value in members.items():
        if isinstance(value, dict):
            yield from _iter_lists(value, f"{prefix}{name}.")
        elif isinstance(value, list) and all(isinstance(row, dict) for row in value):
            yield f"{prefix}{name}", members


def _cut_lists(members: dict[str, Any]) -> dict[str, Any]:
    """Return statistics with as many rows of each list as an answer has room for."""
    short: dict[str, Any] = {}
    for name, value in members.items():
        if isinstance(value, dict):
            short[name] = _cut_lists(value)
        elif isinstance(value, list) and all(isinstance(row, dict) for row in value):
            short[name] = _take_rows(value[:MAX_ITEMS])
        else:
            short[name] = cut_value(value)
    return short


def _take_rows(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    size = AnswerSize(_MAX_LIST_BYTES)
    return [*takewhile(size.add, map(_cut_row, rows))]


def _cut_row(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row with short names, and short lists in it, whose lengths are in `NAME_total`."""
    short: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, str):
            short[name] = value[:_MAX_NAME_CHARS]
        elif isinstance(value, list):
            short[name] = [_cut_row(item) for item in value[:MAX_ITEMS]]
            if len(value) > MAX_ITEMS:
                short[f"{name}_total"] = len(value)
        else:
            short[name] = value
    return short
