"""A span of a model call as a `CapturedRequest` and its `Reply`, in the words of `messages-v1`.

Its id is the span's: a span that is sent twice is one call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from harken.capture.otlp.span import Attributes, ReceivedSpan, SpanEvent
from harken.capture.otlp.span_messages import SpanMessages, read_span_messages
from harken.core import canonical
from harken.core.clock import format_rfc3339
from harken.core.messages import Message
from harken.formats.json_records import to_safe_json
from harken.formats.providers import otel_attributes
from harken.formats.providers.otel_messages import value_of
from harken.formats.tool_calls import MAX_COUNT, clean
from harken.recording.exchange import CapturedRequest, CapturedResponse, ClientHints

PROTOCOL = "messages-v1"
_PATH = f"/{PROTOCOL}"
_FAILED = 500
_NOT_PARAMETERS = frozenset({"model", "messages", "tools", "system", "input", "stream", "metadata"})
_TEXT_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class Exchange:
    """A model call, whole."""

    call: CapturedRequest
    reply: CapturedResponse


def is_call(span: ReceivedSpan) -> bool:
    """Whether a span is of a call of a model."""
    return otel_attributes.operation_of(span.attributes) in otel_attributes.MODEL_CALLS


def exchange_of(
    span: ReceivedSpan, logged: Sequence[SpanEvent], hints: ClientHints
) -> Exchange | None:
    """Return the call of a span; None: its program does not say what the model was told.

    logged: its events that were sent apart from it.
    """
    said = read_span_messages(span.attributes, [*span.events, *logged])
    if not said.asked:
        return None
    id_ = "-".join(span.id)
    call = CapturedRequest(
        id=id_,
        protocol=PROTOCOL,
        path=_PATH,
        body=canonical.to_json_line(_asked(span.attributes, said)),
        time=format_rfc3339(span.start_ns // 1000),
        hints=hints,
    )
    first_s = otel_attributes.get_attribute(span.attributes, otel_attributes.FIRST_CHUNK)
    failed = span.failed is not None and not said.answers
    reply = CapturedResponse(
        id=id_,
        status=_FAILED if failed else 200,
        content_type="application/json",
        body=canonical.to_json_line(_failure(span) if failed else _answered(span, said)),
        time=format_rfc3339(span.end_ns // 1000),
        latency_s=(span.end_ns - span.start_ns) / 1e9,
        first_byte_s=first_s if isinstance(first_s, float) else None,
    )
    return Exchange(call, reply)


def _asked(attributes: Attributes, said: SpanMessages) -> dict[str, Any]:
    body: dict[str, Any] = {
        "model": _text(otel_attributes.get_attribute(attributes, otel_attributes.REQUEST_MODEL))
        or _model(attributes),
        "messages": [_flat(message) for message in said.asked],
    }
    if said.tools:
        body["tools"] = list(said.tools)
    parameters = _parameters(attributes)
    if parameters:
        body["parameters"] = parameters
    return body


def _parameters(attributes: Attributes) -> dict[str, Any]:
    others = value_of(attributes.get(otel_attributes.OPENINFERENCE_PARAMETERS))
    found = {
        clean(name): to_safe_json(value)
        for name, value in (others.items() if isinstance(others, dict) else ())
        if name not in _NOT_PARAMETERS
    }
    for name, attribute in otel_attributes.PARAMETERS.items():
        if attributes.get(attribute) is not None:
            found[name] = to_safe_json(attributes[attribute])
    return found


def _answered(span: ReceivedSpan, said: SpanMessages) -> dict[str, Any]:
    """Return the answer; of several to choose from, the first."""
    attributes = span.attributes
    message = said.answers[0] if said.answers else None
    reasons = otel_attributes.get_attribute(attributes, otel_attributes.FINISH_REASONS)
    reason = reasons[0] if isinstance(reasons, list) and reasons else reasons
    usual = "tool_call" if message is not None and message.tool_calls else "stop"
    body: dict[str, Any] = {
        "stop_reason": _text(reason) or usual,
        "model": _model(attributes),
        "usage": _usage(attributes),
    }
    if message is not None:
        body["message"] = _flat(message)
    id_ = _text(attributes.get(otel_attributes.RESPONSE_ID))
    return {**body, "id": id_} if id_ else body


def _failure(span: ReceivedSpan) -> dict[str, Any]:
    kind = _text(span.attributes.get(otel_attributes.ERROR_TYPE))
    thrown = next((one.attributes for one in span.events if one.name == "exception"), {})
    told = _text(span.failed) or _text(thrown.get("exception.message"))
    kind = kind or _text(thrown.get("exception.type"))
    return {"error": {"type": kind or "error", "message": told or "the call failed"}}


def _usage(attributes: Attributes) -> dict[str, int]:
    found: dict[str, int] = {}
    for name, attribute in otel_attributes.USAGE.items():
        value = otel_attributes.get_attribute(attributes, attribute)
        is_count = isinstance(value, int | float) and not isinstance(value, bool)
        if is_count and 0 <= value < MAX_COUNT:
            found[name] = int(value)
    return found


def _model(attributes: Attributes) -> str:
    answering = _text(attributes.get(otel_attributes.RESPONSE_MODEL))
    return (
        answering
        or _text(otel_attributes.get_attribute(attributes, otel_attributes.REQUEST_MODEL))
        or "unknown"
    )


def _flat(message: Message) -> Mapping[str, Any]:
    written: dict[str, Any] = msgspec.to_builtins(message)
    return written


def _text(value: object) -> str:
    return clean(" ".join(value.split())[:_TEXT_CHARACTERS]) if isinstance(value, str) else ""
