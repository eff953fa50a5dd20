"""Conversations: a commit, and what is known of the session that it was imported from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from harken.capture.sessions import ImportedSession
from harken.core.commits import CommitId
from harken.store.base import Store


@dataclass(frozen=True, slots=True)
class Conversation:
    """A commit, and what is known of the file that it was read from."""

    ctx: CommitId
    runtime: str = ""
    """Empty: it was not imported."""
    folder: str = ""
    """Where the runtime worked, as the file says: hostile."""
    title: str = ""


def conversation_of(
    store: Store, sessions: Iterable[ImportedSession], ctx: CommitId
) -> Conversation:
    """Return a commit with the runtime and folder of the imported session that it is of, if any."""
    stored = store.commits([ctx])
    principal = stored[ctx].commit.principal if ctx in stored else ""
    for session in sessions:
        if principal == session.name or principal.startswith(f"{session.name}/"):
            return Conversation(ctx, session.runtime, session.project, session.title)
    return Conversation(ctx)
