"""A snippet shows the matching text with the matches of the index."""

from __future__ import annotations

import time

import pytest

from harken.index.query import parse_query
from harken.index.snippet import MAX_EXCERPT_CHARS, build_excerpt


def mark_excerpt(query: str, *texts: str) -> str:
    """Return a snippet with the matches in brackets."""
    pieces = build_excerpt(texts, parse_query(query)).pieces
    return "".join(f"[{text}]" if is_found else text for text, is_found in pieces)


@pytest.mark.parametrize(
    ("query", "text", "expected"),
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
def test_matches_are_marked(query: str, text: str, expected: str) -> None:
    assert mark_excerpt(query, text) == expected


def test_matching_text_is_selected() -> None:
    assert mark_excerpt("tea", "Coffee.", "Tea.", "Tea again.") == "[Tea]."
    assert mark_excerpt("tea", "", "Coffee.") == "Coffee."
    assert mark_excerpt("tea") == ""


def test_long_text_is_truncated_on_both_sides() -> None:
    marked_text = mark_excerpt("needle", "hay " * 1000 + "needle" + " hay" * 1000)
    assert marked_text.startswith("… hay")
    assert "[needle]" in marked_text
    assert marked_text.endswith("hay …")
    assert len(marked_text) < MAX_EXCERPT_CHARS + 20


def test_ellipses_show_the_position_in_the_text() -> None:
    excerpt = build_excerpt(["On the  table: tea and TEA"], parse_query("tea"))
    assert [excerpt.text[begin:end] for begin, end in excerpt.match_spans] == ["tea", "TEA"]


def test_text_of_megabytes_is_fast() -> None:
    text = "tearoom steal teal " * 100_000 + "tea"
    begin = time.process_time()
    assert "[tea]" in mark_excerpt("tea", text)
    assert time.process_time() - begin < 1


def test_characters_with_length_changing_case_are_truncated_correctly() -> None:
    assert mark_excerpt("tea", "İİİ tea") == "İİİ [tea]"
