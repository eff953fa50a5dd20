"""Decode OTLP/HTTP requests, in protobuf or JSON, into spans and log records.

The JSON form is that of protobuf, except for ids, which are hexadecimal. So JSON is converted to
protobuf first, and there is one reader. The input is untrusted: invalid spans are counted, and an
invalid body is rejected.

Source: opentelemetry-proto 1.x, `trace.proto`, `logs.proto`, `common.proto`; the specification of
OTLP 1.x, "OTLP/HTTP".
"""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable, Iterator, Mapping, MutableSequence
from importlib import import_module
from typing import Any

import msgspec

from harken.capture.otlp.span import ReceivedSpan, SpanEvent, SpanId
from harken.core import canonical
from harken.core.secrets.redaction import Credentials
from harken.errors import ConfigError, FormatError
from harken.formats.providers.otel_messages import join_members, parse_attribute_value

FORMAT_NAME = "otlp"
PROTOBUF, JSON = "application/x-protobuf", "application/json"
_IDS = frozenset({"traceId", "spanId", "parentSpanId", "trace_id", "span_id", "parent_span_id"})
_MAX_DEPTH = 32
_STATUS_ERROR = 2
"""`STATUS_CODE_ERROR`."""
_MAX_REASON_CHARS = 300


class DecodedRequest(msgspec.Struct):
    """The content of a request."""

    spans: list[ReceivedSpan] = msgspec.field(default_factory=list)
    logged: list[tuple[SpanId, SpanEvent]] = msgspec.field(default_factory=list)
    """Events that were sent separately from their spans."""
    refused: int = 0
    """The number of spans without an id or a time."""


def check_installed() -> None:
    """Check that the protobuf package is installed. Raises ConfigError that names the extra."""
    try:
        import_module("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
    except ImportError:
        raise ConfigError(
            "receiving spans needs opentelemetry-proto, which is not installed: "
            "pip install 'harken[otel]'"
        ) from None


def decode_traces(data: bytes, content_type: str) -> DecodedRequest:
    """Decode a request to `/v1/traces`. Raises FormatError if the body is invalid."""
    decoded = DecodedRequest()
    for resource in _parse_request("trace", data, content_type).resource_spans:
        program = _as_text(_parse_attributes(resource.resource.attributes).get("service.name"))
        for scope in resource.scope_spans:
            for proto_span in scope.spans:
                span = _parse_span(proto_span, program)
                if span is None:
                    decoded.refused += 1
                else:
                    decoded.spans.append(span)
    return decoded


def decode_logs(data: bytes, content_type: str) -> DecodedRequest:
    """Decode the log records of a request to `/v1/logs` that belong to a span.

    Raises FormatError if the body is invalid.
    """
    decoded = DecodedRequest()
    for resource in _parse_request("logs", data, content_type).resource_logs:
        for scope in resource.scope_logs:
            for record in scope.log_records:
                id_ = _parse_id(record.trace_id, record.span_id)
                if id_ is not None:
                    decoded.logged.append((id_, _parse_log_record(record)))
    return decoded


def redact_request(kind: str, data: bytes, content_type: str, credentials: Credentials) -> bytes:
    """Return the body of a request without credentials. Raises FormatError.

    kind: `trace` or `logs`.
    """
    if content_type == JSON:
        return credentials.replace_in_bytes(data)
    request = _parse_request(kind, data, content_type)
    request.DiscardUnknownFields()
    _redact_message(request, credentials)
    return bytes(request.SerializeToString())


def _redact_message(message: Any, credentials: Credentials) -> None:
    """Redact all texts of a protobuf message. The library limits its depth."""
    for descriptor, value in message.ListFields():
        name = descriptor.name
        if isinstance(value, str):
            setattr(message, name, credentials.replace(value))
        elif name == "bytes_value":
            setattr(message, name, credentials.replace_in_bytes(value))
        elif hasattr(value, "ListFields"):
            _redact_message(value, credentials)
        elif not isinstance(value, bytes) and isinstance(value, MutableSequence):
            for index, member in enumerate(value):
                if isinstance(member, str):
                    value[index] = credentials.replace(member)
                elif hasattr(member, "ListFields"):
                    _redact_message(member, credentials)


def encode_response(kind: str, content_type: str, refused: int = 0) -> bytes:
    """Return the body of the response to an accepted request, in the format of the request.

    kind: `trace`, `logs` or `metrics`.
    """
    if content_type == JSON:
        partial_success = {"rejectedSpans": str(refused), "errorMessage": _REJECTED_TEXT}
        return canonical.to_json_line({"partialSuccess": partial_success} if refused else {})
    message = getattr(_import_service(kind), f"Export{kind.capitalize()}ServiceResponse")()
    if refused:
        message.partial_success.rejected_spans = refused
        message.partial_success.error_message = _REJECTED_TEXT
    return bytes(message.SerializeToString())


_REJECTED_TEXT = "spans without an id or a time"


def _import_service(kind: str) -> Any:
    return import_module(f"opentelemetry.proto.collector.{kind}.v1.{kind}_service_pb2")


def _parse_request(kind: str, data: bytes, content_type: str) -> Any:
    """Parse a body. Raises FormatError for any error of the protobuf library."""
    request = getattr(_import_service(kind), f"Export{kind.capitalize()}ServiceRequest")()
    try:
        if content_type == JSON:
            value = _encode_ids(canonical.from_json(data, _join_unique), _MAX_DEPTH * 2)
            if not isinstance(value, dict):
                raise ValueError("it is not a JSON object")
            json_format = import_module("google.protobuf.json_format")
            json_format.ParseDict(value, request, ignore_unknown_fields=True)
        else:
            request.ParseFromString(data)
    except Exception as error:  # noqa: BLE001 - of two libraries
        reason = " ".join(str(error).split())[:120]
        raise FormatError(FORMAT_NAME, f"the body is not a request for {kind} ({reason})") from None
    return request


def _join_unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of a body. Raises ValueError for a repeated member, as protobuf does."""
    members = dict(pairs)
    if len(members) < len(pairs):
        name = next(name for index, (name, _) in enumerate(pairs) if name in dict(pairs[:index]))
        raise ValueError(f"the member {name!r:.40} is repeated")
    return members


def _encode_ids(value: Any, levels: int) -> Any:
    """Return JSON with its hexadecimal ids in base64, as protobuf expects. Raises ValueError."""
    if levels == 0:
        raise ValueError("it is nested too deeply")
    if isinstance(value, list):
        return [_encode_ids(item, levels - 1) for item in value]
    if isinstance(value, dict):
        return {
            name: base64.b64encode(bytes.fromhex(item)).decode()
            if name in _IDS and isinstance(item, str)
            else _encode_ids(item, levels - 1)
            for name, item in value.items()
        }
    return value


def _parse_span(proto_span: Any, program: str) -> ReceivedSpan | None:
    id_ = _parse_id(proto_span.trace_id, proto_span.span_id)
    start_ns, end_ns = int(proto_span.start_time_unix_nano), int(proto_span.end_time_unix_nano)
    if id_ is None or start_ns <= 0:
        return None
    error_message = None
    if proto_span.status.code == _STATUS_ERROR:
        error_message = " ".join(proto_span.status.message.split())[:_MAX_REASON_CHARS]
    return ReceivedSpan(
        id=id_,
        parent=_parse_id(proto_span.trace_id, proto_span.parent_span_id),
        name=proto_span.name,
        start_ns=start_ns,
        end_ns=max(start_ns, end_ns),
        attributes=_parse_attributes(proto_span.attributes),
        events=tuple(
            SpanEvent(event.name, _parse_attributes(event.attributes), int(event.time_unix_nano))
            for event in proto_span.events
        ),
        failed=error_message,
        program=program,
    )


def _parse_log_record(record: Any) -> SpanEvent:
    attributes = _parse_attributes(record.attributes)
    body = parse_attribute_value(_to_json_value(record.body, _MAX_DEPTH))
    if isinstance(body, dict):
        attributes = join_members([*body.items(), *attributes.items()])
    elif body is not None:
        name = "body" if "content" in attributes else "content"
        attributes = {**attributes, name: body}
    name = record.event_name or _as_text(attributes.get("event.name"))
    time_ns = int(record.time_unix_nano or record.observed_time_unix_nano)
    return SpanEvent(name, attributes, time_ns)


def _parse_id(trace: bytes, span: bytes) -> SpanId | None:
    """Return a span id. Return None if it has a wrong length or only zeros."""
    if len(trace) != 16 or len(span) != 8 or not any(trace) or not any(span):
        return None
    return trace.hex(), span.hex()


def _parse_attributes(pairs: Iterable[Any]) -> Mapping[str, Any]:
    return join_members(_iter_pairs(pairs, _MAX_DEPTH))


def _to_json_value(value: Any, levels: int) -> Any:
    """Return an `AnyValue` as JSON."""
    kind = value.WhichOneof("value")
    if kind is None or levels == 0:
        return None
    content = getattr(value, kind)
    match kind:
        case "array_value":
            return [_to_json_value(item, levels - 1) for item in content.values]
        case "kvlist_value":
            return join_members(_iter_pairs(content.values, levels - 1))
        case "bytes_value":
            return base64.b64encode(content).decode()
        case "double_value":
            return float(content) if math.isfinite(content) else None
    return content


def _iter_pairs(pairs: Iterable[Any], levels: int) -> Iterator[tuple[str, Any]]:
    for pair in pairs:
        yield pair.key, _to_json_value(pair.value, levels)


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else ""
