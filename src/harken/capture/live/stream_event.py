"""`StreamEvent`: the parsed content of one output line of a running client.

Each line is parsed on its own, by a parser for the client, into events of the hub format. An
unknown line becomes an output event that contains the line. So nothing is lost, nothing raises, and
later versions of a client can be recorded, too.

Source: docs/how-to/record-claude-code-and-codex.md.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec

from harken.formats.events import (
    ErrorEvent,
    Event,
    MetricEvent,
    OutputEvent,
    Payload,
    ResponseEvent,
    ThinkingEvent,
    ToolCallEvent,
)
from harken.formats.json_records import Record, to_safe_json
from harken.formats.tool_calls import parse_json_object


class StreamEvent(msgspec.Struct, frozen=True, kw_only=True):
    """The content of one line."""

    events: tuple[Event, ...] = ()
    session: str = ""
    """The client's session id, if the line contains it. Untrusted."""
    agent: str = ""
    """The subagent of the line. Empty for the main conversation."""
    call: str = ""
    """The call that started the subagent of the line."""
    uuid: str = ""
    """The client's id of the line."""
    message: str = ""
    """The id of the response that the line is part of. Lines with equal ids are one answer."""
    source: Record | None = None
    """Other data of a response: `model`, `usage`."""
    preserved: tuple[str, ...] = ()
    """Of a compaction: the `uuid`s of the lines that the model still sees."""

    @property
    def is_answer(self) -> bool:
        """Whether the line is model output: text, thinking, or a call."""
        kinds = ResponseEvent | ThinkingEvent | ToolCallEvent
        return any(isinstance(event.payload, kinds) for event in self.events)

    @property
    def is_outcome(self) -> bool:
        """Whether the line reports the end of the run, or an error."""
        return any(isinstance(event.payload, MetricEvent | ErrorEvent) for event in self.events)

    @property
    def is_call(self) -> bool:
        """Whether the line contains a tool call."""
        return any(isinstance(event.payload, ToolCallEvent) for event in self.events)


LineParser: TypeAlias = Callable[[bytes], StreamEvent]
"""Parses a line, with or without its line end. Never raises."""


def parse_record(line: bytes) -> Record | None:
    """Return the JSON object of a line, safe to serialize. Return None if it has none."""
    record = parse_json_object(line.decode("utf-8", "replace"))
    return None if record is None else to_safe_json(record)


def unknown_line_event(line: bytes, time: str | None = None) -> StreamEvent:
    r"""Return an unparsed line as an output event with JSON content.

    >>> (
    ...     unknown_line_event(b'{"type": "new"}\n').events[0].payload.raw,
    ...     unknown_line_event(b"oh\n").events[0].payload.raw,
    ... )
    ('{"type": "new"}', '"oh"')
    """
    text = line.decode("utf-8", "replace").strip()
    if not text:
        return StreamEvent()
    return StreamEvent(
        events=(Event(OutputEvent(text if _is_json(text) else json.dumps(text)), time),)
    )


def payload_event(*payloads: Payload, time: str | None = None, **fields: Any) -> StreamEvent:
    """Return the event of payloads with one time."""
    return StreamEvent(events=tuple(Event(payload, time) for payload in payloads), **fields)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
