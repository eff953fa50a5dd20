"""Message row ids are in the order of time for any order of reading."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harken.index.row_ids import MessageIdAllocator, find_end_id, first_id, get_stretch

STRETCH_US, ROOM = 1 << 28, 1 << 12
NOON = 1_772_366_400_000_000


def empty() -> apsw.Connection:
    database = apsw.Connection(":memory:")
    database.execute("CREATE TABLE messages (id INTEGER PRIMARY KEY)")
    return database


@pytest.fixture
def database() -> Iterator[apsw.Connection]:
    with closing(empty()) as database:
        yield database


def enter(database: apsw.Connection, *times: int) -> list[int]:
    """Insert messages in one batch, as those that are read together."""
    numbers = MessageIdAllocator(database)
    row_ids = [numbers.next(time) for time in times]
    database.executemany("INSERT INTO messages VALUES (?)", [(row_id,) for row_id in row_ids])
    return row_ids


@given(st.lists(st.lists(st.integers(-(1 << 60), 1 << 60), max_size=9), max_size=5))
def test_later_message_has_a_greater_row_id(readings: list[list[int]]) -> None:
    with closing(empty()) as database:
        timed_ids = [
            pair for times in readings for pair in zip(times, enter(database, *times), strict=True)
        ]
    assert len({number for _, number in timed_ids}) == len(timed_ids)
    by_stretch = sorted(timed_ids, key=lambda timed_id: (first_id(timed_id[0]), timed_id[1]))
    assert [number for _, number in by_stretch] == sorted(number for _, number in timed_ids)


def test_row_ids_within_an_interval_are_in_reading_order(database: apsw.Connection) -> None:
    first, second = enter(database, NOON + 1, NOON)
    (third,) = enter(database, NOON)
    assert (second, third) == (first + 1, first + 2)
    assert {*map(get_stretch, (first, second, third))} == {get_stretch(first_id(NOON))}


def test_full_interval_continues_with_the_ids_of_the_next(
    database: apsw.Connection,
) -> None:
    many = enter(database, *[NOON] * (2 * ROOM + 1))
    assert many == [*range(many[0], many[0] + len(many))]
    later, earlier = enter(database, NOON + STRETCH_US, NOON)
    assert (later, earlier) == (many[-1] + 1, many[-1] + 2)


def test_upper_bound_is_after_all_messages_until_then(database: apsw.Connection) -> None:
    assert find_end_id(database, NOON) == first_id(NOON) + ROOM
    many = enter(database, *[NOON] * (ROOM + 1))
    assert first_id(NOON) + ROOM == many[-1] < find_end_id(database, NOON)


def test_messages_without_time_come_first(database: apsw.Connection) -> None:
    assert enter(database, 0, -5) == [1, 2]
