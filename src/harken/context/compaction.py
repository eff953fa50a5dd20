"""Compaction and snapshot commits, which replace all before them in a conversation.

A compaction summarizes the conversation, a snapshot repeats it. The history stays: a walk to the
root passes over both and yields the original conversation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile

from harken.context.checkpoint import CommitDraft, checkpoint_all, write_on_branch
from harken.context.commit_content import read_delta_entries
from harken.context.history import get_commit
from harken.context.materialize import materialize, select_commits
from harken.core import structs
from harken.core.arguments import check_arguments
from harken.core.commits import CommitId, CommitNotes, encode_delta
from harken.core.messages import ChatMessage, Message
from harken.errors import ConfigError
from harken.store.base import Store, WriteBatch


@check_arguments
def compact(store: Store, pending: CommitDraft, context: str | Sequence[ChatMessage]) -> CommitId:
    """Commit the pending messages, if there are any, and a compaction of the conversation.

    `pending` is the draft of a delta, or has no messages: then its parent is compacted, also if it
    was compacted before. `context` is the new conversation of the agent; a text is a summary, which
    follows the system prompt of the conversation. Both commits are written, or neither. Raises
    NameNotFound, ValueError (ConfigError for a blank summary), ObjectNotFound, StoreError.
    """
    parent = pending.parent
    time = pending.created_at
    if parent is None and not pending.messages:
        raise ValueError("nothing to compact: no commit and no pending messages")
    if parent is not None and not pending.messages and time is None:
        time = get_commit(store, parent).commit.created_at
    summary = pending.summary
    if isinstance(context, str):
        if not context.strip():
            raise ConfigError("the summary is blank")
        summary = summary or context
        before = [*materialize(store, parent).messages, *pending.messages]
        system = takewhile(lambda message: message.role == "system", before)
        context = [*system, Message("user", context)]
    times = [getattr(message, "time", None) for message in pending.messages]
    compaction = replace(
        pending,
        messages=context,
        type="compaction",
        trigger="compaction",
        summary=summary,
        created_at=time
        or next((message_time for message_time in reversed(times) if message_time), None),
        message_count=None,
        token_count=None,
    )
    delta = replace(pending, type="delta", trigger="compaction", summary="", labels=())
    return checkpoint_all(store, [delta, compaction] if pending.messages else [compaction])[-1]


@check_arguments
def snapshot(
    store: Store, ctx: CommitId, *, branch: str = "", principal: str | None = None
) -> CommitId:
    """Commit the complete conversation of a commit as one object, on top of it.

    Default walks end there and read nothing before. The same commit gives the same snapshot. A
    branch is moved to it as by `checkpoint`. The principal is that of the commit, unless another is
    passed. Raises NameNotFound, ObjectNotFound, BranchConflict,
    StoreError.
    """
    stored = get_commit(store, ctx)
    commits = select_commits(store, ctx)
    entries, objects = read_delta_entries(store, commits)
    commit = structs.replace(
        stored.commit,
        parent=ctx,
        principal=stored.commit.principal if principal is None else principal,
        type="snapshot",
        artifact=encode_delta(entries)[0],
        format="events-v1" if objects else stored.commit.format,
        checkpoint="explicit",
        message_count=len(entries),
        token_count=sum(selected.commit.token_count for selected in commits),
    )
    notes = CommitNotes(summary=stored.notes.summary, derived=True)
    batch = WriteBatch(
        objects=objects, deltas={commit.artifact: entries}, commits=[(commit, notes)]
    )
    if branch:
        write_on_branch(store, batch, branch, ctx)
    else:
        store.write(batch)
    return commit.id
