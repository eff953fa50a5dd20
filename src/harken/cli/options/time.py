"""Points in time as people write them: `2026-03-05`, `2026-03-05 14:30`, `today`, `7d` (ago).

Durations as people write them: `90s`, `45m`, `12h`, `7d`, `2w`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Any, TypeVar

import click

from harken.errors import ConfigError

Command = TypeVar("Command", bound=Callable[..., Any])

MIN_IDLE_S = 0.001
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
_DURATION_PATTERN = re.compile(r"(\d{1,9}(?:\.\d{1,3})?)([smhdw])")


class Duration(click.ParamType[float]):
    """A number and a unit, such as `90s`; the value is in seconds."""

    name = "duration"

    def __init__(self, *, min_s: float = 0.0, max_s: float = math.inf) -> None:
        """Create a type with limits."""
        self.min_s, self.max_s = min_s, max_s

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the seconds."""
        if isinstance(value, int | float):
            return float(value)
        match = _DURATION_PATTERN.fullmatch(str(value).strip())
        if match is None:
            self.fail(
                f"{value!r} is not a duration; write a number and a unit: 90s, 45m, 12h, 7d, 2w",
                param,
                ctx,
            )
        seconds = float(match[1]) * _SECONDS[match[2]]
        if seconds < self.min_s:
            self.fail(f"{value!r} is too short; the minimum is {self.min_s:g}s", param, ctx)
        if seconds > self.max_s:
            self.fail(f"{value!r} is too long; the maximum is {self.max_s:g}s", param, ctx)
        return seconds


def idle_timeout_option(command: Command) -> Command:
    """Add `--idle-timeout` to a command that serves, passed as `idle_timeout_s`."""
    return click.option(
        "--idle-timeout",
        "idle_timeout_s",
        type=Duration(min_s=MIN_IDLE_S),
        help="Stop after this time without a request: 90s, 10m.",
    )(command)


_DAYS_AGO = {"today": 0, "yesterday": 1}


def parse_time_us(text: str, zone: tzinfo, now: datetime, *, is_end: bool = False) -> int:
    """Return a point in time in microseconds since 1970, UTC.

    A day begins at its first moment in the time zone. With `is_end` its end is returned, so that
    `--until 2026-03-05` includes all of that day. A time with a zone of its own keeps it. Raises
    ConfigError for an invalid time.
    """
    words = text.strip().lower()
    try:
        if words in _DAYS_AGO:
            return _of_day(now.astimezone(zone).date() - timedelta(_DAYS_AGO[words]), zone, is_end)
        if words[-1:] in "smhdw" and words[:1].isdigit():
            return _us(now - timedelta(seconds=Duration().convert(words, None, None)))
        if len(words) <= len("2026-03-05"):
            return _of_day(date.fromisoformat(words), zone, is_end)
        parsed = datetime.fromisoformat(words.upper())
        return _us(parsed if parsed.tzinfo else parsed.replace(tzinfo=zone))
    except (ValueError, OverflowError, click.BadParameter):
        raise ConfigError(
            f"{text!r} is not a time; write 2026-03-05, '2026-03-05 14:30', today, "
            "yesterday, or an age: 12h, 7d, 2w"
        ) from None


def _of_day(day: date, zone: tzinfo, is_end: bool) -> int:
    return _us(datetime.combine(day + timedelta(days=is_end), time(), zone))


def _us(when: datetime) -> int:
    return (when - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
