"""Draw numbers with characters, for terminals with or without colors and block characters."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec


class Sparkline(msgspec.Struct, frozen=True):
    """The characters for increasing values. The first one means zero."""

    heights: str
    shades: str
    bar: str

    def line(self, values: Sequence[float], full: float | None = None) -> str:
        """Return a character for each value. `full`: the maximum, by default the largest value.

        A value above zero never gets the character for zero.

        >>> UNICODE_SPARKLINE.line([0, 1, 4, 8])
        ' ▁▄█'
        """
        return "".join(_character_for(self.heights, value, full or max(values)) for value in values)

    def shade(self, value: float, full: float) -> str:
        """Return a shade from the root of a value, so that a single peak does not hide others.

        >>> (
        ...     ASCII_SPARKLINE.shade(0, 9),
        ...     ASCII_SPARKLINE.shade(0.1, 9),
        ...     ASCII_SPARKLINE.shade(3, 9),
        ...     ASCII_SPARKLINE.shade(9, 9),
        ... )
        ('.', ':', '+', '#')
        """
        return _character_for(self.shades, math.sqrt(value), math.sqrt(full))

    def length(self, value: float, full: float, width: int) -> str:
        """Return a bar proportional to a value, with at most this many characters.

        >>> (
        ...     ASCII_SPARKLINE.length(5, 10, 8),
        ...     ASCII_SPARKLINE.length(1, 1000, 8),
        ...     ASCII_SPARKLINE.length(0, 10, 8),
        ... )
        ('====', '=', '')
        """
        return self.bar * (max(1, round(width * value / full)) if value else 0)


UNICODE_SPARKLINE = Sparkline(" ▁▂▃▄▅▆▇█", "·░▒▓█", "█")
ASCII_SPARKLINE = Sparkline(" _.-=+*%#", ".:+*#", "=")


def choose_sparkline(encoding: str | None) -> Sparkline:
    """Return the characters that a terminal or file with this encoding can represent."""
    is_wide = (encoding or "").lower().replace("-", "").startswith("utf")
    return UNICODE_SPARKLINE if is_wide else ASCII_SPARKLINE


def fit_to_width(values: Sequence[float], width: int) -> list[float]:
    """Return at most `width` values: each the sum of the same number of neighbors.

    >>> fit_to_width([1, 2, 3, 4, 5], 3), fit_to_width([1, 2], 3)
    ([3, 7, 5], [1, 2])
    """
    step = -(-len(values) // max(width, 1)) or 1
    return [sum(values[start : start + step]) for start in range(0, len(values), step)]


def _character_for(letters: str, value: float, full: float) -> str:
    if value <= 0 or full <= 0:
        return letters[0]
    last = len(letters) - 1
    return letters[min(max(round(last * value / full), 1), last)]
