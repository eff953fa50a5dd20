"""Convert styled text to ANSI escape codes. No other module writes escape codes.

Only the sixteen colors that every theme defines: readable on light and dark. Without color
(`NO_COLOR`) bold, dim and italic stay.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

import msgspec

from harken.terminal.styled_text import Span

_STYLE_CODES = {"bold": "1", "dim": "2", "italic": "3", "underline": "4", "reverse": "7"}
_COLOR_CODES = {
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "magenta": "35",
    "cyan": "36",
}
_TRAILING_PATTERN = re.compile(r"(?: |\x1b\[[0-9;]*m)+$", re.MULTILINE)


class AnsiStyler(msgspec.Struct, frozen=True):
    """Formats styled text for a terminal."""

    color: bool = True

    def draw(self, line: Iterable[Span]) -> str:
        r"""Return a line with escape codes around its styled spans.

        >>> AnsiStyler().draw([("bold", "a"), ("", "b")])
        '\x1b[1ma\x1b[0mb'
        """
        return "".join(self._span(style, text) for style, text in line)

    def _span(self, style: str, text: str) -> str:
        codes = _codes(style, colour=self.color) if style else ""
        return f"\x1b[{codes}m{text}\x1b[0m" if codes and text else text


@cache
def _codes(style: str, *, colour: bool) -> str:
    """Return the codes of a style. Unknown words are ignored."""
    codes_by_word = {**_STYLE_CODES, **_COLOR_CODES} if colour else _STYLE_CODES
    return ";".join(codes_by_word[word] for word in style.split() if word in codes_by_word)


def strip_trailing_spaces(drawn: str) -> str:
    r"""Return rows without trailing spaces, which would be copied, and wrap.

    >>> strip_trailing_spaces("a \x1b[1m \x1b[0m\nb ")
    'a\x1b[0m\nb'
    """
    return _TRAILING_PATTERN.sub(_reset, drawn)


def _reset(match: re.Match[str]) -> str:
    """Return the code that ends a style, or nothing on a row without text."""
    begins_row = match.start() == 0 or match.string[match.start() - 1] == "\n"
    return "\x1b[0m" if "\x1b" in match[0] and not begins_row else ""
