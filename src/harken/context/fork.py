"""`fork`: a named branch without messages.

Any commit can be continued directly, so a fork only adds a name: a commit with an empty delta. It
copies nothing and materializes to the same conversation as its parent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from harken.context.checkpoint import MAX_SUMMARY_CHARS, CommitDraft, CommitOrigin, checkpoint
from harken.context.history import get_commit
from harken.context.refs import abbreviate_name
from harken.core.arguments import check_arguments
from harken.core.commits import CommitId
from harken.store.base import Store


@check_arguments
def fork(
    store: Store,
    ctx: CommitId,
    origin: CommitOrigin,
    created_at: str,
    *,
    summary: str = "",
    labels: Sequence[str] = (),
) -> CommitId:
    """Create a branch at a commit and return its name. Equal forks are the same commit.

    `created_at`: RFC 3339 with a time zone. An empty summary is derived from that of the commit.
    Raises NameNotFound, ValueError, StoreError.
    """
    parent = get_commit(store, ctx)
    if not origin.template:
        origin = replace(origin, template=parent.commit.template)
    derived_summary = f"Fork of {abbreviate_name(store, ctx)}: {parent.notes.summary}"[
        :MAX_SUMMARY_CHARS
    ]
    draft = CommitDraft(
        parent=ctx,
        origin=origin,
        created_at=created_at,
        summary=summary or derived_summary,
        labels=tuple(labels),
    )
    return checkpoint(store, draft)
