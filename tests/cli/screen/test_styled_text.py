"""Styled text: rows of cells."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harken.terminal.ansi import AnsiStyler, strip_trailing_spaces
from harken.terminal.styled_text import cell_width, clean_text, shorten, truncate_line, wrap

words = st.lists(st.sampled_from(["tea", "日本", "a", "x" * 12, "🍵", "  ", "é"])).map(" ".join)


@given(st.lists(st.tuples(st.sampled_from(["", "bold"]), words)), st.integers(2, 20))
def test_rows_fit_and_lose_nothing_but_spaces(line: list[tuple[str, str]], width: int) -> None:
    rows = wrap(line, width)
    assert all(cell_width("".join(text for _, text in row)) <= width for row in rows)
    kept = "".join(text for row in rows for _, text in row)
    assert kept.replace(" ", "") == "".join(text for _, text in line).replace(" ", "")


@given(words, st.integers(1, 30))
def test_what_is_shortened_fits(text: str, width: int) -> None:
    assert cell_width(shorten(text, width)) <= width
    assert (
        cell_width("".join(part for _, part in truncate_line([("", text), ("bold", text)], width)))
        <= width
    )


def test_styles_stay_with_their_words() -> None:
    assert wrap([("red", "one two"), ("", " three")], 7) == [
        [("red", "one two")],
        [("", "three")],
    ]


def test_a_word_that_fits_into_no_row_begins_where_it_stands_and_keeps_its_indent() -> None:
    assert wrap([("", "* aaaaaaaaaa")], 8, "  ") == [[("", "* aaaaaa")], [("", "  "), ("", "aaaa")]]
    assert wrap([("", "  aaaaaaaa bb")], 8)[0] == [("", "  aaaaaa")]
    assert wrap([("", "* aa aaaaaaaaaa")], 4) == [
        *([("", row)] for row in ("* aa", "aaaa", "aaaa", "aa"))
    ]


def test_a_word_longer_than_a_row_is_broken() -> None:
    assert wrap([("", "aaaaaa b")], 4, " ") == [
        [("", "aaaa")],
        [("", " "), ("", "aa")],
        [("", " "), ("", "b")],
    ]


@pytest.mark.parametrize("hostile", ["\x1b[2J", "\x9b2J", "\r", "\x07", "\u202e", "\ud800"])
def test_nothing_that_acts_on_a_terminal_is_left(hostile: str) -> None:
    shown = clean_text(f"a{hostile}b")
    assert hostile[0] not in shown
    assert shown.isprintable()


def test_joiners_whose_width_terminals_disagree_on_are_left_out() -> None:
    assert clean_text("👨\u200d👩\ufe0f") == "👨👩"


def test_without_colour_only_weight_and_slant_are_drawn() -> None:
    assert AnsiStyler(color=False).draw([("bold red", "a"), ("green", "b")]) == "\x1b[1ma\x1b[0mb"


def test_rows_have_no_spaces_at_their_end() -> None:
    assert (
        strip_trailing_spaces("\x1b[1m a \x1b[0m  \n\x1b[2m  \x1b[0m\nb") == "\x1b[1m a\x1b[0m\n\nb"
    )
