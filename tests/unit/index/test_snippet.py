"""A snippet shows the matching text with the matches of the index."""

from __future__ import annotations

import time

import pytest

from harken.index.query import parse_query
from harken.index.snippet import MAX_EXCERPT_CHARS, build_excerpt


def marked(query: str, *texts: str) -> str:
    """Return a snippet with the matches in brackets."""
    pieces = build_excerpt(texts, parse_query(query)).pieces
    return "".join(f"[{text}]" if is_found else text for text, is_found in pieces)


@pytest.mark.parametrize(
    ("query", "text", "wanted"),
    [
        ("tea", "Tea, please.", "[Tea], please."),
        ("tea", "The team has tea.", "The team has [tea]."),
        ("tea*", "The team has tea.", "The [team] has [tea]."),
        ('"green tea"', "green: tea, green", "[green: tea], green"),
        ("cafe", "In the Café.", "In the [Café]."),
        ("café", "In the cafe.", "In the [cafe]."),
        ("src/x.py", "see src/x.py:3", "see [src/x.py]:3"),
        ("snake_case", "a snake_case name", "a [snake_case] name"),
        ("茶", "お茶をどうぞ", "お[茶]をどうぞ"),
        ("お茶", "冷たいお茶を", "冷たい[お茶]を"),
        ("tea milk", "Milk and tea", "[Milk] and [tea]"),
        ("tea", "a\n\n  tea\tpot", "a [tea] pot"),
        ("nothing", "Something else.", "Something else."),
    ],
)
def test_matches_are_marked(query: str, text: str, wanted: str) -> None:
    assert marked(query, text) == wanted


def test_matching_text_is_selected() -> None:
    assert marked("tea", "Coffee.", "Tea.", "Tea again.") == "[Tea]."
    assert marked("tea", "", "Coffee.") == "Coffee."
    assert marked("tea") == ""


def test_long_text_is_truncated_on_both_sides() -> None:
    shown = marked("needle", "hay " * 1000 + "needle" + " hay" * 1000)
    assert shown.startswith("… hay")
    assert "[needle]" in shown
    assert shown.endswith("hay …")
    assert len(shown) < MAX_EXCERPT_CHARS + 20


def test_ellipses_show_the_position_in_the_text() -> None:
    found = build_excerpt(["On the  table: tea and TEA"], parse_query("tea"))
    assert [found.text[begin:end] for begin, end in found.match_spans] == ["tea", "TEA"]


def test_text_of_megabytes_is_fast() -> None:
    text = "tearoom steal teal " * 100_000 + "tea"
    begin = time.process_time()
    assert "[tea]" in marked("tea", text)
    assert time.process_time() - begin < 1


def test_characters_with_length_changing_case_are_truncated_correctly() -> None:
    assert marked("tea", "İİİ tea") == "İİİ [tea]"
