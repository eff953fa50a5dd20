"""Copy tickets from one store to another, for bundles and for a move to another machine.

A ticket that exists in the target is continued there if the source has later versions of it. If
both have versions that the other lacks, the target keeps its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from harken.core.commits import ArtifactRef, TicketId
from harken.errors import BranchConflict
from harken.store.base import Store
from harken.store.branches import TICKET_PREFIX
from harken.store.copying.commits import copy_artifacts


class TicketCopyResult(msgspec.Struct):
    """The tickets that a copy created, continued, or left unchanged."""

    created: list[TicketId] = msgspec.field(default_factory=list)
    continued: list[TicketId] = msgspec.field(default_factory=list)
    diverged: list[TicketId] = msgspec.field(default_factory=list)
    """Tickets with versions in the target that the source lacks, and others that it has."""


def copy_tickets(
    source: Store,
    target: Store,
    ids: Iterable[TicketId] | None = None,
    *,
    heads: Mapping[TicketId, ArtifactRef] | None = None,
) -> TicketCopyResult:
    """Copy tickets with all versions and attachments, by default all tickets.

    heads: the heads to copy, if not all of the source are. A second copy changes nothing. Raises
    ObjectNotFound, ObjectCorrupted, StoreError.
    """
    result = TicketCopyResult()
    heads = source.heads(TICKET_PREFIX) if heads is None else heads
    existing = target.heads(TICKET_PREFIX)
    for id_ in heads if ids is None else dict.fromkeys(ids):
        head, before = heads[id_], existing.get(id_)
        if head == before or (before and is_earlier(target, head, before)):
            continue
        if before is not None and not is_earlier(source, before, head):
            result.diverged.append(id_)
            continue
        copy_artifacts(source, target, [head], existing=[] if before is None else [before])
        try:
            target.move_head(id_, head, expected=before)
        except BranchConflict:
            result.diverged.append(id_)
        else:
            (result.created if before is None else result.continued).append(id_)
    return result


def is_earlier(store: Store, earlier: ArtifactRef, version: ArtifactRef) -> bool:
    """Whether a version is among those that led to another one in this store.

    A version contains the name of the one before it, so it is reached through the sequences.
    """
    visited: set[ArtifactRef] = set()
    pending = [version]
    while pending:
        sequences = store.sequences(pending)
        visited |= {*pending}
        members = dict.fromkeys(name for refs in sequences.values() for name in refs)
        if earlier in members:
            return True
        pending = [name for name in members if name not in visited]
    return False
