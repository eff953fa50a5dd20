"""`BoundaryDetector`: decide when the output so far becomes a commit.

An answer is complete when another message follows it, or when it contains a tool call and no output
follows for a moment: the tool is running, and a program that it starts may ask for the commit. A
compaction and the end of the run are boundaries as well, so that no message is left uncommitted.

Source: [S2] "Checkpoint Triggers"; DESIGN.md, "A turn boundary is an assistant message".
"""

from __future__ import annotations

from harken.capture.live.stream_event import StreamEvent
from harken.formats.events import (
    Event,
    MetricEvent,
    PromptEvent,
    SystemEvent,
    ToolResultEvent,
)

COMPACTION_SUBTYPE = "compact_boundary"
_ENDS = PromptEvent | ToolResultEvent | MetricEvent


class BoundaryDetector:
    """Detect turn boundaries in the output of one agent."""

    def __init__(self) -> None:
        """Start before the first line."""
        self._is_open = False
        """Whether an answer is open, so that the next line may belong to it."""
        self._has_call = False
        self._is_resting = False
        self._message = ""

    @property
    def is_acting(self) -> bool:
        """Whether the open answer has a call: after a moment of silence its tool is running."""
        return self._is_open and self._has_call and not self._is_resting

    def note_silence(self) -> None:
        """Note a moment without output: the tool is running."""
        self._is_resting = True

    def is_boundary_before(self, line_event: StreamEvent) -> bool:
        """Process the next line. Return whether a boundary is before it."""
        is_end = any(
            isinstance(event.payload, _ENDS) or is_compaction(event) for event in line_event.events
        )
        if not line_event.is_answer:
            was_open, self._is_open = self._is_open, self._is_open and not is_end
            return is_end and was_open
        is_other = self._is_open and line_event.message != self._message
        if is_other or not self._is_open:
            self._has_call = False
        self._is_open, self._message, self._is_resting = True, line_event.message, False
        self._has_call = self._has_call or line_event.is_call
        return is_other


def is_compaction(event: Event) -> bool:
    """Whether an event is a compaction of the conversation."""
    return isinstance(event.payload, SystemEvent) and event.payload.subtype == COMPACTION_SUBTYPE
