"""Points in time as people write them."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from harken.cli.options.time import parse_time_us
from harken.errors import ConfigError

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 3, 5, 12, 0, tzinfo=UTC)


def read(text: str, *, is_end: bool = False) -> str:
    found = parse_time_us(text, BERLIN, NOW, is_end=is_end)
    return datetime.fromtimestamp(found / 1e6, UTC).strftime("%Y-%m-%d %H:%M")


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("2026-03-05", "2026-03-04 23:00"),
        ("2026-07-05", "2026-07-04 22:00"),  # summer time
        ("2026-03-05 14:30", "2026-03-05 13:30"),
        ("2026-03-05T14:30Z", "2026-03-05 14:30"),
        ("2026-03-05T14:30+05:00", "2026-03-05 09:30"),
        ("today", "2026-03-04 23:00"),
        ("Yesterday", "2026-03-03 23:00"),
        ("12h", "2026-03-05 00:00"),
        ("1w", "2026-02-26 12:00"),
    ],
)
def test_days_and_times_are_those_of_the_zone(text: str, meant: str) -> None:
    assert read(text) == meant


def test_the_last_day_is_meant_to_its_end() -> None:
    assert read("2026-03-28", is_end=True) == "2026-03-28 23:00"
    assert read("2026-03-29", is_end=True) == "2026-03-29 22:00"  # the day has 23 hours
    assert read("2026-03-05 14:30", is_end=True) == "2026-03-05 13:30"


@pytest.mark.parametrize(
    "text", ["", "soon", "2026-02-30", "2026-3-5", "99999999d", "7", "-7d", "9999-12-31", "7qd"]
)
def test_what_is_no_time_is_an_error_that_says_what_is_one(text: str) -> None:
    with pytest.raises(ConfigError, match=r"is not a time; write 2026-03-05, "):
        parse_time_us(text, UTC, NOW, is_end=True)
