"""Typed events of a conversation, the hub of all formats.

An event has a type, a time and a payload of that type. It can be read alone by a program that knows
[S2] but not Harken. Data that only Harken needs to rebuild a message stands beside the payload, in
the member `harken`.

Source: docs/formats/events-v1.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec

from harken.core import canonical
from harken.core.messages import Occurrence
from harken.errors import FormatError

NAME = "events-v1"
INSTRUCTIONS = "instructions"
"""The subtype of a system event that is a system prompt. All other subtypes are about the runtime.
"""
_OWN = "harken"


class _Payload(msgspec.Struct, tag_field="type", frozen=True):
    """The base of all payloads. The tag of a payload is the type of its event."""


class PromptEvent(_Payload, tag="prompt", frozen=True):
    """A message to an agent from a user or another program."""

    content: str
    source: str = "user"


class ResponseEvent(_Payload, tag="response", frozen=True):
    """Text of an agent's answer."""

    content: str


class ThinkingEvent(_Payload, tag="thinking", frozen=True):
    """Thinking of a model, with the signature that its provider verifies later."""

    content: str
    signature: str | None = None


class ToolCallEvent(_Payload, tag="tool_call", frozen=True):
    """A tool call by an agent."""

    id: str
    name: str
    input: Any = msgspec.field(default_factory=dict)
    """The arguments as a JSON value, or as text if they are not a plain JSON object."""
    server_tool: bool = False
    """Whether the provider runs the tool."""


class ToolResultEvent(_Payload, tag="tool_result", frozen=True):
    """The result of a tool call."""

    content: str = ""
    tool_use_id: str = ""
    is_error: bool = False


class SystemEvent(_Payload, tag="system", frozen=True):
    """A system prompt, or an event of the runtime (`init`, `compact_boundary`)."""

    subtype: str
    message: str | None = None
    metadata: dict[str, Any] | None = None


class MetricEvent(_Payload, tag="metric", frozen=True):
    """Usage of a session, and how it ended."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    cost_usd: float | None = None
    duration_seconds: float | None = None
    turn_count: int | None = None
    status: str | None = None
    """`success`, `error_max_turns`, `error_during_execution`, `error_max_budget_usd`;
    of a recording also `interrupted`."""

    @property
    def summary(self) -> str:
        """Status, turns and cost on one line.

        >>> MetricEvent(turn_count=1, cost_usd=0.5, status="success").summary
        'success, 1 turn, $0.5000'
        """
        parts = [self.status or "ended"]
        if self.turn_count is not None:
            parts.append(f"{self.turn_count} turn{'' if self.turn_count == 1 else 's'}")
        if self.cost_usd is not None:
            parts.append(f"${self.cost_usd:.4f}")
        return ", ".join(parts)


class ErrorEvent(_Payload, tag="error", frozen=True):
    """An error outside of tools."""

    message: str


class OutputEvent(_Payload, tag="output", frozen=True):
    """JSON text without a type of its own, stored verbatim."""

    raw: str


Payload: TypeAlias = (
    PromptEvent
    | ResponseEvent
    | ThinkingEvent
    | ToolCallEvent
    | ToolResultEvent
    | SystemEvent
    | MetricEvent
    | ErrorEvent
    | OutputEvent
)
PAYLOADS: dict[str, type[_Payload]] = {
    str(kind.__struct_config__.tag): kind for kind in _Payload.__subclasses__()
}
"""Payload classes by event type."""


class HarkenExtension(msgspec.Struct, frozen=True, omit_defaults=True):
    """Message data that the events of a message do not carry. It is stored on the first of them.

    All members but `events` are omitted if the events carry the same data.
    """

    events: int = 1
    """The number of events of the message, including this one."""
    parts: list[dict[str, Any] | None] | None = None
    """The parts as they are hashed. A null part equals the one that the event at its index gives.
    """
    occurrence: Occurrence | None = None
    source: dict[str, Any] | None = None
    time: str | None = None


class Event(msgspec.Struct, frozen=True):
    """A timed event with its payload."""

    payload: Payload
    timestamp: str | None = None
    """UTC, RFC 3339. None if it is unknown."""
    extension: HarkenExtension | None = None
    """None if the event carries all data, or if an earlier event of the message has the extension.
    """

    @property
    def type(self) -> str:
        """The type of the event, such as `prompt`."""
        return str(self.payload.__struct_config__.tag)


def event_to_record(event: Event) -> dict[str, Any]:
    """Return an event as a JSON object: `type`, `timestamp`, and a payload under the type's name.

    >>> event_to_record(Event(PromptEvent("Hi")))
    {'type': 'prompt', 'prompt': {'content': 'Hi', 'source': 'user'}}
    """
    payload = msgspec.structs.asdict(event.payload)
    record: dict[str, Any] = {"type": event.type}
    if event.timestamp is not None:
        record["timestamp"] = event.timestamp
    record[event.type] = {name: value for name, value in payload.items() if value is not None}
    if event.extension is not None:
        record[_OWN] = canonical.to_canonical_bytes(event.extension).decode()
    return record


def parse_event(data: object) -> Event:
    """Parse an event from a JSON object. An event of an unknown type becomes an OutputEvent.

    Raises FormatError.
    """
    if not isinstance(data, dict) or not is_json(data):
        raise FormatError(NAME, f"an event is a map of JSON values, not {type(data).__name__}")
    type_ = data.get("type")
    payload_type = PAYLOADS.get(type_) if isinstance(type_, str) else None
    try:
        timestamp = msgspec.convert(data.get("timestamp"), str | None)
        if payload_type is None:
            return Event(OutputEvent(canonical.to_json_line(data).decode()), timestamp)
        payload: Any = msgspec.convert({**_check_map(data.get(type_)), "type": type_}, payload_type)
        return Event(payload, timestamp, _parse_extension(data.get(_OWN)))
    except (ValueError, RecursionError) as error:
        raise FormatError(NAME, f"an event of the type {type_!a}: {error}") from None


def is_json(value: object) -> bool:
    """Whether a value is a JSON value with finite numbers."""
    if isinstance(value, dict):
        return all(isinstance(name, str) and is_json(inner) for name, inner in value.items())
    if isinstance(value, list):
        return all(map(is_json, value))
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or isinstance(value, str | int)


def _parse_extension(text: object) -> HarkenExtension | None:
    if text is None:
        return None
    if not isinstance(text, str):
        raise ValueError(f"the member {_OWN} is JSON text, not {type(text).__name__}")
    extension = msgspec.convert(canonical.from_json(text.encode()), HarkenExtension)
    if extension.events < 1:
        raise ValueError(f"a message of {extension.events} events")
    return extension


def _check_map(value: object) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("its payload is a map")
    return value
