"""A row: one thing that was counted. Frozen, and JSON as it stands."""

from __future__ import annotations

from typing import Any

import msgspec


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """What every function of this layer returns. Times are UTC, durations seconds."""

    def as_json(self) -> dict[str, Any]:
        """Return the row as dicts, lists and plain values."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain


def ratio(part: float | None, whole: float | None, digits: int = 2) -> float | None:
    """Return how much of one there is for one of the other; None: there is none of the other.

    >>> ratio(71, 2), ratio(1, 0)
    (35.5, None)
    """
    return round(part / whole, digits) if whole and part is not None else None
