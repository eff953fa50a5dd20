"""`StreamEvent`: what one line of a running client says.

One idea: a line is looked at alone, by whoever knows the client, and becomes events of the hub.
What nobody knows becomes an output event with the line itself, so nothing is lost and nothing is
an error: a client of tomorrow is recorded, too.

Source: docs/how-to/capture-live.md.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from harken.formats.events import (
    Event,
    OutputEvent,
    Payload,
    ResponseEvent,
    ThinkingEvent,
    ToolCallEvent,
)
from harken.formats.json_records import Record, to_safe_json
from harken.formats.tool_calls import as_object


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamEvent:
    """What a line says."""

    events: tuple[Event, ...] = ()
    session: str = ""
    """How the client calls its session, where the line says it; hostile."""
    agent: str = ""
    """Whose line it is; empty: that of the main conversation."""
    call: str = ""
    """Of a subagent's line: the call that began it."""
    uuid: str = ""
    """How the client calls the line."""
    message: str = ""
    """The response that it is a part of: lines with the same one are one answer."""
    source: Record | None = None
    """What else is known of a response: `model`, `usage`."""
    preserved: tuple[str, ...] = ()
    """Of a compaction: the `uuid`s of the lines that the model still sees after it."""

    @property
    def is_answer(self) -> bool:
        """Whether it is what a model says: a text, a thought, a call."""
        kinds = ResponseEvent | ThinkingEvent | ToolCallEvent
        return any(isinstance(event.payload, kinds) for event in self.events)

    @property
    def is_call(self) -> bool:
        """Whether a tool is called."""
        return any(isinstance(event.payload, ToolCallEvent) for event in self.events)


Listen: TypeAlias = Callable[[bytes], StreamEvent]
"""Reads a line, with its end or without. Raises nothing, whatever the bytes are."""


def record_in(line: bytes) -> Record | None:
    """Return the JSON object of a line, such that it can be written down; None: it is none."""
    record = as_object(line.decode("utf-8", "replace"))
    return None if record is None else to_safe_json(record)


def unknown(line: bytes, time: str | None = None) -> StreamEvent:
    r"""Return what nobody here knows: a line as it is, as JSON.

    >>> unknown(b'{"type": "new"}\n').events[0].payload.raw, unknown(b"oh\n").events[0].payload.raw
    ('{"type": "new"}', '"oh"')
    """
    text = line.decode("utf-8", "replace").strip()
    if not text:
        return StreamEvent()
    return StreamEvent(
        events=(Event(OutputEvent(text if _is_json(text) else json.dumps(text)), time),)
    )


def said(*payloads: Payload, time: str | None = None, **more: Any) -> StreamEvent:
    """Return what is heard of payloads at one time."""
    return StreamEvent(events=tuple(Event(payload, time) for payload in payloads), **more)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
