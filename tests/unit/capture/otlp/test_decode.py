"""Both encodings of OTLP requests decode alike; invalid requests are refused."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from harken.capture.otlp.decode import JSON, PROTOBUF, decode_logs, decode_traces, encode_response
from harken.errors import FormatError

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


def _value(value: Any) -> dict[str, Any]:
    match value:
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
        case str():
            return {"stringValue": value}
        case list():
            return {"arrayValue": {"values": [_value(item) for item in value]}}
        case dict():
            return {"kvlistValue": {"values": _pairs(value)}}
    return {}


def _pairs(members: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": name, "value": _value(value)} for name, value in members.items()]


ATTRIBUTES = {"a": "x", "n": 5, "f": 0.5, "t": True, "l": [1, {"b": []}], "none": None}


def _body(**changes: Any) -> dict[str, Any]:
    record: dict[str, Any] = {
        "traceId": TRACE,
        "spanId": SPAN,
        "parentSpanId": SPAN[::-1],
        "name": "chat m",
        "startTimeUnixNano": "1769860800000000000",
        "endTimeUnixNano": "1769860801000000000",
        "attributes": _pairs(ATTRIBUTES),
        "events": [{"name": "e", "timeUnixNano": "5", "attributes": _pairs({"b": 1})}],
        "status": {"code": 2, "message": "it\nbroke"},
        "unknownToUs": {"x": 1},
        **changes,
    }
    resource = {"attributes": _pairs({"service.name": "shop"})}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": [record]}]}]}


def _as_protobuf(body: dict[str, Any]) -> bytes:
    """Encode JSON as protobuf with the generated classes, as an SDK would."""
    from harken.capture.otlp.decode import _parse_request

    request: ExportTraceServiceRequest = _parse_request("trace", json.dumps(body).encode(), JSON)
    return bytes(request.SerializeToString())


def test_json_and_protobuf_decode_alike() -> None:
    by_json = decode_traces(json.dumps(_body()).encode(), JSON)
    assert by_json == decode_traces(_as_protobuf(_body()), PROTOBUF)
    (span,) = by_json.spans
    assert (span.id, span.parent) == ((TRACE, SPAN), (TRACE, SPAN[::-1]))
    assert span.attributes == ATTRIBUTES
    assert (span.failed, span.program) == ("it broke", "shop")
    assert (span.end_ns - span.start_ns) == 10**9
    assert span.events[0].attributes == {"b": 1}


@pytest.mark.parametrize(
    "changes",
    [
        {"traceId": ""},
        {"spanId": "00" * 8},
        {"traceId": "ab" * 15},
        {"startTimeUnixNano": "0"},
    ],
)
def test_spans_without_id_or_time_are_counted(changes: dict[str, str]) -> None:
    decoded = decode_traces(json.dumps(_body(**changes)).encode(), JSON)
    assert (decoded.spans, decoded.refused) == ([], 1)


def test_span_that_ends_before_its_start_has_no_duration() -> None:
    (span,) = decode_traces(json.dumps(_body(endTimeUnixNano="1")).encode(), JSON).spans
    assert span.end_ns == span.start_ns


def test_log_records_with_span_id_are_decoded_with_their_body() -> None:
    record = {
        "traceId": TRACE,
        "spanId": SPAN,
        "timeUnixNano": "7",
        "body": _value({"content": "hi", "role": "user"}),
        "attributes": _pairs({"event.name": "gen_ai.user.message"}),
    }
    apart = {**record, "traceId": "", "spanId": ""}
    body = {"resourceLogs": [{"scopeLogs": [{"logRecords": [record, apart]}]}]}
    ((id_, event),) = decode_logs(json.dumps(body).encode(), JSON).logged
    assert id_ == (TRACE, SPAN)
    assert (event.name, event.time_ns) == ("gen_ai.user.message", 7)
    assert event.attributes["content"] == "hi"


@pytest.mark.parametrize("body", [b"[]", b"{", b"5", b'{"resourceSpans":5}', b"[" * 10_000])
def test_invalid_body_is_refused_on_one_line(body: bytes) -> None:
    with pytest.raises(FormatError) as refused:
        decode_traces(body, JSON)
    assert "\n" not in str(refused.value)


def test_response_has_the_encoding_of_the_request() -> None:
    assert encode_response("trace", JSON) == b"{}"
    assert json.loads(encode_response("trace", JSON, 2))["partialSuccess"]["rejectedSpans"] == "2"
    answer = ExportTraceServiceResponse.FromString(encode_response("trace", PROTOBUF, 2))
    assert answer.partial_success.rejected_spans == 2
    assert encode_response("metrics", PROTOBUF) == b""


@given(st.binary(max_size=200))
def test_random_bytes_are_decoded_or_refused(data: bytes) -> None:
    for decode in (decode_traces, decode_logs):
        for kind in (JSON, PROTOBUF):
            with suppress(FormatError):
                decode(data, kind)


_WHOLE = _as_protobuf(_body())


@given(st.integers(0, len(_WHOLE) - 1), st.integers(0, 255))
def test_request_with_a_changed_byte_is_decoded_or_refused(index: int, byte: int) -> None:
    with suppress(FormatError):
        decode_traces(_WHOLE[:index] + bytes([byte]) + _WHOLE[index + 1 :], PROTOBUF)


def test_attribute_with_two_values_keeps_both() -> None:
    twice = [*_pairs({"a": "x"}), *_pairs({"a": "y", "b": {"c": 1}}), *_pairs({"a": "y"})]
    inner = {
        "key": "b",
        "value": {"kvlistValue": {"values": [*_pairs({"c": 1}), *_pairs({"c": 2})]}},
    }
    body = _body(attributes=[*twice, inner])
    (span,) = decode_traces(json.dumps(body).encode(), JSON).spans
    assert span.attributes == {"a": "y", "a#1": "x", "b": {"c": 2, "c#1": 1}, "b#1": {"c": 1}}


def test_repeated_member_of_a_body_is_refused() -> None:
    with pytest.raises(FormatError, match="the member 'resourceSpans' is repeated"):
        decode_traces(b'{"resourceSpans":[],"resourceSpans":[]}', JSON)
