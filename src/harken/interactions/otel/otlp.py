"""Encode spans as an OTLP/HTTP request in protobuf or JSON, and decode the response.

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
_KIND_INTERNAL, _KIND_CLIENT = 1, 3
_STATUS_ERROR = 2
_FLAG_SAMPLED = 1
_ID_MEMBERS = ("traceId", "spanId", "parentSpanId")


@dataclass(frozen=True, slots=True)
class ExportResult:
    """The response to an OTLP request."""

    rejected: int = 0
    message: str = ""


@dataclass(frozen=True, slots=True)
class Sender:
    """The service that sends spans, as backends display it."""

    version: str
    service: str = "harken"
    resource: Mapping[str, str] | None = None
    """More resource attributes."""


def check_installed() -> None:
    """Check that the optional dependency is installed. Raises ConfigError if it is not."""
    try:
        import_module("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
    except ImportError:
        raise ConfigError(
            "sending spans needs opentelemetry-proto, which is not installed: "
            "pip install 'harken[otel]'"
        ) from None


def encode_request(spans: Sequence[Span], sender: Sender, content_type: str) -> bytes:
    """Encode the body of a request to `/v1/traces`."""
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
    resource_spans.resource.attributes.extend(_encode_attributes(resource, common))
    scope_spans = resource_spans.scope_spans.add(schema_url=otel_attributes.SCHEMA_URL)
    scope_spans.scope.CopyFrom(common.InstrumentationScope(**scope))
    scope_spans.spans.extend(_encode_span(span, kinds, common) for span in spans)
    if content_type == PROTOBUF:
        return bytes(request.SerializeToString())
    json_format = import_module("google.protobuf.json_format")
    document = json_format.MessageToDict(request, use_integers_for_enums=True)
    for span in document["resourceSpans"][0]["scopeSpans"][0].get("spans", ()):
        for name in _ID_MEMBERS:
            if name in span:
                span[name] = base64.b64decode(span[name]).hex()
    return canonical.to_json_line(document)


def decode_response(body: bytes, content_type: str) -> ExportResult:
    """Decode a response. An empty or unreadable one means that all spans were accepted."""
    try:
        if content_type == JSON:
            document = canonical.from_json(body or b"{}")
            partial = document.get("partialSuccess") or {}
            rejected, message = partial.get("rejectedSpans") or 0, partial.get("errorMessage") or ""
        else:
            service = import_module("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
            response = service.ExportTraceServiceResponse.FromString(body)
            rejected = response.partial_success.rejected_spans
            message = response.partial_success.error_message
        return ExportResult(max(int(rejected), 0), " ".join(str(message).split())[:300])
    except Exception:  # noqa: BLE001 - protobuf raises various types; the request was accepted
        return ExportResult()


def _encode_span(span: Span, kinds: Any, common: Any) -> Any:
    encoded = kinds.Span(
        trace_id=span.place.trace,
        span_id=span.place.span,
        parent_span_id=span.parent or b"",
        flags=_FLAG_SAMPLED,
        name=span.name,
        kind=_KIND_CLIENT if span.is_client else _KIND_INTERNAL,
        start_time_unix_nano=span.start_ns,
        end_time_unix_nano=span.end_ns,
        attributes=_encode_attributes(span.attributes, common),
    )
    if span.failed is not None:
        encoded.status.code, encoded.status.message = _STATUS_ERROR, span.failed
    return encoded


def _encode_attributes(attributes: Mapping[str, Value], common: Any) -> list[Any]:
    return [
        common.KeyValue(key=name, value=_encode_value(value, common))
        for name, value in attributes.items()
    ]


def _encode_value(value: Value, common: Any) -> Any:
    match value:
        case bool():
            return common.AnyValue(bool_value=value)
        case str():
            return common.AnyValue(string_value=value)
        case int():
            return common.AnyValue(int_value=value)
        case float():
            return common.AnyValue(double_value=value)
    values = [common.AnyValue(string_value=item) for item in value]
    return common.AnyValue(array_value=common.ArrayValue(values=values))
