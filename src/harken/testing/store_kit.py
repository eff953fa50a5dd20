"""Helpers of the store suites: create batches, and assert that an operation is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from harken.core import commits
from harken.core.clock import format_rfc3339
from harken.core.commits import Commit, CommitId, CommitNotes, DeltaEntry, Hash
from harken.core.messages import ChatMessage, Message
from harken.store.base import Store, WriteBatch

BEGINNING_US = 1_767_225_600_000_000
"""The beginning of 2026."""
OTHER = "f" * 64
SURROGATE = "\ud800 alone"


def batch_of(
    *messages: ChatMessage | str,
    parent: CommitId | None = None,
    second: int = 0,
    notes: CommitNotes | None = None,
    **members: Any,
) -> WriteBatch:
    """Return a batch with one commit, `second` seconds after the beginning of 2026.

    A str stands for a user message; `members` are those of the commit.
    """
    entries: list[DeltaEntry] = []
    objects: dict[Hash, bytes] = {}
    for message in messages:
        chat_message = Message("user", message) if isinstance(message, str) else message
        entry, needed = commits.encode_entry(chat_message)
        entries.append(entry)
        objects |= needed
    ref, _ = commits.encode_delta(entries)
    members.setdefault("created_at", format_rfc3339(BEGINNING_US + second * 1_000_000))
    members.setdefault("message_count", len(entries))
    commit = Commit(parent=parent, artifact=ref, **members)
    return WriteBatch(
        objects=objects, deltas={ref: entries}, commits=[(commit, notes or CommitNotes())]
    )


def commit_in(batch: WriteBatch) -> CommitId:
    """Return the name of a batch's last commit."""
    return batch.commits[-1][0].id


def chain_in(store: Store, length: int, **members: Any) -> list[CommitId]:
    """Write a chain of commits, each the parent of the next. Return their names, oldest first."""
    names: list[CommitId] = []
    for index in range(length):
        parent = names[-1] if names else None
        batch = batch_of(f"step {index}", parent=parent, second=index, **members)
        store.write(batch)
        names.append(commit_in(batch))
    return names


def refused(error: type[Exception], operation: Callable[..., object], *arguments: object) -> None:
    """Assert that a call raises this error with a text."""
    try:
        result = operation(*arguments)
    except error as refusal:
        if str(refusal).strip():
            return
        raise AssertionError(f"a {error.__name__} that does not say what is wrong") from refusal
    raise AssertionError(f"no {error.__name__}, but {result!r}")
