"""Records: immutable result rows that convert to JSON."""

from __future__ import annotations

from typing import Any

import msgspec


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """The base class of results of views and statistics. Times are UTC, durations in seconds."""

    def as_json(self) -> dict[str, Any]:
        """Return the members as dicts, lists and plain values."""
        members: dict[str, Any] = msgspec.to_builtins(self)
        return members


class SparseRecord(Record, frozen=True, kw_only=True, omit_defaults=True):
    """A record that omits members with default values from its JSON."""
