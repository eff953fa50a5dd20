"""Times: how an agent writes them, when they are due, and what is said of those that were missed."""

from __future__ import annotations

import asyncio

import pytest

from harken.core.clock import format_rfc3339, parse_rfc3339
from harken.world.result import InvalidArguments
from harken.world.triggers.schedule import Schedule, Times, parse_time
from harken.world.triggers.timer import Timer
from harken.world.triggers.trigger import TimeTrigger
from tests.agent_kit import run
from tests.trigger_kit import NOON_US, FakeTime


def armed(text: str, zone: str = "UTC", now_us: int = NOON_US) -> TimeTrigger:
    times = Times.read(text, zone, now_us)
    return TimeTrigger(
        call="msg_001",
        armed=format_rfc3339(now_us),
        at=times.at,
        every_s=times.every_s,
        cron=times.cron,
        zone=zone,
    )


def due(text: str, after: str = "2026-01-01T12:00:00Z", zone: str = "UTC") -> str | None:
    found = Schedule(armed(text, zone)).find_next_due(parse_rfc3339(after))
    return None if found is None else format_rfc3339(found)[:19]


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
def test_what_an_agent_writes_is_due_then(text: str, expected: str) -> None:
    assert due(text) == expected


NO_TIMES = """in 0 s, every 1 s, in 9999 d, in 1e9 s, soon, 25:00, 2026-01-01 11:00,
2027-06-01 09:00, cron * * *, cron 0 0 31 2 *, cron x * * * *, ,"""


@pytest.mark.parametrize("text", NO_TIMES.split(","))
def test_what_is_no_time_to_come_is_refused(text: str) -> None:
    with pytest.raises(InvalidArguments):
        armed(text)
    with pytest.raises(InvalidArguments, match="not a time zone"):
        armed("09:00", "../etc/passwd")


def test_nine_o_clock_stays_nine_o_clock_when_the_clocks_change() -> None:
    cron, zone = "cron 0 9 * * *", "Europe/Berlin"
    assert due(cron, "2026-03-28T12:00:00Z", zone) == "2026-03-29T07:00:00"  # summer time now
    assert due(cron, "2026-03-27T12:00:00Z", zone) == "2026-03-28T08:00:00"
    assert due("09:00", zone=zone) == "2026-01-02T08:00:00"


@pytest.mark.parametrize(
    ("now", "text", "due"),
    [
        ("00:45", "02:50", "00:50"),
        ("00:45", "02:30", "01:30"),
        ("01:45", "02:50", "01:50"),
        ("01:45", "2026-10-25 02:50", "01:50"),
    ],
)
def test_in_the_hour_that_comes_twice_the_next_time_is_meant(now: str, text: str, due: str) -> None:
    now_us = parse_rfc3339(f"2026-10-25T{now}:00Z")
    assert parse_time(text, "Europe/Berlin", now_us) == f"2026-10-25T{due}:00.000000Z"


def test_a_rhythm_does_not_drift() -> None:
    assert due("every 10 min", "2026-01-01T12:34:56Z") == "2026-01-01T12:40:00"
    assert due("every 10 min", "2026-01-01T12:40:00Z") == "2026-01-01T12:50:00"


def rung(text: str, after_s: float, last_us: int = NOON_US) -> list[str]:
    """Return what a timer says in so many seconds from noon."""
    time, said = FakeTime(), list[str]()

    async def listen() -> None:
        timer = Timer(armed(text), last_us, time.trigger_clock)
        async with timer.open():
            is_over = False
            while not is_over:
                happening = await timer.wait()
                said.append(happening.text)
                is_over = happening.is_last

    async def pass_by() -> None:
        task = asyncio.create_task(listen())
        await time.advance(after_s)
        task.cancel()

    run(pass_by())
    return said


def test_a_time_comes_once_and_a_rhythm_again() -> None:
    assert rung("in 10 min", 3600) == ["it is 2026-01-01 12:10:00 (UTC)"]
    assert rung("every 10 min", 1900) == [
        f"it is 2026-01-01 12:{minute}:00 (UTC)" for minute in (10, 20, 30)
    ]


def late(text: str, hours: float) -> str:
    """Return what a timer says first that begins so many hours after it was armed."""
    time = FakeTime(NOON_US + round(hours * 3600e6))
    timer = Timer(armed(text), NOON_US, time.trigger_clock)
    return run(timer.wait()).text


def test_what_was_due_while_nobody_listened_comes_once_and_says_that_it_is_late() -> None:
    assert late("in 10 min", 2) == (
        "it is 2026-01-01 14:00:00 (UTC); late: it was due at 2026-01-01 12:10:00 (UTC)"
    )
    assert late("every 30 min", 2) == (
        "it is 2026-01-01 14:00:00 (UTC); "
        "4 times since 2026-01-01 12:30:00 (UTC), when nobody told you"
    )


def test_what_a_foreign_log_says_cannot_ring_without_end() -> None:
    odd = TimeTrigger(call="msg_001", armed=format_rfc3339(NOON_US), every_s=0.001)
    assert Schedule(odd).find_next_due(NOON_US) == NOON_US + 10_000_000
    with pytest.raises(InvalidArguments):
        Schedule(TimeTrigger(call="msg_001", armed="noon", every_s=60)).find_next_due(NOON_US)
