"""Activity: at which hours of the week there was work, and on which days.

One idea: hours and days are those of a time zone that the caller gives, with its summer time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import date, tzinfo

from harken.analytics.spell import Spell, begins
from harken.core.record import Record

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


class Activity(Record, frozen=True, kw_only=True):
    """When something was said. Weekdays from Monday, hours from 0: `messages[weekday][hour]`."""

    messages: list[list[int]]
    prompts: list[list[int]]
    days: list[Day]
    """Those on which something was said, in order."""


def activity(spells: Iterable[Spell], zone: tzinfo) -> Activity:
    """Return when there was work; messages without a time are left out."""
    messages = [[0] * HOURS for _ in WEEKDAYS]
    prompts = [[0] * HOURS for _ in WEEKDAYS]
    by_day: dict[date, list[Spell]] = defaultdict(list)
    for spell in spells:
        if spell.quarter is None:
            continue
        when = begins(spell.quarter, zone)
        messages[when.weekday()][when.hour] += spell.messages
        prompts[when.weekday()][when.hour] += spell.prompts
        by_day[when.date()].append(spell)
    days = [_day(day, by_day[day]) for day in sorted(by_day)]
    return Activity(messages=messages, prompts=prompts, days=days)


def _day(day: date, spells: list[Spell]) -> Day:
    return Day(
        day=day,
        sessions=len({spell.session_id for spell in spells}),
        prompts=sum(spell.prompts for spell in spells),
        responses=sum(spell.responses for spell in spells),
        messages=sum(spell.messages for spell in spells),
    )
