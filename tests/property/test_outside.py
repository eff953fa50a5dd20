"""Whatever a text from outside is made of: no line of it begins as a hook's comment does."""

from __future__ import annotations

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from harken.core.untrusted import escape_hook_markers

PIECES = st.sampled_from(
    [
        "[",
        "hook",
        "h",
        "ook",
        "HOOK",
        "［",
        " ",
        "\t",
        "\n",
        "\r",
        "\u2028",
        "\u200b",
        "\\",
        "x",
        "]: OK",
        "о",
        "\x00",
        "ｈ",
    ]
)
TEXTS = st.one_of(st.lists(PIECES, max_size=30).map("".join), st.text())


@given(TEXTS)
def test_no_line_begins_as_a_comment_of_a_hook(text: str) -> None:
    for line in escape_hook_markers(text).splitlines():
        seen = "".join(
            c
            for c in unicodedata.normalize("NFKC", line)
            if unicodedata.category(c)[0] not in "CZM"
        )
        assert not seen.casefold().startswith("[hook")


@given(TEXTS)
def test_a_text_that_went_through_once_stays_as_it_is(text: str) -> None:
    once = escape_hook_markers(text)
    assert escape_hook_markers(once) == once


@given(TEXTS)
def test_nothing_but_backslashes_is_added(text: str) -> None:
    made = escape_hook_markers(text)
    letters = iter(text)
    wanted = next(letters, None)
    for letter in made:
        if letter == wanted:
            wanted = next(letters, None)
        else:
            assert letter == "\\"
    assert wanted is None
