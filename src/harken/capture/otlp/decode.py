"""Requests of OTLP/HTTP, in either of its two forms, as spans and as what was logged within them.

One idea: the JSON form is protobuf's, but for ids, which are hexadecimal there; so it is made
protobuf first, and there is one reader. All of it is foreign: what is no span is counted, and a
body that is no request is refused.

Source: opentelemetry-proto 1.x, `trace.proto`, `logs.proto`, `common.proto`; the specification of
OTLP 1.x, "OTLP/HTTP".
"""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from harken.capture.otlp.span import ReceivedSpan, SpanEvent, SpanId
from harken.core import canonical
from harken.errors import ConfigError, FormatError
from harken.formats.providers.otel_messages import value_of

NAME = "otlp"
PROTOBUF, JSON = "application/x-protobuf", "application/json"
_IDS = frozenset({"traceId", "spanId", "parentSpanId", "trace_id", "span_id", "parent_span_id"})
_DEPTH = 32
_ERROR = 2
"""`STATUS_CODE_ERROR`."""
_REASON_CHARACTERS = 300


@dataclass(slots=True)
class DecodedRequest:
    """What was in a request."""

    spans: list[ReceivedSpan] = field(default_factory=list)
    logged: list[tuple[SpanId, SpanEvent]] = field(default_factory=list)
    """Events that were sent apart from their spans."""
    refused: int = 0
    """Spans without an id or a time."""


def load() -> None:
    """See that what it takes is installed. Raises ConfigError that names the extra."""
    try:
        import_module("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
    except ImportError:
        raise ConfigError(
            "receiving spans needs opentelemetry-proto, which is not installed: "
            "pip install 'harken[otel]'"
        ) from None


def traces_of(data: bytes, content_type: str) -> DecodedRequest:
    """Read a request to `/v1/traces`. Raises FormatError for a body that is none."""
    found = DecodedRequest()
    for resource in _request("trace", data, content_type).resource_spans:
        program = _text(_members(resource.resource.attributes).get("service.name"))
        for scope in resource.scope_spans:
            for one in scope.spans:
                span = _span(one, program)
                if span is None:
                    found.refused += 1
                else:
                    found.spans.append(span)
    return found


def logs_of(data: bytes, content_type: str) -> DecodedRequest:
    """Read a request to `/v1/logs`: what belongs to a span. Raises FormatError as above."""
    found = DecodedRequest()
    for resource in _request("logs", data, content_type).resource_logs:
        for scope in resource.scope_logs:
            for record in scope.log_records:
                id_ = _id(record.trace_id, record.span_id)
                if id_ is not None:
                    found.logged.append((id_, _record(record)))
    return found


def response(kind: str, content_type: str, refused: int = 0) -> bytes:
    """Return the answer to a request that was taken, in the form in which it came.

    kind: `trace`, `logs` or `metrics`.
    """
    if content_type == JSON:
        why = {"rejectedSpans": str(refused), "errorMessage": _REFUSED}
        return canonical.to_json_line({"partialSuccess": why} if refused else {})
    answer = getattr(_service(kind), f"Export{kind.capitalize()}ServiceResponse")()
    if refused:
        answer.partial_success.rejected_spans = refused
        answer.partial_success.error_message = _REFUSED
    return bytes(answer.SerializeToString())


_REFUSED = "spans without an id or a time"


def _service(kind: str) -> Any:
    return import_module(f"opentelemetry.proto.collector.{kind}.v1.{kind}_service_pb2")


def _request(kind: str, data: bytes, content_type: str) -> Any:
    """Read a body. What protobuf's readers raise is their own: whatever it is, it is no request."""
    request = getattr(_service(kind), f"Export{kind.capitalize()}ServiceRequest")()
    try:
        if content_type == JSON:
            value = _with_ids(canonical.from_json(data), _DEPTH * 2)
            if not isinstance(value, dict):
                raise ValueError("it is no JSON object")
            json_format = import_module("google.protobuf.json_format")
            json_format.ParseDict(value, request, ignore_unknown_fields=True)
        else:
            request.ParseFromString(data)
    except Exception as error:  # noqa: BLE001 - of two libraries
        reason = " ".join(str(error).split())[:120]
        raise FormatError(NAME, f"the body is no request for {kind} ({reason})") from None
    return request


def _with_ids(value: Any, levels: int) -> Any:
    """Return JSON with its ids as protobuf's JSON has bytes: base64. Raises ValueError."""
    if levels == 0:
        raise ValueError("it is nested too deeply")
    if isinstance(value, list):
        return [_with_ids(item, levels - 1) for item in value]
    if isinstance(value, dict):
        return {
            name: base64.b64encode(bytes.fromhex(item)).decode()
            if name in _IDS and isinstance(item, str)
            else _with_ids(item, levels - 1)
            for name, item in value.items()
        }
    return value


def _span(one: Any, program: str) -> ReceivedSpan | None:
    id_ = _id(one.trace_id, one.span_id)
    start_ns, end_ns = int(one.start_time_unix_nano), int(one.end_time_unix_nano)
    if id_ is None or start_ns <= 0:
        return None
    failed = None
    if one.status.code == _ERROR:
        failed = " ".join(one.status.message.split())[:_REASON_CHARACTERS]
    return ReceivedSpan(
        id=id_,
        parent=_id(one.trace_id, one.parent_span_id),
        name=one.name,
        start_ns=start_ns,
        end_ns=max(start_ns, end_ns),
        attributes=_members(one.attributes),
        events=tuple(
            SpanEvent(event.name, _members(event.attributes), int(event.time_unix_nano))
            for event in one.events
        ),
        failed=failed,
        program=program,
    )


def _record(record: Any) -> SpanEvent:
    attributes = _members(record.attributes)
    body = value_of(_value(record.body, _DEPTH))
    if isinstance(body, dict):
        attributes = {**body, **attributes}
    name = record.event_name or _text(attributes.get("event.name"))
    time_ns = int(record.time_unix_nano or record.observed_time_unix_nano)
    return SpanEvent(name, attributes, time_ns)


def _id(trace: bytes, span: bytes) -> SpanId | None:
    """Return an id; None for one that is none: of another length, or nothing but zeros."""
    if len(trace) != 16 or len(span) != 8 or not any(trace) or not any(span):
        return None
    return trace.hex(), span.hex()


def _members(pairs: Iterable[Any]) -> Mapping[str, Any]:
    return {pair.key: _value(pair.value, _DEPTH) for pair in pairs}


def _value(value: Any, levels: int) -> Any:
    """Return an `AnyValue` as JSON."""
    kind = value.WhichOneof("value")
    if kind is None or levels == 0:
        return None
    held = getattr(value, kind)
    match kind:
        case "array_value":
            return [_value(item, levels - 1) for item in held.values]
        case "kvlist_value":
            return dict(_pairs(held.values, levels - 1))
        case "bytes_value":
            return base64.b64encode(held).decode()
        case "double_value":
            return float(held) if math.isfinite(held) else None
    return held


def _pairs(pairs: Iterable[Any], levels: int) -> Iterator[tuple[str, Any]]:
    for pair in pairs:
        yield pair.key, _value(pair.value, levels)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
