"""`fork`: a named branch without messages.

Any commit can be continued directly, so a fork only adds a name: a commit with an empty delta. It
copies nothing and materializes to the same conversation as its parent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from harken.context.checkpoint import SUMMARY_CHARACTERS, CommitDraft, CommitOrigin, checkpoint
from harken.context.history import show
from harken.context.refs import name_of
from harken.core.arguments import check_arguments
from harken.core.commits import CommitId, encode_delta
from harken.store.base import Store

EMPTY = encode_delta([])[0]
"""The artifact of every fork: a delta without entries."""


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
    parent = show(store, ctx)
    if not origin.template:
        origin = replace(origin, template=parent.commit.template)
    derived_summary = f"Fork of {name_of(store, ctx)}: {parent.notes.summary}"[:SUMMARY_CHARACTERS]
    draft = CommitDraft(
        parent=ctx,
        origin=origin,
        created_at=created_at,
        summary=summary or derived_summary,
        labels=tuple(labels),
    )
    return checkpoint(store, draft)
