"""`fork`: a branch that has a name before anything was said in it.

Any commit can be gone on from as it is, so a fork is only a name of one's own: a commit with an
empty delta. It copies nothing and materializes to what its parent does.
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
    """Begin a branch at a commit and return its name. Forks that are equal in all are one.

    `created_at`: RFC 3339 with a time zone. Without a summary it has that of the commit. Raises
    NameNotFound, ValueError, StoreError.
    """
    before = show(store, ctx)
    if not origin.template:
        origin = replace(origin, template=before.commit.template)
    said = f"Fork of {name_of(store, ctx)}: {before.notes.summary}"[:SUMMARY_CHARACTERS]
    draft = CommitDraft(
        parent=ctx,
        origin=origin,
        created_at=created_at,
        summary=summary or said,
        labels=tuple(labels),
    )
    return checkpoint(store, draft)
