"""Timestamps: microseconds since 1970 as input, RFC 3339 in UTC as output."""

import time
from datetime import UTC, datetime

import pytest

from harken.core.clock import format_rfc3339, system_clock


@pytest.mark.parametrize(
    ("time_us", "text"),
    [
        (0, "1970-01-01T00:00:00.000000Z"),
        (1, "1970-01-01T00:00:00.000001Z"),
        (999_999, "1970-01-01T00:00:00.999999Z"),
        (1_000_000, "1970-01-01T00:00:01.000000Z"),
        (1_769_860_800_123_456, "2026-01-31T12:00:00.123456Z"),
        (1_709_164_799_999_999, "2024-02-28T23:59:59.999999Z"),
        (1_709_164_800_000_000, "2024-02-29T00:00:00.000000Z"),
    ],
)
def test_timestamp_has_microseconds_and_ends_with_z(time_us: int, text: str) -> None:
    assert format_rfc3339(time_us) == text


def test_timestamps_may_be_formatted_in_any_order() -> None:
    """The last second is cached as text. An earlier time must not return it."""
    times = [5_000_001, 5_900_000, 4_000_000, 5_000_001, 0]
    assert [format_rfc3339(t)[17:] for t in times] == [
        "05.000001Z",
        "05.900000Z",
        "04.000000Z",
        "05.000001Z",
        "00.000000Z",
    ]


def test_parsing_a_timestamp_returns_the_same_microsecond() -> None:
    now_us = system_clock()
    parsed = datetime.fromisoformat(format_rfc3339(now_us))
    assert parsed.tzinfo == UTC
    assert round(parsed.timestamp() * 1_000_000) == now_us


def test_system_clock_returns_the_time_of_this_machine() -> None:
    before = time.time()
    assert before - 1 < system_clock() / 1_000_000 < before + 60
