"""Events: what happened in a conversation, one typed and timed fact each. The hub of all formats.

One idea: an event can be read alone, by whoever knows [S2] and nothing of Harken: a type, a time
and a payload of that type. What only the way back to a message needs stands beside the payload,
in one member of Harken's own.

Source: docs/formats/events-v1.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec

from harken.core import canonical
from harken.core.messages import Occurrence
from harken.errors import FormatError

NAME = "events-v1"
INSTRUCTIONS = "instructions"
"""The subtype of a system event that is a system prompt; all others are about the runtime."""
_OWN = "harken"


class _Payload(msgspec.Struct, tag_field="type", frozen=True):
    """What all payloads share: their type is that of the event."""


class PromptEvent(_Payload, tag="prompt", frozen=True):
    """What an agent was told by somebody outside."""

    content: str
    source: str = "user"


class ResponseEvent(_Payload, tag="response", frozen=True):
    """What an agent answered."""

    content: str


class ThinkingEvent(_Payload, tag="thinking", frozen=True):
    """What a model thought, and the signature that its provider wants to see again."""

    content: str
    signature: str | None = None


class ToolCallEvent(_Payload, tag="tool_call", frozen=True):
    """What an agent wants a tool to do."""

    id: str
    name: str
    input: Any = msgspec.field(default_factory=dict)
    """The arguments as a JSON value; where they are no plain JSON object, their text."""
    server_tool: bool = False
    """Whether the provider runs it."""


class ToolResultEvent(_Payload, tag="tool_result", frozen=True):
    """What a tool answered."""

    content: str = ""
    tool_use_id: str = ""
    is_error: bool = False


class SystemEvent(_Payload, tag="system", frozen=True):
    """Something about the runtime (`init`, `compact_boundary`), or a system prompt."""

    subtype: str
    message: str | None = None
    metadata: dict[str, Any] | None = None


class MetricEvent(_Payload, tag="metric", frozen=True):
    """What a session took, and how it ended."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    cost_usd: float | None = None
    duration_seconds: float | None = None
    turn_count: int | None = None
    status: str | None = None
    """`success`, `error_max_turns`, `error_during_execution`, `error_max_budget_usd`."""


class ErrorEvent(_Payload, tag="error", frozen=True):
    """Something that failed, not in a tool."""

    message: str


class OutputEvent(_Payload, tag="output", frozen=True):
    """What has no type here: JSON text, kept verbatim."""

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
"""The types of events."""


class HarkenExtension(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a message is beyond what its events say by themselves; it stands at the first of them.

    All members but `events` are left out where the events say the same.
    """

    events: int = 1
    """How many events the message is, from this one on."""
    parts: list[dict[str, Any] | None] | None = None
    """Its parts, as they are hashed; null: as the event at this place says."""
    occurrence: Occurrence | None = None
    source: dict[str, Any] | None = None
    time: str | None = None


@dataclass(frozen=True, slots=True)
class Event:
    """One event."""

    payload: Payload
    timestamp: str | None = None
    """UTC, RFC 3339, where it is known."""
    own: HarkenExtension | None = None
    """None: the event says all, or another before it does."""

    @property
    def type(self) -> str:
        """Which of the types it has."""
        return str(self.payload.__struct_config__.tag)


def event_dict(event: Event) -> dict[str, Any]:
    """Return an event as plain values: `type`, `timestamp`, a payload under the type's name.

    >>> event_dict(Event(PromptEvent("Hi")))
    {'type': 'prompt', 'prompt': {'content': 'Hi', 'source': 'user'}}
    """
    payload = msgspec.structs.asdict(event.payload)
    found: dict[str, Any] = {"type": event.type}
    if event.timestamp is not None:
        found["timestamp"] = event.timestamp
    found[event.type] = {name: value for name, value in payload.items() if value is not None}
    if event.own is not None:
        found[_OWN] = canonical.to_canonical_bytes(event.own).decode()
    return found


def event_from(data: object) -> Event:
    """Read an event from plain values; one of an unknown type becomes an output event.

    Raises FormatError.
    """
    if not isinstance(data, dict) or not is_json(data):
        raise FormatError(NAME, f"an event is a map of JSON values, not {type(data).__name__}")
    type_ = data.get("type")
    kind = PAYLOADS.get(type_) if isinstance(type_, str) else None
    try:
        timestamp = msgspec.convert(data.get("timestamp"), str | None)
        if kind is None:
            return Event(OutputEvent(canonical.to_json_line(data).decode()), timestamp)
        payload: Any = msgspec.convert({**_map(data.get(type_)), "type": type_}, kind)
        return Event(payload, timestamp, _own(data.get(_OWN)))
    except (ValueError, RecursionError) as error:
        raise FormatError(NAME, f"an event of the type {type_!a}: {error}") from None


def is_json(value: object) -> bool:
    """Whether a value is one that JSON has."""
    if isinstance(value, dict):
        return all(isinstance(name, str) and is_json(inner) for name, inner in value.items())
    if isinstance(value, list):
        return all(map(is_json, value))
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or isinstance(value, str | int)


def _own(text: object) -> HarkenExtension | None:
    if text is None:
        return None
    if not isinstance(text, str):
        raise ValueError(f"the member {_OWN} is JSON text, not {type(text).__name__}")
    own = msgspec.convert(canonical.from_json(text.encode()), HarkenExtension)
    if own.events < 1:
        raise ValueError(f"a message of {own.events} events")
    return own


def _map(value: object) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("its payload is a map")
    return value
