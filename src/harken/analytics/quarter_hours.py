"""Activity of each session per quarter of an hour.

Messages are aggregated once to few rows, from which sums by session, hours, days and concurrency
are computed. The unit is a quarter of an hour, because all current time zones differ from UTC by a
multiple of it.
"""

from __future__ import annotations

from datetime import datetime, tzinfo

import apsw
import msgspec

from harken.analytics.scope import Scope
from harken.analytics.times import US, to_datetime

QUARTER_US = 15 * 60 * US
_QUERY = f"""
    SELECT session_id, time / {QUARTER_US}, count(*),
        count(*) FILTER (WHERE kind = 'prompt'),
        count(*) FILTER (WHERE kind = 'response' AND part_of IS NULL),
        coalesce(sum(characters) FILTER (WHERE kind = 'prompt'), 0),
        coalesce(sum(characters) FILTER (WHERE kind = 'response'), 0)
    FROM messages WHERE NOT is_repeat AND {{scope}} GROUP BY 1, 2
"""  # noqa: S608 - a number of ours


class QuarterHour(msgspec.Struct, frozen=True):
    """Sums over the messages of a session in a quarter of an hour."""

    session_id: int
    quarter: int | None
    """Number of quarter hours since 1970, UTC; None for messages without a time."""
    messages: int
    prompts: int
    responses: int
    input_characters: int
    """Characters of prompts."""
    output_characters: int
    """Characters of responses, without thoughts and arguments."""


def load_quarter_hours(database: apsw.Connection, scope: Scope) -> list[QuarterHour]:
    """Return the quarter hours of all sessions, by session and time."""
    return [QuarterHour(*row) for row in scope.rows(database, _QUERY)]


def quarter_start(quarter: int, zone: tzinfo) -> datetime:
    """Return the start of a quarter of an hour in a time zone."""
    return to_datetime(quarter * QUARTER_US, zone)
