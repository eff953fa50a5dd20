"""Pages of lists and texts: together they are the whole, and none is long."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from harken.world.page import MAX_PAGE_CHARS, format_list_page, format_text_page


@given(
    st.lists(st.integers(min_value=1, max_value=MAX_PAGE_CHARS), max_size=30),
    st.integers(min_value=1, max_value=7),
)
def test_the_pages_of_a_list_have_each_item_once(sizes: list[int], limit: int) -> None:
    items = [f"{number}:{'x' * size}"[:MAX_PAGE_CHARS] for number, size in enumerate(sizes)]
    shown: list[str] = []
    offset = 0
    while True:
        page = format_list_page(items[offset:], offset=offset, limit=limit, total=len(items))
        assert len(page) < MAX_PAGE_CHARS + 100
        lines = page.split("\n") if page else []
        match = re.fullmatch(
            r"\((\d+) to (\d+) of \d+; continue with offset=\2\)", (lines or [""])[-1]
        )
        if match is None:
            break
        assert int(match[1]) == offset + 1
        shown += lines[:-1]
        offset = int(match[2])
    assert [*shown, *lines] == items


def test_an_item_longer_than_a_page_is_truncated() -> None:
    page = format_list_page(["x" * (MAX_PAGE_CHARS + 5), "b"], offset=0, limit=9, total=2)
    first, last = page.split("\n")
    assert first.endswith("x... (5 more characters)")
    assert last == "(1 to 1 of 2; continue with offset=1)"
    assert format_list_page(["a", "b"], offset=4, limit=1) == (
        "a\n(5 to 5; continue with offset=5)"
    )
    assert format_list_page([], offset=4, limit=1, total=2) == "(no items after 4)"
    assert format_list_page([], offset=0, limit=1, total=0) == ""


@given(st.lists(st.integers(min_value=0, max_value=3 * MAX_PAGE_CHARS), max_size=5))
def test_the_pages_of_a_text_have_each_character_once(sizes: list[int]) -> None:
    chunks = [f"{number}{'x' * size}\n" for number, size in enumerate(sizes)]
    text, offset = "", 0
    while True:
        page = format_text_page(chunks, offset=offset)
        assert len(page) < MAX_PAGE_CHARS + 100
        match = re.search(r"\n\(continue with offset=(\d+)\)\Z", page)
        if match is None:
            break
        text += page[: match.start()]
        assert int(match[1]) > offset
        offset = int(match[1])
    assert (text + page).replace("\n", "") == "".join(chunks).replace("\n", "")


def test_a_text_is_read_only_as_far_as_it_is_shown() -> None:
    def endless() -> Iterator[str]:
        while True:
            yield "line\n"

    page = format_text_page(endless(), offset=10 * MAX_PAGE_CHARS)
    assert page.endswith(f"line\n(continue with offset={11 * MAX_PAGE_CHARS})")
    assert format_text_page(["abc"], offset=3) == "(the text ends before offset=3)"
    assert format_text_page([], offset=0) == ""
