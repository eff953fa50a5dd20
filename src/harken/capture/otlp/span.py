"""`ReceivedSpan`, and what was logged within it: what a program said of one thing that it did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

Attributes: TypeAlias = Mapping[str, Any]
"""Names and JSON values."""
SpanId: TypeAlias = tuple[str, str]
"""Trace and span, in hexadecimal digits."""


@dataclass(frozen=True, slots=True)
class SpanEvent:
    """An event: of a span, or a record of a log that names one."""

    name: str
    attributes: Attributes
    """Where it had a body that is an object, also the members of that."""
    time_ns: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedSpan:
    """One thing that a program did."""

    id: SpanId
    parent: SpanId | None = None
    name: str
    start_ns: int
    """Since 1970 in UTC."""
    end_ns: int
    attributes: Attributes
    events: tuple[SpanEvent, ...] = ()
    failed: str | None = None
    """Why it failed, on one line, maybe empty; None: it did not."""
    program: str = ""
    """`service.name`: what its program calls itself."""
