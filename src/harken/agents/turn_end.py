"""The exceptions by which hooks end a turn of the agent that they watch."""

from __future__ import annotations

from harken.core.ids import MessageId


class TurnEnded(Exception):
    """A move replaced the agent in the middle of a turn: another agent answers now."""


class StoppedByHook(Exception):
    """A hook ended the turn of the watched agent; the text is the reason for the caller."""

    def __init__(self, reason: str, verdict: MessageId | None = None) -> None:
        super().__init__(reason)
        self.verdict = verdict
        """The event of the verdict, or None if the hook has given none."""
