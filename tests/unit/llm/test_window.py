"""A window is an unchanged prefix of a growing list."""

from __future__ import annotations

import pytest

from harken.llm.base import MessageWindow
from tests.unit.llm.model_kit import user


def test_window_does_not_contain_later_items() -> None:
    context = [user("one"), user("two")]
    window = MessageWindow(context, 2)
    context.append(user("three"))
    assert list(window) == [user("one"), user("two")]
    assert (len(window), window[-1], window[1:]) == (2, user("two"), [user("two")])


@pytest.mark.parametrize("index", [2, -3])
def test_window_rejects_an_index_outside_of_it(index: int) -> None:
    window = MessageWindow([user("one"), user("two"), user("three")], 2)
    with pytest.raises(IndexError):
        window[index]
