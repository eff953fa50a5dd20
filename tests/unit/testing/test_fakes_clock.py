"""The clock of the test kit."""

from harken.core.clock import format_rfc3339
from harken.testing import ticking


def test_it_begins_with_2026_and_moves_on_by_a_second() -> None:
    clock = ticking()
    assert [format_rfc3339(clock()) for _ in range(2)] == [
        "2026-01-01T00:00:00.000000Z",
        "2026-01-01T00:00:01.000000Z",
    ]


def test_start_and_step_can_be_chosen() -> None:
    clock = ticking(7, step_us=-2)
    assert [clock() for _ in range(3)] == [7, 5, 3]


def test_a_step_of_zero_is_a_clock_that_stands() -> None:
    clock = ticking(7, step_us=0)
    assert [clock(), clock()] == [7, 7]


def test_two_clocks_do_not_move_each_other() -> None:
    one, other = ticking(), ticking()
    one()
    assert one() > other()
