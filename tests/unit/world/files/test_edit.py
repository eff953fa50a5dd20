"""Editing of bytes: the exact replacement, or an error with the probable cause."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harken.world.files.edit import apply_edit
from harken.world.result import ToolError


def edit_error(data: bytes, old: str, new: str = "new") -> str:
    with pytest.raises(ToolError) as raised:
        apply_edit(data, old, new)
    return str(raised.value)


def test_edit_replaces_one_occurrence() -> None:
    result = apply_edit(b"a\nb\nc\n", "b", "B\nB")
    assert (result.data, result.count, result.lines) == (b"a\nB\nB\nc\n", 1, [2])


def test_edit_replaces_all_occurrences_if_requested() -> None:
    result = apply_edit(b"x\nx x\n", "x", "yy", replace_all=True)
    assert (result.data, result.count, result.lines) == (b"yy\nyy yy\n", 3, [1, 2, 2])
    assert apply_edit(b"x" * 100, "x", "", replace_all=True).lines == []


def test_several_occurrences_are_listed_and_nothing_is_changed() -> None:
    assert "2 times in the file, at lines 1, 3" in edit_error(b"x\ny\nx\n", "x")
    assert "at lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, ..." in edit_error(b"x\n" * 50, "x")


def test_edit_without_effect_is_an_error() -> None:
    assert "old_string is empty" in edit_error(b"x", "")
    assert "are equal" in edit_error(b"x", "x", "x")
    assert "lone surrogate" in edit_error(b"x", "x", "\ud800")


def test_white_space_difference_is_shown() -> None:
    text = edit_error(b"def f():\n\treturn 1\n", "def f():\n    return 1")
    assert r'Only whitespace differs from line 1, which is "def f():\n\treturn 1"' in text


def test_copied_line_numbers_are_recognized() -> None:
    assert "starts with line numbers" in edit_error(b"a\nb\n", "     1\ta\n     2\tb")


def test_most_similar_line_is_shown() -> None:
    text = edit_error(b"import os\ndef compute(a, b):\n", "def compute(a, c):")
    assert 'The most similar is line 2: "def compute(a, b):"' in text


def test_error_without_similar_line_advises_to_read_again() -> None:
    assert edit_error(b"a\nb\n", "entirely different").endswith("in the file: read the file again")
    assert edit_error(b"", "\n\n").endswith("read the file again")


def test_edit_keeps_the_line_ends_of_a_file() -> None:
    assert apply_edit(b"a\r\nb\r\nc\r\n", "a\nb", "A\nX\nB").data == b"A\r\nX\r\nB\r\nc\r\n"
    assert apply_edit(b"a\r\nb\r\n", "b", "b\nc").data == b"a\r\nb\r\nc\r\n"
    assert apply_edit(b"a\r\nb\r\n", "a\r\nb", "x\ny").data == b"x\ny\r\n"


def test_edit_with_mixed_line_ends_uses_those_of_the_old_text() -> None:
    mixed = b"a\r\nb\r\nc\nd\n"
    assert apply_edit(mixed, "a\nb", "A\nB").data == b"A\r\nB\r\nc\nd\n"
    assert apply_edit(mixed, "c\nd", "C\nD").data == b"a\r\nb\r\nC\nD\n"


def test_edit_above_the_size_limit_is_rejected() -> None:
    with pytest.raises(ToolError, match=r"too large: 10\.0 TB"):
        apply_edit(b"x" * 5_000_000, "x", "y" * 2_000_000, replace_all=True)


def test_edit_keeps_all_other_bytes() -> None:
    data = b"\xef\xbb\xbfcaf\xe9 \xff\nx = 1\n\0"
    assert apply_edit(data, "x = 1", "x = 2").data == b"\xef\xbb\xbfcaf\xe9 \xff\nx = 2\n\0"


LINES = st.lists(st.binary(max_size=6).filter(lambda line: b"\r" not in line), max_size=6)


@given(before=LINES, after=LINES, end=st.sampled_from([b"\n", b"\r\n"]))
def test_edit_keeps_any_surrounding_text(
    before: list[bytes], after: list[bytes], end: bytes
) -> None:
    around = [b"".join(line.replace(b"\n", b"") + end for line in part) for part in (before, after)]
    data = around[0] + b"old: here" + end + around[1]
    result = apply_edit(data, "old: here", "one\ntwo").data
    assert result == around[0] + b"one" + end + b"two" + end + around[1]
