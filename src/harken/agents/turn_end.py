"""The exceptions by which hooks end a turn of the agent that they watch."""

from __future__ import annotations


class TurnEnded(Exception):
    """A move replaced the agent in the middle of a turn: another agent answers now."""


class StoppedByHook(Exception):
    """A hook ended the turn of the watched agent; the text is the reason for the caller."""
