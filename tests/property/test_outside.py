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
def test_no_line_starts_with_a_hook_marker(text: str) -> None:
    for line in escape_hook_markers(text).splitlines():
        text_ = "".join(
            c
            for c in unicodedata.normalize("NFKC", line)
            if unicodedata.category(c)[0] not in "CZM"
        )
        assert not text_.casefold().startswith("[hook")


@given(TEXTS)
def test_escaping_is_idempotent(text: str) -> None:
    once = escape_hook_markers(text)
    assert escape_hook_markers(once) == once


@given(TEXTS)
def test_escaping_only_adds_backslashes(text: str) -> None:
    escaped = escape_hook_markers(text)
    letters = iter(text)
    expected = next(letters, None)
    for letter in escaped:
        if letter == expected:
            expected = next(letters, None)
        else:
            assert letter == "\\"
    assert expected is None
