"""Spans as a request of OTLP/HTTP, in either of its two forms, and what is answered to it.

Source: opentelemetry-proto 1.x, `trace.proto`, `trace_service.proto`; the specification of OTLP
1.x, "JSON Protobuf Encoding": ids are hexadecimal there, enumerations numbers.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from harken.core import canonical
from harken.errors import ConfigError
from harken.formats.providers import otel_attributes
from harken.interactions.otel.span import Span, Value

PROTOBUF, JSON = "application/x-protobuf", "application/json"
_INTERNAL, _CLIENT = 1, 3
_ERROR = 2
_SAMPLED = 1
_IDS = ("traceId", "spanId", "parentSpanId")


@dataclass(frozen=True, slots=True)
class ExportResult:
    """What somebody said who took a request."""

    rejected: int = 0
    message: str = ""


@dataclass(frozen=True, slots=True)
class Sender:
    """Who sends spans, as backends show it."""

    version: str
    service: str = "harken"
    resource: Mapping[str, str] | None = None
    """More that is said of it."""


def load() -> None:
    """See that what it takes is installed. Raises ConfigError that names the extra."""
    try:
        import_module("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
    except ImportError:
        raise ConfigError(
            "sending spans needs opentelemetry-proto, which is not installed: "
            "pip install 'harken[otel]'"
        ) from None


def request_of(spans: Sequence[Span], sender: Sender, content_type: str) -> bytes:
    """Return the body of a request to `/v1/traces`."""
    resource = {
        "service.name": sender.service,
        "service.version": sender.version,
        **(sender.resource or {}),
    }
    scope = {"name": "harken", "version": sender.version}
    kinds = import_module("opentelemetry.proto.trace.v1.trace_pb2")
    common = import_module("opentelemetry.proto.common.v1.common_pb2")
    service = import_module("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
    request = service.ExportTraceServiceRequest()
    resource_spans = request.resource_spans.add(schema_url=otel_attributes.SCHEMA_URL)
    resource_spans.resource.attributes.extend(_pairs(resource, common))
    scope_spans = resource_spans.scope_spans.add(schema_url=otel_attributes.SCHEMA_URL)
    scope_spans.scope.CopyFrom(common.InstrumentationScope(**scope))
    scope_spans.spans.extend(_span(span, kinds, common) for span in spans)
    if content_type == PROTOBUF:
        return bytes(request.SerializeToString())
    json_format = import_module("google.protobuf.json_format")
    told = json_format.MessageToDict(request, use_integers_for_enums=True)
    for span in told["resourceSpans"][0]["scopeSpans"][0].get("spans", ()):
        for name in _IDS:
            if name in span:
                span[name] = base64.b64decode(span[name]).hex()
    return canonical.to_json_line(told)


def taken_in(body: bytes, content_type: str) -> ExportResult:
    """Return what an answer says; one that says nothing, or cannot be read, took all."""
    try:
        if content_type == JSON:
            said = canonical.from_json(body or b"{}")
            partial = said.get("partialSuccess") or {}
            rejected, message = partial.get("rejectedSpans") or 0, partial.get("errorMessage") or ""
        else:
            service = import_module("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
            answer = service.ExportTraceServiceResponse.FromString(body)
            rejected = answer.partial_success.rejected_spans
            message = answer.partial_success.error_message
        return ExportResult(max(int(rejected), 0), " ".join(str(message).split())[:300])
    except Exception:  # noqa: BLE001 - protobuf's readers raise what they like, and it was taken
        return ExportResult()


def _span(span: Span, kinds: Any, common: Any) -> Any:
    made = kinds.Span(
        trace_id=span.place.trace,
        span_id=span.place.span,
        parent_span_id=span.parent or b"",
        flags=_SAMPLED,
        name=span.name,
        kind=_CLIENT if span.is_client else _INTERNAL,
        start_time_unix_nano=span.start_ns,
        end_time_unix_nano=span.end_ns,
        attributes=_pairs(span.attributes, common),
    )
    if span.failed is not None:
        made.status.code, made.status.message = _ERROR, span.failed
    return made


def _pairs(attributes: Mapping[str, Value], common: Any) -> list[Any]:
    return [common.KeyValue(key=k, value=_value(v, common)) for k, v in attributes.items()]


def _value(value: Value, common: Any) -> Any:
    match value:
        case bool():
            return common.AnyValue(bool_value=value)
        case str():
            return common.AnyValue(string_value=value)
        case int():
            return common.AnyValue(int_value=value)
        case float():
            return common.AnyValue(double_value=value)
    values = [common.AnyValue(string_value=one) for one in value]
    return common.AnyValue(array_value=common.ArrayValue(values=values))
