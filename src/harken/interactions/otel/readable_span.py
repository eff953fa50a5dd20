"""Convert spans to `ReadableSpan`, the type that the exporter of OpenTelemetry takes.

Ids, times and attributes are passed on unchanged. The SDK is not asked for a tracer: it would give
out ids of its own, and Harken's ids make a session that is sent again the same spans.

Source: `opentelemetry.sdk.trace.ReadableSpan`, opentelemetry-sdk 1.x.
"""

from __future__ import annotations

from collections.abc import Iterable

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

from harken.formats.providers.otel_attributes import SCHEMA_URL
from harken.interactions.otel.span import Sender, Span, SpanId, TraceId


def to_readable_spans(spans: Iterable[Span], sender: Sender) -> list[ReadableSpan]:
    """Convert spans of one service."""
    attributes = {
        "service.name": sender.service,
        "service.version": sender.version,
        **(sender.resource or {}),
    }
    resource = Resource(attributes, SCHEMA_URL)
    scope = InstrumentationScope("harken", sender.version, SCHEMA_URL)
    return [_to_readable_span(span, resource, scope) for span in spans]


def _to_readable_span(span: Span, resource: Resource, scope: InstrumentationScope) -> ReadableSpan:
    trace = span.place.trace
    return ReadableSpan(
        name=span.name,
        context=_to_context(trace, span.place.span),
        parent=None if span.parent is None else _to_context(trace, span.parent),
        resource=resource,
        attributes=span.attributes,
        kind=SpanKind.CLIENT if span.is_client else SpanKind.INTERNAL,
        status=Status() if span.failed is None else Status(StatusCode.ERROR, span.failed),
        start_time=span.start_ns,
        end_time=span.end_ns,
        instrumentation_scope=scope,
    )


def _to_context(trace: TraceId, span: SpanId) -> SpanContext:
    return SpanContext(
        int.from_bytes(trace),
        int.from_bytes(span),
        is_remote=False,
        trace_flags=TraceFlags(TraceFlags.SAMPLED),
    )
