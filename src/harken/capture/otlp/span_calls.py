"""Convert the span of a model call to a captured request and response of `messages-v1`.

The id of the call is that of the span, so a span that is sent twice is one call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from harken.capture.otlp.span import Attributes, ReceivedSpan, SpanEvent, SpanId
from harken.capture.otlp.span_messages import SpanMessages, read_span_messages
from harken.core import canonical
from harken.core.clock import format_rfc3339
from harken.core.events import RequestPart
from harken.core.messages import Message
from harken.formats.json_records import to_safe_json
from harken.formats.providers import otel_attributes
from harken.formats.providers.otel_messages import parse_attribute_value
from harken.formats.tool_calls import TOKEN_COUNT_LIMIT, replace_surrogates
from harken.recording.exchange import CapturedRequest, CapturedResponse, ClientHints

PROTOCOL = "messages-v1"
_PATH = f"/{PROTOCOL}"
_ERROR_STATUS = 500
_NOT_PARAMETERS = frozenset({"model", "messages", "tools", "system", "input", "stream", "metadata"})
_MAX_TEXT_CHARS = 200


class Exchange(msgspec.Struct, frozen=True):
    """A model call with its response."""

    call: CapturedRequest
    reply: CapturedResponse


def is_call(span: ReceivedSpan) -> bool:
    """Whether a span is a model call."""
    return otel_attributes.find_operation(span.attributes) in otel_attributes.MODEL_CALLS


def format_call_id(id: SpanId) -> str:
    """Return the id of the call of a span."""
    return "-".join(id)


def parse_exchange(
    span: ReceivedSpan, logged: Sequence[SpanEvent], hints: ClientHints
) -> Exchange | None:
    """Return the call of a span. Return None if the span does not contain the input messages.

    logged: its events that were sent separately.
    """
    messages = read_span_messages(span.attributes, [*span.events, *logged])
    if not messages.input_messages:
        return None
    id_ = format_call_id(span.id)
    call = CapturedRequest(
        id=id_,
        protocol=PROTOCOL,
        path=_PATH,
        body=canonical.to_json_line(_request_body(span.attributes, messages)),
        time=format_rfc3339(span.start_ns // 1000),
        hints=hints,
        evidence="partial",
        missing=_find_missing(span.attributes, messages),
    )
    first_s = otel_attributes.get_attribute(span.attributes, otel_attributes.FIRST_CHUNK)
    has_failed = span.failed is not None and not messages.answers
    reply = CapturedResponse(
        id=id_,
        status=_ERROR_STATUS if has_failed else 200,
        content_type="application/json",
        body=canonical.to_json_line(
            _error_body(span) if has_failed else _response_body(span, messages)
        ),
        time=format_rfc3339(span.end_ns // 1000),
        latency_s=(span.end_ns - span.start_ns) / 1e9,
        first_byte_s=first_s if isinstance(first_s, float) else None,
    )
    return Exchange(call, reply)


def _find_missing(attributes: Attributes, messages: SpanMessages) -> tuple[RequestPart, ...]:
    """Return the parts that a span does not report; it may omit them although they were sent.

    Only OpenInference reports all parameters.
    """
    reported: dict[RequestPart, bool] = {
        "system": any(message.role == "system" for message in messages.input_messages),
        "tools": bool(messages.tools),
        "parameters": attributes.get(otel_attributes.OPENINFERENCE_PARAMETERS) is not None,
    }
    return tuple(part for part, is_reported in reported.items() if not is_reported)


def _request_body(attributes: Attributes, messages: SpanMessages) -> dict[str, Any]:
    body: dict[str, Any] = {
        "model": _clean_text(
            otel_attributes.get_attribute(attributes, otel_attributes.REQUEST_MODEL)
        )
        or _model(attributes),
        "messages": [_to_dict(message) for message in messages.input_messages],
    }
    if messages.tools:
        body["tools"] = list(messages.tools)
    parameters = _parameters(attributes)
    if parameters:
        body["parameters"] = parameters
    if messages.leftovers:
        body["attributes"] = messages.leftovers
    return body


def _parameters(attributes: Attributes) -> dict[str, Any]:
    other_parameters = parse_attribute_value(
        attributes.get(otel_attributes.OPENINFERENCE_PARAMETERS)
    )
    parameters = {
        replace_surrogates(name): to_safe_json(value)
        for name, value in (other_parameters.items() if isinstance(other_parameters, dict) else ())
        if name not in _NOT_PARAMETERS
    }
    for name, attribute in otel_attributes.PARAMETERS.items():
        if attributes.get(attribute) is not None:
            parameters[name] = to_safe_json(attributes[attribute])
    return parameters


def _response_body(span: ReceivedSpan, messages: SpanMessages) -> dict[str, Any]:
    """Return the body of the response. Of several choices, the first is used."""
    attributes = span.attributes
    message = messages.answers[0] if messages.answers else None
    reasons = otel_attributes.get_attribute(attributes, otel_attributes.FINISH_REASONS)
    reason = reasons[0] if isinstance(reasons, list) and reasons else reasons
    default_reason = "tool_call" if message is not None and message.tool_calls else "stop"
    body: dict[str, Any] = {
        "stop_reason": _clean_text(reason) or default_reason,
        "model": _model(attributes),
        "usage": _usage(attributes),
    }
    if message is not None:
        body["message"] = _to_dict(message)
    id_ = _clean_text(attributes.get(otel_attributes.RESPONSE_ID))
    return {**body, "id": id_} if id_ else body


def _error_body(span: ReceivedSpan) -> dict[str, Any]:
    kind = _clean_text(span.attributes.get(otel_attributes.ERROR_TYPE))
    exception = next((event.attributes for event in span.events if event.name == "exception"), {})
    message = _clean_text(span.failed) or _clean_text(exception.get("exception.message"))
    kind = kind or _clean_text(exception.get("exception.type"))
    return {"error": {"type": kind or "error", "message": message or "the call failed"}}


def _usage(attributes: Attributes) -> dict[str, int]:
    usage: dict[str, int] = {}
    for name, attribute in otel_attributes.USAGE.items():
        value = otel_attributes.get_attribute(attributes, attribute)
        is_count = isinstance(value, int | float) and not isinstance(value, bool)
        if is_count and 0 <= value < TOKEN_COUNT_LIMIT:
            usage[name] = int(value)
    return usage


def _model(attributes: Attributes) -> str:
    response_model = _clean_text(attributes.get(otel_attributes.RESPONSE_MODEL))
    return (
        response_model
        or _clean_text(otel_attributes.get_attribute(attributes, otel_attributes.REQUEST_MODEL))
        or "unknown"
    )


def _to_dict(message: Message) -> Mapping[str, Any]:
    members: dict[str, Any] = msgspec.to_builtins(message)
    return members


def _clean_text(value: object) -> str:
    return (
        replace_surrogates(" ".join(value.split())[:_MAX_TEXT_CHARS])
        if isinstance(value, str)
        else ""
    )
