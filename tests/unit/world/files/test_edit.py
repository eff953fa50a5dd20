"""An edit of bytes: exactly what was meant, or a reason that helps."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harken.world.files.edit import apply_edit
from harken.world.result import ToolError


def why_not(data: bytes, old: str, new: str = "new") -> str:
    with pytest.raises(ToolError) as raised:
        apply_edit(data, old, new)
    return str(raised.value)


def test_one_text_gives_way_to_another() -> None:
    done = apply_edit(b"a\nb\nc\n", "b", "B\nB")
    assert (done.data, done.count, done.lines) == (b"a\nB\nB\nc\n", 1, [2])


def test_all_are_replaced_where_that_is_wanted() -> None:
    done = apply_edit(b"x\nx x\n", "x", "yy", replace_all=True)
    assert (done.data, done.count, done.lines) == (b"yy\nyy yy\n", 3, [1, 2, 2])
    assert apply_edit(b"x" * 100, "x", "", replace_all=True).lines == []


def test_several_places_are_named_and_nothing_is_done() -> None:
    assert "2 times in the file, at lines 1, 3" in why_not(b"x\ny\nx\n", "x")
    assert "at lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, ..." in why_not(b"x\n" * 50, "x")


def test_nothing_to_do_is_a_mistake() -> None:
    assert "old_string is empty" in why_not(b"x", "")
    assert "are equal" in why_not(b"x", "x", "x")
    assert "lone surrogate" in why_not(b"x", "x", "\ud800")


def test_white_space_that_differs_is_shown() -> None:
    text = why_not(b"def f():\n\treturn 1\n", "def f():\n    return 1")
    assert r'Only whitespace differs from line 1, which is "def f():\n\treturn 1"' in text


def test_line_numbers_that_were_copied_are_seen_through() -> None:
    assert "starts with line numbers" in why_not(b"a\nb\n", "     1\ta\n     2\tb")


def test_the_most_similar_line_is_named() -> None:
    text = why_not(b"import os\ndef compute(a, b):\n", "def compute(a, c):")
    assert 'The most similar is line 2: "def compute(a, b):"' in text


def test_where_nothing_is_similar_it_says_to_read_again() -> None:
    assert why_not(b"a\nb\n", "entirely different").endswith("in the file: read the file again")
    assert why_not(b"", "\n\n").endswith("read the file again")


def test_line_ends_of_a_file_stay_what_they_are() -> None:
    assert apply_edit(b"a\r\nb\r\nc\r\n", "a\nb", "A\nX\nB").data == b"A\r\nX\r\nB\r\nc\r\n"
    assert apply_edit(b"a\r\nb\r\n", "b", "b\nc").data == b"a\r\nb\r\nc\r\n"
    assert apply_edit(b"a\r\nb\r\n", "a\r\nb", "x\ny").data == b"x\ny\r\n"


def test_of_mixed_line_ends_those_of_the_old_text_count() -> None:
    mixed = b"a\r\nb\r\nc\nd\n"
    assert apply_edit(mixed, "a\nb", "A\nB").data == b"A\r\nB\r\nc\nd\n"
    assert apply_edit(mixed, "c\nd", "C\nD").data == b"a\r\nb\r\nC\nD\n"


def test_what_would_be_far_too_large_is_not_made() -> None:
    with pytest.raises(ToolError, match=r"too large: 10\.0 TB"):
        apply_edit(b"x" * 5_000_000, "x", "y" * 2_000_000, replace_all=True)


def test_bytes_that_are_not_touched_stay_what_they_were() -> None:
    data = b"\xef\xbb\xbfcaf\xe9 \xff\nx = 1\n\0"
    assert apply_edit(data, "x = 1", "x = 2").data == b"\xef\xbb\xbfcaf\xe9 \xff\nx = 2\n\0"


LINES = st.lists(st.binary(max_size=6).filter(lambda line: b"\r" not in line), max_size=6)


@given(before=LINES, after=LINES, end=st.sampled_from([b"\n", b"\r\n"]))
def test_whatever_stands_around_an_edit_is_kept(
    before: list[bytes], after: list[bytes], end: bytes
) -> None:
    around = [b"".join(line.replace(b"\n", b"") + end for line in part) for part in (before, after)]
    data = around[0] + b"old: here" + end + around[1]
    done = apply_edit(data, "old: here", "one\ntwo").data
    assert done == around[0] + b"one" + end + b"two" + end + around[1]
