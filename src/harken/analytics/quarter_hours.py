"""Spells: what was said in one session in one quarter of an hour.

One idea: the messages are read once, and of a long history few rows are left, from which come
the sums by session, the hours of the day, the days and who was at work at the same time. A quarter
of an hour, because no zone of today differs from UTC by less.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, tzinfo

import apsw

from harken.analytics.scope import Scope
from harken.analytics.times import US, to_datetime

QUARTER_US = 15 * 60 * US
_QUERY = f"""
    SELECT session_id, time / {QUARTER_US}, count(*),
        count(*) FILTER (WHERE kind = 'prompt'),
        count(*) FILTER (WHERE kind = 'response'),
        coalesce(sum(characters) FILTER (WHERE kind = 'prompt'), 0),
        coalesce(sum(characters) FILTER (WHERE kind = 'response'), 0)
    FROM messages WHERE NOT is_repeat AND {{scope}} GROUP BY 1, 2
"""  # noqa: S608 - a number of ours


@dataclass(frozen=True, slots=True)
class QuarterHour:
    """What was said in a session in a quarter of an hour; its members are sums."""

    session_id: int
    quarter: int | None
    """Quarters of an hour since 1970, UTC; None: these messages have no time."""
    messages: int
    prompts: int
    responses: int
    input_characters: int
    """Of prompts."""
    output_characters: int
    """Of responses, thoughts and arguments aside."""


def spells(database: apsw.Connection, scope: Scope) -> list[QuarterHour]:
    """Return all spells, by session and time."""
    return [QuarterHour(*row) for row in scope.rows(database, _QUERY)]


def begins(quarter: int, zone: tzinfo) -> datetime:
    """Return when a quarter of an hour begins, in a time zone."""
    return to_datetime(quarter * QUARTER_US, zone)
