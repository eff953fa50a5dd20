"""A window shows the beginning of a list, whatever is added to the list."""

from __future__ import annotations

import pytest

from harken.llm.base import MessageWindow
from tests.unit.llm.asking import user


def test_a_window_does_not_see_what_is_added() -> None:
    context = [user("one"), user("two")]
    window = MessageWindow(context, 2)
    context.append(user("three"))
    assert list(window) == [user("one"), user("two")]
    assert (len(window), window[-1], window[1:]) == (2, user("two"), [user("two")])


@pytest.mark.parametrize("at", [2, -3])
def test_a_window_has_nothing_outside(at: int) -> None:
    window = MessageWindow([user("one"), user("two"), user("three")], 2)
    with pytest.raises(IndexError):
        window[at]
