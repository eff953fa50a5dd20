"""Boundaries: when what was heard so far becomes a commit.

One idea: an answer is whole when something else follows it, or when a call stands in it and nothing
follows for a moment: its tool runs now, and a program that the tool starts may ask for the commit.
Before a compaction and at the end of the run there is one, too, so that nothing is left over.

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

COMPACTED = "compact_boundary"
_ENDS = PromptEvent | ToolResultEvent | MetricEvent


class BoundaryDetector:
    """Tells boundaries in what one agent says."""

    def __init__(self) -> None:
        """Begin before the first line."""
        self._is_open = False
        """Whether an answer is open: what follows may belong to it."""
        self._has_call = False
        self._is_resting = False
        self._message = ""

    @property
    def is_acting(self) -> bool:
        """Whether the open answer has a call: after a moment of silence its tool runs."""
        return self._is_open and self._has_call and not self._is_resting

    def rest(self) -> None:
        """Nothing was heard for a moment: the tool runs."""
        self._is_resting = True

    def before(self, heard: StreamEvent) -> bool:
        """Take the next line; return whether a boundary stands before it."""
        is_end = any(
            isinstance(event.payload, _ENDS) or is_compaction(event) for event in heard.events
        )
        if not heard.is_answer:
            was_open, self._is_open = self._is_open, self._is_open and not is_end
            return is_end and was_open
        is_other = self._is_open and heard.message != self._message
        if is_other or not self._is_open:
            self._has_call = False
        self._is_open, self._message, self._is_resting = True, heard.message, False
        self._has_call = self._has_call or heard.is_call
        return is_other


def is_compaction(event: Event) -> bool:
    """Whether the conversation was compacted here."""
    return isinstance(event.payload, SystemEvent) and event.payload.subtype == COMPACTED
