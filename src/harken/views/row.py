"""A row: one thing that a view found. Frozen, and JSON as it stands."""

from __future__ import annotations

from typing import Any

import msgspec


class Row(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What every view returns; members that say nothing (absent, false) are left out of JSON."""

    def as_json(self) -> dict[str, Any]:
        """Return the row as dicts, lists and plain values."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain
