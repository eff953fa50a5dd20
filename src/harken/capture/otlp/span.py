"""`ReceivedSpan` and `SpanEvent`: a span of a program, and an event within it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec

Attributes: TypeAlias = Mapping[str, Any]
"""Names and JSON values."""
SpanId: TypeAlias = tuple[str, str]
"""The ids of the trace and the span, in hexadecimal digits."""


class SpanEvent(msgspec.Struct, frozen=True):
    """An event of a span, or a log record that refers to one."""

    name: str
    attributes: Attributes
    """The attributes, including the members of the body if it is an object."""
    time_ns: int = 0


class ReceivedSpan(msgspec.Struct, frozen=True, kw_only=True):
    """One operation of a program."""

    id: SpanId
    parent: SpanId | None = None
    name: str
    start_ns: int
    """Nanoseconds since 1970 in UTC."""
    end_ns: int
    attributes: Attributes
    events: tuple[SpanEvent, ...] = ()
    failed: str | None = None
    """The error message, on one line, may be empty. None if the operation did not fail."""
    program: str = ""
    """The program: `service.name`."""
