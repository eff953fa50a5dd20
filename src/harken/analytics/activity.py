"""Activity by hour of the week and by day, and the maximum number of concurrent sessions.

Hours and days are in the time zone of the caller, with its daylight saving time.

Concurrency is the number of sessions at the same time.

A session is open from its first message to its last, and may be idle for days in between. So two
numbers are computed: open sessions, and sessions with a message in the same quarter of an hour.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import date, datetime, tzinfo

import apsw

from harken.analytics.quarter_hours import QUARTER_US, QuarterHour, quarter_start
from harken.analytics.scope import Scope
from harken.analytics.times import to_datetime
from harken.core.record import Record

# A session that ends in the moment in which another begins was open together with it.
_QUERY = """
    WITH edge (time, step) AS (
        SELECT max(began, coalesce(:since, began)), 1 FROM sessions
        WHERE began IS NOT NULL AND {scope}
        UNION ALL
        SELECT min(ended, coalesce(:until, ended)), -1 FROM sessions
        WHERE began IS NOT NULL AND {scope}
    )
    SELECT open, time, until FROM (
        SELECT time, lead(time) OVER moments AS until,
            sum(step) OVER (moments ROWS UNBOUNDED PRECEDING) AS open
        FROM edge WINDOW moments AS (ORDER BY time, step DESC)
    ) ORDER BY open DESC, time LIMIT 1
"""


class Concurrency(Record, frozen=True, kw_only=True):
    """The first maxima of both concurrency measures."""

    open: int
    """Maximum number of sessions between their first and last message at the same time."""
    open_at: datetime | None
    open_until: datetime | None
    at_work: int
    """Maximum number of sessions with messages in the same quarter of an hour."""
    at_work_at: datetime | None
    """Start of that quarter of an hour."""


def concurrency(
    database: apsw.Connection, scope: Scope, quarter_hours: Iterable[QuarterHour]
) -> Concurrency:
    """Compute the maxima. `quarter_hours` are the quarter hours of the scope."""
    open_count, since, until = next(scope.rows(database, _QUERY, "sessions"), (0, None, None))
    busy = Counter(
        quarter_hour.quarter for quarter_hour in quarter_hours if quarter_hour.quarter is not None
    )
    quarter, at_work = min(busy.items(), key=lambda item: (-item[1], item[0]), default=(None, 0))
    return Concurrency(
        open=open_count,
        open_at=to_datetime(since),
        open_until=to_datetime(until),
        at_work=at_work,
        at_work_at=None if quarter is None else to_datetime(quarter * QUARTER_US),
    )


HOURS_PER_DAY = 24
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


class Day(Record, frozen=True, kw_only=True):
    """Activity on a day."""

    day: date
    sessions: int
    """Number of sessions with messages."""
    prompts: int
    responses: int
    messages: int
    """All messages, including tool results."""


class ActivityByHour(Record, frozen=True, kw_only=True):
    """Number of messages by time. Weekdays start with Monday: `messages[weekday][hour]`."""

    messages: list[list[int]]
    prompts: list[list[int]]
    days: list[Day]
    """Days with messages, in order."""


def activity(quarter_hours: Iterable[QuarterHour], zone: tzinfo) -> ActivityByHour:
    """Count messages by hour and by day. Messages without a time are ignored."""
    messages = [[0] * HOURS_PER_DAY for _ in WEEKDAYS]
    prompts = [[0] * HOURS_PER_DAY for _ in WEEKDAYS]
    by_day: dict[date, list[QuarterHour]] = defaultdict(list)
    for quarter_hour in quarter_hours:
        if quarter_hour.quarter is None:
            continue
        start = quarter_start(quarter_hour.quarter, zone)
        messages[start.weekday()][start.hour] += quarter_hour.messages
        prompts[start.weekday()][start.hour] += quarter_hour.prompts
        by_day[start.date()].append(quarter_hour)
    days = [_build_day(day, by_day[day]) for day in sorted(by_day)]
    return ActivityByHour(messages=messages, prompts=prompts, days=days)


def _build_day(day: date, quarter_hours: list[QuarterHour]) -> Day:
    return Day(
        day=day,
        sessions=len({quarter_hour.session_id for quarter_hour in quarter_hours}),
        prompts=sum(quarter_hour.prompts for quarter_hour in quarter_hours),
        responses=sum(quarter_hour.responses for quarter_hour in quarter_hours),
        messages=sum(quarter_hour.messages for quarter_hour in quarter_hours),
    )
