"""A transcript: all that ever entered one agent's conversation, oldest first."""

from __future__ import annotations

from collections.abc import Iterable

from harken.core.events import Event, TranscriptEntry


def transcript(events: Iterable[Event], agent_id: str) -> list[TranscriptEntry]:
    """Return an agent's entries; none for an agent that never was. Pieces of text are no entries.

    This is the whole past, also where the agent's model no longer reads it: see `context`.
    """
    return [e for e in events if isinstance(e, TranscriptEntry) and e.agent_id == agent_id]
