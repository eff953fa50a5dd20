"""The commits that the events of a session name."""

from __future__ import annotations

from collections.abc import Iterable

from harken.core.commits import CommitId
from harken.core.events import ContextCommitted, Event


def list_session_commits(events: Iterable[Event]) -> dict[CommitId, ContextCommitted]:
    """Return the commits of the agents of a session, each with the last event that names it."""
    return {CommitId(event.ctx): event for event in events if isinstance(event, ContextCommitted)}
