"""Format numbers for people: 1.2 M, $0.30, 3 h 20 min. Unknown values are a word, never 0."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harken.analytics.usage import UsageStats

UNKNOWN = "?"
_NUMBER_UNITS = ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "K"))
_MAX_FULL_NUMBER = 10_000
_TIME_UNITS = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))
_HALF = 0.05
_MIN_DURATION_S = 0.05
_MIN_NUMBER = 0.0001
_MIN_THOUSAND = 999.5
"""From this value on, three significant digits round to a thousand."""


def format_number(value: float | None) -> str:
    """Format a number; from ten thousand on with a letter for thousands, millions and so on.

    >>> (
    ...     format_number(9876),
    ...     format_number(45_600),
    ...     format_number(1_249_999),
    ...     format_number(5_500_000_000),
    ...     format_number(None),
    ... )
    ('9,876', '45.6 K', '1.2 M', '5.5 B', '?')
    >>> (
    ...     format_number(35.512),
    ...     format_number(0.014),
    ...     format_number(2.0),
    ...     format_number(999.7),
    ...     format_number(0.00001),
    ... )
    ('35.5', '0.014', '2', '1,000', '<0.0001')
    """
    if value is None:
        return UNKNOWN
    if 0 < value < _MIN_NUMBER:
        return f"<{_MIN_NUMBER}"
    if isinstance(value, float) and abs(value) < _MIN_THOUSAND:
        return f"{value:.3g}"
    if abs(value) < _MAX_FULL_NUMBER:
        return f"{value:,.0f}"
    unit, letter = next(
        scale for scale in _NUMBER_UNITS if abs(value) >= scale[0] - scale[0] / 1000 * _HALF
    )
    return f"{value / unit:,.1f} {letter}"


def format_percent(part: float, whole: float) -> str:
    """Format a ratio as a percentage.

    >>> format_percent(1, 3), format_percent(1, 1000), format_percent(0, 3), format_percent(1, 0)
    ('33 %', '<1 %', '0 %', '')
    """
    if not whole:
        return ""
    percent = 100 * part / whole
    return "<1 %" if 0 < percent < 1 else f"{percent:.0f} %"


def format_duration(seconds: float | None) -> str:
    """Format a duration in its two largest units.

    >>> (
    ...     format_duration(0.25),
    ...     format_duration(59.6),
    ...     format_duration(754),
    ...     format_duration(12_000),
    ...     format_duration(200_000),
    ... )
    ('0.2 s', '60 s', '13 min', '3 h 20 min', '2 d 8 h')
    >>> format_duration(0.001), format_duration(0), format_duration(None)
    ('<0.1 s', '0 s', '?')
    """
    if seconds is None:
        return UNKNOWN
    if 0 < seconds < _MIN_DURATION_S:
        return "<0.1 s"
    if seconds < 10:
        return f"{seconds:.1f} s" if seconds % 1 else f"{seconds:.0f} s"
    unit, name = next(time_unit for time_unit in _TIME_UNITS if seconds >= time_unit[0])
    if unit <= 60:
        return f"{seconds / unit:.0f} {name}"
    smaller, smaller_name = _TIME_UNITS[_TIME_UNITS.index((unit, name)) + 1]
    count, remainder = divmod(round(seconds / smaller), unit // smaller)
    return f"{count} {name} {remainder} {smaller_name}" if remainder else f"{count} {name}"


def format_dollars(amount: float) -> str:
    """Format an amount of money.

    >>> (
    ...     format_dollars(0.0123),
    ...     format_dollars(1.5),
    ...     format_dollars(12_345.6),
    ...     format_dollars(0),
    ...     format_dollars(0.00001),
    ... )
    ('$0.0123', '$1.50', '$12,346', '$0.00', '<$0.0001')
    """
    if 0 < amount < _MIN_NUMBER:
        return f"<${_MIN_NUMBER}"
    if amount and amount < 1:
        return f"${amount:.4f}"
    return f"${amount:,.2f}" if amount < 1000 else f"${amount:,.0f}"


def format_cost(cost_usd: float | None, unpriced: int) -> str:
    """Format a cost. `unpriced` is the number of responses with an unknown price.

    >>> format_cost(1.5, 0), format_cost(1.5, 2), format_cost(None, 2), format_cost(None, 0)
    ('$1.50', '≥ $1.50', 'unknown', '')
    """
    if cost_usd is None:
        return "unknown" if unpriced else ""
    return f"≥ {format_dollars(cost_usd)}" if unpriced else format_dollars(cost_usd)


def count_tokens(usage: UsageStats) -> int | None:
    """Return the number of input and output tokens, or None if no count is known."""
    return usage.total_tokens


def compute_ratio(part: float | None, whole: float | None, digits: int = 2) -> float | None:
    """Return a rounded quotient, or None if the divisor is zero or unknown.

    >>> compute_ratio(71, 2), compute_ratio(1, 0)
    (35.5, None)
    """
    return round(part / whole, digits) if whole and part is not None else None
