"""Activity: at which hours of the week there was work, and on which days.

One idea: hours and days are those of a time zone that the caller gives, with its summer time.

Concurrency: how many sessions there were at once, at most.

A session is open from its first message to its last, and may sleep for days between. So there are
two answers: how many were open, and in how many something was said in the same quarter of an hour.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import date, datetime, tzinfo

import apsw

from harken.analytics.quarter_hours import QUARTER_US, QuarterHour, begins
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
    """The peaks; each the first of its height."""

    open: int
    """The most sessions that were between their first and last message at once."""
    open_at: datetime | None
    open_until: datetime | None
    at_work: int
    """The most sessions in which something was said in the same quarter of an hour."""
    at_work_at: datetime | None
    """When that began."""


def concurrency(
    database: apsw.Connection, scope: Scope, spells: Iterable[QuarterHour]
) -> Concurrency:
    """Return the peaks. `spells`: those of the scope."""
    opened, since, until = next(scope.rows(database, _QUERY, "sessions"), (0, None, None))
    busy = Counter(spell.quarter for spell in spells if spell.quarter is not None)
    quarter, at_work = min(busy.items(), key=lambda one: (-one[1], one[0]), default=(None, 0))
    return Concurrency(
        open=opened,
        open_at=to_datetime(since),
        open_until=to_datetime(until),
        at_work=at_work,
        at_work_at=None if quarter is None else to_datetime(quarter * QUARTER_US),
    )


HOURS = 24
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


class Day(Record, frozen=True, kw_only=True):
    """What was said on a day."""

    day: date
    sessions: int
    """In which something was said."""
    prompts: int
    responses: int
    messages: int
    """All of them, results of tools too."""


class ActivityByHour(Record, frozen=True, kw_only=True):
    """When something was said. Weekdays from Monday, hours from 0: `messages[weekday][hour]`."""

    messages: list[list[int]]
    prompts: list[list[int]]
    days: list[Day]
    """Those on which something was said, in order."""


def activity(spells: Iterable[QuarterHour], zone: tzinfo) -> ActivityByHour:
    """Return when there was work; messages without a time are left out."""
    messages = [[0] * HOURS for _ in WEEKDAYS]
    prompts = [[0] * HOURS for _ in WEEKDAYS]
    by_day: dict[date, list[QuarterHour]] = defaultdict(list)
    for spell in spells:
        if spell.quarter is None:
            continue
        when = begins(spell.quarter, zone)
        messages[when.weekday()][when.hour] += spell.messages
        prompts[when.weekday()][when.hour] += spell.prompts
        by_day[when.date()].append(spell)
    days = [_day(day, by_day[day]) for day in sorted(by_day)]
    return ActivityByHour(messages=messages, prompts=prompts, days=days)


def _day(day: date, spells: list[QuarterHour]) -> Day:
    return Day(
        day=day,
        sessions=len({spell.session_id for spell in spells}),
        prompts=sum(spell.prompts for spell in spells),
        responses=sum(spell.responses for spell in spells),
        messages=sum(spell.messages for spell in spells),
    )
