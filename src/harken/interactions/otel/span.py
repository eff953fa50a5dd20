"""`Span`: one thing that happened in a session, as OpenTelemetry tells it.

Its ids follow from the session and from the event with which it began. So a session that is sent
twice is the same spans twice, and none is new.

Source: OpenTelemetry specification 1.x, "Span"; `harken.formats.providers.otel_attributes` names
the attributes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from blake3 import blake3

Value: TypeAlias = str | int | float | bool | list[str]
TraceId: TypeAlias = bytes
"""16 bytes."""
SpanId: TypeAlias = bytes
"""8 bytes."""


@dataclass(frozen=True, slots=True)
class SpanContext:
    """Where a span is found: its own ids."""

    trace: TraceId
    span: SpanId


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """What happened from a beginning to an end."""

    place: SpanContext
    parent: SpanId | None = None
    """In the same trace."""
    name: str
    is_client: bool = False
    """Whether somebody else was asked: a model is."""
    start_ns: int
    """Since 1970."""
    end_ns: int
    attributes: Mapping[str, Value]
    failed: str | None = None
    """Why it failed, on one line; None: it did not."""


@dataclass(frozen=True, slots=True)
class SpanIds:
    """Gives the spans of one session their ids."""

    session: str
    began: str
    """The time of its first event: two machines may give one name to two sessions."""

    def trace(self, event_id: str) -> TraceId:
        """Return the id of the trace that begins with an event."""
        return self._digest("trace", event_id)[:16]

    def span(self, kind: str, event_id: str) -> SpanId:
        """Return the id of the span of a kind that begins with an event."""
        return self._digest(kind, event_id)[:8]

    def _digest(self, *words: str) -> bytes:
        text = "\0".join((self.session, self.began, *words))
        return blake3(text.encode("utf-8", "surrogatepass")).digest()
