"""Lists of a conversation share their elements and do not see those of each other."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harken.formats.shared_list import SharedList


class Element:
    """Elements are compared by identity."""


def make_elements(count: int) -> list[Element]:
    return [Element() for _ in range(count)]


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(min_value=0))
def test_any_lists_equal_plain_lists(seed: int) -> None:
    dice = Random(seed)
    pairs: list[tuple[SharedList[Element], list[Element]]] = [(SharedList(), [])]
    pool = make_elements(5)
    for _ in range(30):
        shared, plain = dice.choice(pairs)
        count = dice.randrange(len(plain) + 3)
        new = [dice.choice(pool) for _ in range(dice.randrange(4))]
        pairs += [
            (shared.with_end(new), plain + new),
            (shared.with_shared(count), plain),
            (shared.first(count), plain[:count]),
        ]
        pairs = pairs[-12:]
        for left, plain_left in pairs:
            assert [*left] == plain_left
            assert len(left) == len(plain_left)
            start, stop = sorted((dice.randrange(8), dice.randrange(8)))
            assert left[start:stop] == plain_left[start:stop]
            assert left[-2:] == plain_left[-2:]
            assert left[::2] == plain_left[::2]
            right, plain_right = dice.choice(pairs)
            assert left.common_length(right) == count_common(plain_left, plain_right)


def count_common(left: list[Element], right: list[Element]) -> int:
    count = 0
    while count < min(len(left), len(right)) and left[count] is right[count]:
        count += 1
    return count


def test_single_element_is_found_from_both_ends() -> None:
    first, second, third = make_elements(3)
    shared = SharedList([first, second]).with_shared(2).with_end([third])
    assert (shared[0], shared[2], shared[-1], shared[-3]) == (first, third, third, first)
    for index in (3, -4):
        with pytest.raises(IndexError):
            shared[index]


def test_list_that_grows_shares_the_elements_before() -> None:
    shared: SharedList[Element] = SharedList()
    for _ in range(10):
        longer = shared.with_end(make_elements(3)).with_shared(len(shared) + 2)
        assert longer.is_of_same_array(shared)
        assert longer.shared_count == len(shared) + 2
        shared = longer


def test_list_with_another_continuation_leaves_the_first_as_it_is() -> None:
    beginning = SharedList(make_elements(3)).with_shared(3)
    left, right = (beginning.with_end(make_elements(2)).with_shared(5) for _ in range(2))
    assert not left.is_of_same_array(right)
    assert left.common_length(right) == 3
    assert left[3:] != right[3:]


def test_short_beginning_does_not_keep_a_long_list_alive() -> None:
    long = SharedList(make_elements(100)).with_shared(100)
    assert not long.first(10).is_of_same_array(long)
    assert long.first(10)[:] == long[:10]
    assert long.first(90).is_of_same_array(long)
