"""`Schedule`: the times of a time trigger: once, at an interval, or by a cron expression."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import msgspec

from harken.core.clock import format_rfc3339, parse_rfc3339
from harken.world.result import InvalidArguments
from harken.world.triggers.base import missing_extra
from harken.world.triggers.trigger import TimeTrigger

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

MIN_INTERVAL_S = 10.0
"""The minimum interval in seconds."""
MAX_INTERVAL_S = 366 * 86_400.0
_CRON_FIELD_COUNT = 5
_UNIT_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_INTERVAL_PATTERN = re.compile(
    r"(in|every) (\d{1,9}(?:\.\d{1,3})?) ?(s|sec|seconds?|m|min|minutes?|h|hours?|d|days?)"
)
_CLOCK_PATTERN = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2}))?")


class Schedule(msgspec.Struct, frozen=True):
    """The due times of a time trigger."""

    trigger: TimeTrigger
    armed_us: int
    """The time at which it was armed, in microseconds since 1970."""

    @property
    def zone(self) -> ZoneInfo:
        """The time zone in which times are shown."""
        return get_time_zone(self.trigger.zone)

    def find_next_due(self, time_us: int) -> int | None:
        """Return the first due time after this time, in microseconds. Return None if there is none.

        Raises InvalidArguments if the trigger in the log is not a valid schedule.
        """
        trigger, armed_us = self.trigger, self.armed_us
        try:
            if trigger.at is not None:
                due = parse_rfc3339(trigger.at)
                return due if due > time_us or time_us <= armed_us else None
            if trigger.every_s is not None:
                interval_us = round(max(trigger.every_s, MIN_INTERVAL_S) * 1e6)
                return armed_us + interval_us * (max(0, time_us - armed_us) // interval_us + 1)
            return self._cron(max(time_us, armed_us))
        except (ValueError, OverflowError) as error:
            raise InvalidArguments(f"{trigger.description} is not a time: {error}") from None

    def _cron(self, time_us: int) -> int | None:
        due_time = next(_cron(self.trigger.cron or "", datetime_at(time_us, self.zone)), None)
        return None if due_time is None else round(due_time.timestamp() * 1e6)

    def format_time(self, time_us: int) -> str:
        """Format a time for the agent."""
        return f"{datetime_at(time_us, self.zone):%Y-%m-%d %H:%M:%S} ({self.trigger.zone})"


def datetime_at(time_us: int, zone: ZoneInfo) -> datetime:
    """Return a time in a zone."""
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=time_us)).astimezone(zone)


def get_time_zone(name: str) -> ZoneInfo:
    """Return a time zone by name. Raises InvalidArguments."""
    from zoneinfo import ZoneInfo  # noqa: PLC0415 - reads the environment where it is imported

    try:
        return ZoneInfo(name)
    except (ValueError, OSError, LookupError):  # ZoneInfoNotFoundError is a KeyError
        raise InvalidArguments(f"{name!r} is not a time zone such as Europe/Berlin") from None


def _cron(expression: str, after: datetime) -> Iterator[datetime]:
    """Yield the times of a cron expression. Raises InvalidArguments."""
    try:
        from cronsim import CronSim, CronSimError  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise missing_extra(error) from None
    try:
        return iter(CronSim(expression, after))
    except CronSimError as error:
        raise InvalidArguments(f"cron {expression!r}: {error}") from None


def parse_time(text: str, zone: str, now_us: int) -> str:
    """Parse a time that an agent wrote and return it as UTC in RFC 3339. Raises InvalidArguments.

    A time without an offset is in the zone; a time of day alone is its next occurrence.

    >>> parse_time("1970-01-31T13:00:00+01:00", "UTC", 0), parse_time("00:30", "Europe/Berlin", 0)
    ('1970-01-31T12:00:00.000000Z', '1970-01-01T23:30:00.000000Z')
    """
    tzinfo, now = get_time_zone(zone), datetime_at(now_us, get_time_zone(zone))
    try:
        if (match := _CLOCK_PATTERN.fullmatch(text.strip())) is not None:
            hour, minute, second = (int(part or 0) for part in match.groups())
            local_time = now.replace(hour=hour, minute=minute, second=second, microsecond=0, fold=0)
            times = [local_time, local_time.replace(fold=1), local_time + timedelta(days=1)]
        else:
            local_time = datetime.fromisoformat(text.strip())
            local_time = (
                local_time if local_time.tzinfo is not None else local_time.replace(tzinfo=tzinfo)
            )
            # The time occurs twice when clocks are set back.
            times = [local_time, local_time.replace(fold=1)]
        due_times_us = [round(candidate.timestamp() * 1e6) for candidate in times]
        due_us = next(
            (candidate for candidate in due_times_us if candidate > now_us), due_times_us[0]
        )
    except (ValueError, OverflowError):
        raise InvalidArguments(
            f"{text!r} is not a time such as in 10 min, every 2 h, 09:30 or 2026-01-31 09:30"
        ) from None
    if not now_us < due_us <= now_us + MAX_INTERVAL_S * 1e6:
        raise InvalidArguments(
            f"{text} is not within the year from now: it is {now:%Y-%m-%d %H:%M}"
        )
    return format_rfc3339(due_us)


class Times(msgspec.Struct, frozen=True):
    """The times that an agent requests; exactly one field is set."""

    at: str | None = None
    every_s: float | None = None
    cron: str | None = None

    @classmethod
    def read(cls, text: str, zone: str, now_us: int) -> Times:
        """Parse a text that an agent wrote. Raises InvalidArguments.

        >>> Times.read("in 10 min", "UTC", 0).at, Times.read("every 2h", "UTC", 0).every_s
        ('1970-01-01T00:10:00.000000Z', 7200.0)
        """
        get_time_zone(zone)
        if (match := _INTERVAL_PATTERN.fullmatch(text.strip().lower())) is not None:
            seconds = float(match[2]) * _UNIT_SECONDS[match[3][:1]]
            min_s = MIN_INTERVAL_S if match[1] == "every" else 1.0
            if not min_s <= seconds <= MAX_INTERVAL_S:
                raise InvalidArguments(f"{text!r} is not from {min_s:g} s to a year")
            if match[1] == "every":
                return cls(every_s=seconds)
            return cls(at=format_rfc3339(now_us + round(seconds * 1e6)))
        expression = text.strip().removeprefix("cron").strip()
        if len(expression.split()) == _CRON_FIELD_COUNT or text.strip().startswith("cron"):
            _check_cron(expression)
            return cls(cron=expression)
        return cls(at=parse_time(text, zone, now_us))


def _check_cron(expression: str) -> None:
    """Raise InvalidArguments for an invalid cron expression, or one that is never due."""
    if len(expression.split()) != _CRON_FIELD_COUNT:
        raise InvalidArguments("a cron expression has five fields: minute hour day month weekday")
    if next(_cron(expression, datetime(2026, 1, 1, tzinfo=UTC)), None) is None:
        raise InvalidArguments(f"cron {expression!r} never matches")
