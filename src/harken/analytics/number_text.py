"""Numbers as people write them: 1.2 M, $0.30, 3 h 20 min. What is not known is a word, never 0."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harken.analytics.usage import UsageStats

UNKNOWN = "?"
_LARGE = ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "K"))
_IN_FULL = 10_000
_STEPS = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))
_HALF = 0.05
_LEAST_S = 0.05
_LEAST = 0.0001
_ROUND = 999.5
"""From here on three digits are a thousand."""


def number(value: float | None) -> str:
    """Return a number; from ten thousand on with a letter for thousands, millions, ...

    >>> number(9876), number(45_600), number(1_249_999), number(5_500_000_000), number(None)
    ('9,876', '45.6 K', '1.2 M', '5.5 B', '?')
    >>> number(35.512), number(0.014), number(2.0), number(999.7), number(0.00001)
    ('35.5', '0.014', '2', '1,000', '<0.0001')
    """
    if value is None:
        return UNKNOWN
    if 0 < value < _LEAST:
        return f"<{_LEAST}"
    if isinstance(value, float) and abs(value) < _ROUND:
        return f"{value:.3g}"
    if abs(value) < _IN_FULL:
        return f"{value:,.0f}"
    unit, letter = next(one for one in _LARGE if abs(value) >= one[0] - one[0] / 1000 * _HALF)
    return f"{value / unit:,.1f} {letter}"


def share(part: float, whole: float) -> str:
    """Return a part of a whole in percent.

    >>> share(1, 3), share(1, 1000), share(0, 3), share(1, 0)
    ('33 %', '<1 %', '0 %', '')
    """
    if not whole:
        return ""
    percent = 100 * part / whole
    return "<1 %" if 0 < percent < 1 else f"{percent:.0f} %"


def duration(seconds: float | None) -> str:
    """Return a duration in its two largest units.

    >>> duration(0.25), duration(59.6), duration(754), duration(12_000), duration(200_000)
    ('0.2 s', '60 s', '13 min', '3 h 20 min', '2 d 8 h')
    >>> duration(0.001), duration(0), duration(None)
    ('<0.1 s', '0 s', '?')
    """
    if seconds is None:
        return UNKNOWN
    if 0 < seconds < _LEAST_S:
        return "<0.1 s"
    if seconds < 10:
        return f"{seconds:.1f} s" if seconds % 1 else f"{seconds:.0f} s"
    unit, name = next(one for one in _STEPS if seconds >= one[0])
    if unit <= 60:
        return f"{seconds / unit:.0f} {name}"
    less, less_name = _STEPS[_STEPS.index((unit, name)) + 1]
    count, rest = divmod(round(seconds / less), unit // less)
    return f"{count} {name} {rest} {less_name}" if rest else f"{count} {name}"


def dollars(amount: float) -> str:
    """Return an amount of money.

    >>> dollars(0.0123), dollars(1.5), dollars(12_345.6), dollars(0), dollars(0.00001)
    ('$0.0123', '$1.50', '$12,346', '$0.00', '<$0.0001')
    """
    if 0 < amount < _LEAST:
        return f"<${_LEAST}"
    if amount and amount < 1:
        return f"${amount:.4f}"
    return f"${amount:,.2f}" if amount < 1000 else f"${amount:,.0f}"


def cost(cost_usd: float | None, unpriced: int) -> str:
    """Return what is known of a cost. `unpriced`: so many responses whose price nobody knows.

    >>> cost(1.5, 0), cost(1.5, 2), cost(None, 2), cost(None, 0)
    ('$1.50', '≥ $1.50', 'unknown', '')
    """
    if cost_usd is None:
        return "unknown" if unpriced else ""
    return f"≥ {dollars(cost_usd)}" if unpriced else dollars(cost_usd)


def tokens(usage: UsageStats) -> int | None:
    """Return all tokens that were read and written; None: nobody counted any."""
    return usage.total_tokens


def ratio(part: float | None, whole: float | None, digits: int = 2) -> float | None:
    """Return how much of one there is for one of the other; None: there is none of the other.

    >>> ratio(71, 2), ratio(1, 0)
    (35.5, None)
    """
    return round(part / whole, digits) if whole and part is not None else None
