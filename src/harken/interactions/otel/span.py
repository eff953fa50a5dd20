"""`Span`: one operation of a session as an OpenTelemetry span.

Its ids are derived from the session and from its first event. So sending a session again produces
the same spans.

Source: OpenTelemetry specification 1.x, "Span"; `harken.formats.providers.otel_attributes` names
the attributes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import msgspec
from blake3 import blake3

Value: TypeAlias = str | int | float | bool | list[str]
TraceId: TypeAlias = bytes
"""16 bytes."""
SpanId: TypeAlias = bytes
"""8 bytes."""


class SpanContext(msgspec.Struct, frozen=True):
    """The trace id and span id of a span."""

    trace: TraceId
    span: SpanId


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """An operation with a start and an end."""

    place: SpanContext
    parent: SpanId | None = None
    """Id of the parent span in the same trace."""
    name: str
    is_client: bool = False
    """Whether the span is a call to a remote service, such as a model."""
    start_ns: int
    """Nanoseconds since 1970."""
    end_ns: int
    attributes: Mapping[str, Value]
    failed: str | None = None
    """Error on one line, or None if the operation succeeded."""


class SpanIds(msgspec.Struct, frozen=True):
    """Derives the ids of the spans of one session."""

    session: str
    began: str
    """Time of the session's first event.

    It distinguishes sessions of the same name on two machines.
    """

    def trace(self, event_id: str) -> TraceId:
        """Return the id of the trace that starts with an event."""
        return self._digest("trace", event_id)[:16]

    def span(self, kind: str, event_id: str) -> SpanId:
        """Return the id of the span of a kind that starts with an event."""
        return self._digest(kind, event_id)[:8]

    def _digest(self, *parts: str) -> bytes:
        text = "\0".join((self.session, self.began, *parts))
        return blake3(text.encode("utf-8", "surrogatepass")).digest()


class Sender(msgspec.Struct, frozen=True):
    """The service that sends spans, as backends display it."""

    version: str
    service: str = "harken"
    resource: Mapping[str, str] | None = None
    """More resource attributes."""
