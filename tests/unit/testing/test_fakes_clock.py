"""The fake clock."""

from harken.core.clock import format_rfc3339
from harken.testing import ticking


def test_clock_starts_at_2026_and_advances_by_a_second() -> None:
    clock = ticking()
    assert [format_rfc3339(clock()) for _ in range(2)] == [
        "2026-01-01T00:00:00.000000Z",
        "2026-01-01T00:00:01.000000Z",
    ]


def test_clock_start_and_step_are_configurable() -> None:
    clock = ticking(7, step_us=-2)
    assert [clock() for _ in range(3)] == [7, 5, 3]


def test_clock_with_a_step_of_zero_stands_still() -> None:
    clock = ticking(7, step_us=0)
    assert [clock(), clock()] == [7, 7]


def test_clocks_are_independent() -> None:
    first, second = ticking(), ticking()
    first()
    assert first() > second()
