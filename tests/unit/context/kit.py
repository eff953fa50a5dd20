"""Helpers for tests of commits: create commits, and read them as texts."""

from __future__ import annotations

from typing import Any

from harken.context.checkpoint import CommitDraft, CommitOrigin, checkpoint
from harken.context.materialize import materialize
from harken.core.commits import CommitId
from harken.core.messages import Message, text_of
from harken.store.base import Store

NOON = "2026-01-31T12:00:00.000000Z"


def alternating_messages(*texts: str) -> list[Message]:
    """Return alternating user and assistant messages."""
    return [Message("assistant" if index % 2 else "user", text) for index, text in enumerate(texts)]


def commit(store: Store, parent: CommitId | None = None, *texts: str, **members: Any) -> CommitId:
    """Commit a delta of these texts."""
    members.setdefault("created_at", NOON)
    members.setdefault("origin", CommitOrigin(principal="ann"))
    return checkpoint(
        store, CommitDraft(parent=parent, messages=alternating_messages(*texts), **members)
    )


def texts(store: Store, ctx: CommitId | None, stop: str = "compaction") -> list[str]:
    """Return the texts that a commit materializes to."""
    return [text_of(message.content) for message in materialize(store, ctx, stop).messages]
