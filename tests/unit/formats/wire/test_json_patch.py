"""A form is a small patch, and is rejected if it does not match."""

from __future__ import annotations

from typing import Any

import pytest

from harken.errors import FormatError
from harken.formats.json_records import equal_json
from harken.formats.wire.json_patch import apply_form, build_form, get_manner, set_at_path

LONG = "a text that is long enough to be worth being cut into pieces " * 3


@pytest.mark.parametrize(
    ("plain", "value", "form"),
    [
        ({"a": 1}, {"a": 1}, None),
        ({"a": LONG}, {"a": LONG, "b": None}, {"change": [["set", ["b"], None]]}),
        ({"a": LONG, "b": 1}, {"a": LONG}, {"change": [["drop", ["b"]]]}),
        ([LONG, 1], [LONG, 1.0], {"change": [["set", [1], 1.0]]}),
        ([LONG, 1], [LONG, True], {"change": [["set", [1], True]]}),
        ([LONG, 0.0], [LONG, -0.0], {"change": [["set", [1], -0.0]]}),
        ([1, LONG, 3], [1, LONG], {"change": [["cut", [], 2, 3, []]]}),
        ([LONG], [0, LONG], {"change": [["cut", [], 0, 0, [0]]]}),
        ({"a": LONG}, {"a": LONG[:-1]}, {"change": [["cut", ["a"], 182, 183, ""]]}),
        (
            {"content": LONG},
            {"content": [{"type": "text", "text": LONG}]},
            {"change": [["list", ["content"], "text"]]},
        ),
        (
            {"content": [{"type": "input_text", "text": LONG}]},
            {"content": LONG},
            {"change": [["text", ["content"]]]},
        ),
        ({"a": "much that is not there"}, 1, {"whole": 1}),
    ],
)
def test_form_lists_the_changes(plain: Any, value: Any, form: Any) -> None:
    assert build_form(plain, value) == form
    assert equal_json(apply_form(plain, form), value)


def test_form_keeps_the_notation_of_the_plain_value() -> None:
    assert build_form({"a": 1}, {"a": 1}, "message") == {"as": "message"}
    assert get_manner({"as": "message"}) == "message"
    unusual: list[Any] = [None, [], {"as": 5}]
    assert [*map(get_manner, unusual)] == ["", "", ""]


def test_patched_value_is_not_modified() -> None:
    plain = {"content": [{"text": "Hi"}]}
    assert set_at_path(plain, ["content", 0, "mark"], 1) == {"content": [{"text": "Hi", "mark": 1}]}
    assert plain == {"content": [{"text": "Hi"}]}


@pytest.mark.parametrize(
    "form",
    [
        5,
        {"change": 5},
        {"change": [5]},
        {"change": [["set"]]},
        {"change": [["set", ["a", "b"], 1]]},
        {"change": [["set", [0], 1]]},
        {"change": [["drop", []]]},
        {"change": [["drop", ["b"]]]},
        {"change": [["cut", ["a"], 0, 1, 5]]},
        {"change": [["text", ["a"]]]},
    ],
)
def test_form_that_does_not_match_is_rejected(form: Any) -> None:
    with pytest.raises(FormatError):
        apply_form({"a": "Hi"}, form)


def test_deep_difference_is_replaced_as_a_whole() -> None:
    deep: Any = 1
    second: Any = 2
    for _ in range(100):
        deep, second = [deep], [second]
    assert equal_json(apply_form(deep, build_form(deep, second)), second)


def test_order_of_members_does_not_matter() -> None:
    built = {"a": LONG, "gone": 1, "lost": 2}
    value = {"a": LONG, "b": 1, "c": {"d": 1, "e": 2}}
    reordered = {"c": {"e": 2, "d": 1}, "b": 1, "a": LONG}
    form = build_form({"lost": 2, "gone": 1, "a": LONG}, reordered)
    assert form == build_form(built, value)
