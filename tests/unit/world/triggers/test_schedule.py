"""Schedules: their syntax, due times, and missed times."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from harken.core.clock import format_rfc3339, parse_rfc3339
from harken.core.ids import MessageId
from harken.world.result import InvalidArguments, ToolError
from harken.world.triggers.schedule import Schedule, Times, parse_time
from harken.world.triggers.timer import Timer
from harken.world.triggers.trigger import ArmedTrigger, TimeTrigger
from tests.agent_kit import run
from tests.trigger_kit import NOON_US, FakeTime, open_sources


def arm(text: str, zone: str = "UTC", now_us: int = NOON_US) -> Schedule:
    times = Times.read(text, zone, now_us)
    trigger = TimeTrigger(at=times.at, every_s=times.every_s, cron=times.cron, zone=zone)
    return Schedule(trigger, now_us)


def next_due(text: str, after: str = "2026-01-01T12:00:00Z", zone: str = "UTC") -> str | None:
    result = arm(text, zone).find_next_due(parse_rfc3339(after))
    return None if result is None else format_rfc3339(result)[:19]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("in 10 min", "2026-01-01T12:10:00"),
        ("in 1.5h", "2026-01-01T13:30:00"),
        ("every 90 s", "2026-01-01T12:01:30"),
        ("13:30", "2026-01-01T13:30:00"),
        ("09:00", "2026-01-02T09:00:00"),
        ("2026-02-01 09:00", "2026-02-01T09:00:00"),
        ("2026-02-01T09:00:00+01:00", "2026-02-01T08:00:00"),
        ("cron 0 9 * * MON-FRI", "2026-01-02T09:00:00"),
        ("*/5 * * * *", "2026-01-01T12:05:00"),
    ],
)
def test_schedule_is_due_at_the_stated_time(text: str, expected: str) -> None:
    assert next_due(text) == expected


NO_TIMES = """in 0 s, every 1 s, in 9999 d, in 1e9 s, soon, 25:00, 2026-01-01 11:00,
2027-06-01 09:00, cron * * *, cron 0 0 31 2 *, cron x * * * *, ,"""


@pytest.mark.parametrize("text", NO_TIMES.split(","))
def test_invalid_or_past_time_is_rejected(text: str) -> None:
    with pytest.raises(InvalidArguments):
        arm(text)
    with pytest.raises(InvalidArguments, match="not a time zone"):
        arm("09:00", "../etc/passwd")


def test_daily_time_is_kept_across_daylight_saving_changes() -> None:
    cron, zone = "cron 0 9 * * *", "Europe/Berlin"
    assert (
        next_due(cron, "2026-03-28T12:00:00Z", zone) == "2026-03-29T07:00:00"
    )  # Daylight saving time has started.
    assert next_due(cron, "2026-03-27T12:00:00Z", zone) == "2026-03-28T08:00:00"
    assert next_due("09:00", zone=zone) == "2026-01-02T08:00:00"


@pytest.mark.parametrize(
    ("now", "text", "due"),
    [
        ("00:45", "02:50", "00:50"),
        ("00:45", "02:30", "01:30"),
        ("01:45", "02:50", "01:50"),
        ("01:45", "2026-10-25 02:50", "01:50"),
    ],
)
def test_ambiguous_hour_means_the_next_occurrence(now: str, text: str, due: str) -> None:
    now_us = parse_rfc3339(f"2026-10-25T{now}:00Z")
    assert parse_time(text, "Europe/Berlin", now_us) == f"2026-10-25T{due}:00.000000Z"


def test_interval_does_not_drift() -> None:
    assert next_due("every 10 min", "2026-01-01T12:34:56Z") == "2026-01-01T12:40:00"
    assert next_due("every 10 min", "2026-01-01T12:40:00Z") == "2026-01-01T12:50:00"


def fire_times(text: str, after_s: float, last_us: int = NOON_US) -> list[str]:
    """Return the notification of a timer this many seconds after noon."""
    time, texts = FakeTime(), list[str]()

    async def listen() -> None:
        timer = Timer(arm(text), last_us, time.trigger_clock)
        async with timer.open():
            is_over = False
            while not is_over:
                happening = await timer.wait()
                texts.append(happening.text)
                is_over = happening.is_last

    async def pass_by() -> None:
        task = asyncio.create_task(listen())
        await time.advance(after_s)
        task.cancel()

    run(pass_by())
    return texts


def test_time_fires_once_and_interval_repeatedly() -> None:
    assert fire_times("in 10 min", 3600) == ["it is 2026-01-01 12:10:00 (UTC)"]
    assert fire_times("every 10 min", 1900) == [
        f"it is 2026-01-01 12:{minute}:00 (UTC)" for minute in (10, 20, 30)
    ]


def first_late_notification(text: str, hours: float) -> str:
    """Return the first notification of a timer that starts this many hours after it was armed."""
    time = FakeTime(NOON_US + round(hours * 3600e6))
    timer = Timer(arm(text), NOON_US, time.trigger_clock)
    return run(timer.wait()).text


def test_missed_times_are_reported_once_as_late() -> None:
    assert first_late_notification("in 10 min", 2) == (
        "it is 2026-01-01 14:00:00 (UTC); late: it was due at 2026-01-01 12:10:00 (UTC)"
    )
    assert first_late_notification("every 30 min", 2) == (
        "it is 2026-01-01 14:00:00 (UTC); "
        "4 times since 2026-01-01 12:30:00 (UTC), when nobody told you"
    )


def test_foreign_log_cannot_fire_endlessly() -> None:
    unusual = Schedule(TimeTrigger(every_s=0.001), NOON_US)
    assert unusual.find_next_due(NOON_US) == NOON_US + 10_000_000


def test_invalid_times_in_a_log_are_errors(tmp_path: Path) -> None:
    with pytest.raises(InvalidArguments, match="at noon is not a time"):
        Schedule(TimeTrigger(at="noon"), NOON_US).find_next_due(NOON_US)
    armed = ArmedTrigger(MessageId("msg_002"), TimeTrigger(every_s=60), "msg_001", "noon")
    with pytest.raises(ToolError, match="the log has no valid time for it"):
        open_sources(tmp_path / "work").source(armed, "agent_001", None, lambda _: ())
