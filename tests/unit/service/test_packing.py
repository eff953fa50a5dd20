"""Packed values are unpacked as they were, and what they repeat is stored once."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from harken.core import canonical
from harken.service.viewer.shared.packing import MIN_TEXT_CHARS, Packer
from tests.web_contents import unpack

LEAVES = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=40)
VALUES = st.recursive(
    LEAVES | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: (
        st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=30,
)


def pack(value: Any) -> dict[str, Any]:
    """Return a packed value as a file has it."""
    packer = Packer()
    packed: dict[str, Any] = json.loads(canonical.to_json_line(packer.as_json(packer.pack(value))))
    return packed


@given(VALUES)
def test_a_value_is_unpacked_as_it_was(value: Any) -> None:
    document = pack(value)
    assert unpack(document, document["root"]) == value


def test_values_that_are_equal_in_python_only_stay_apart() -> None:
    value = [{"a": True}, {"a": 1}, {"a": 1.0}, {"a": False}, {"a": 0}, {"a": None}]
    document = pack(value)
    assert repr(unpack(document, document["root"])) == repr(value)


def test_an_object_without_members_is_a_row_like_others() -> None:
    value: list[Any] = [{}, {"a": {}}, {}]
    document = pack(value)
    assert unpack(document, document["root"]) == value


def test_a_list_that_grows_is_a_range_each_time() -> None:
    rows = [{"text": f"message {number} " + "x" * 200} for number in range(300)]
    growing = [{"messages": rows[:count]} for count in range(300)]
    document = pack(growing)
    assert unpack(document, document["root"]) == growing
    assert len(json.dumps(document)) < 2 * len(json.dumps(rows))


def test_a_text_is_stored_once() -> None:
    text = "y" * MIN_TEXT_CHARS
    document = pack([text, {"a": text}, {"b": [text]}])
    assert document["texts"] == [text]
