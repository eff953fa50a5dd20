"""Tickets of a remote: later versions are taken, and changes on both sides are put in a row.

A ticket is a chain of versions. If both sides have versions that the other lacks, the local ones
are applied again to the head of the remote, as if this home had been slower: their authors, times
and notes stay. Where both changed the same field, the remote's value stays, as for a claim. The
merge is a version like any other, so the next push sends it as a continuation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from harken.core import structs
from harken.core.commits import ArtifactRef, HeadName, TicketId
from harken.errors import BranchConflict, ConfigError, ObjectCorrupted, ObjectNotFound
from harken.store.base import Store
from harken.store.copying.commits import CopyTarget, copy_artifacts
from harken.store.tiered.read_through import ReadThrough
from harken.tickets.record import encode_version, read_versions, ticket_id
from harken.tickets.ticket import TicketState, TicketVersion, check_change

MAX_VERSIONS = 100_000
"""The limit of versions of a ticket that are compared."""
_UNREADABLE = (BranchConflict, ObjectNotFound, ObjectCorrupted, ConfigError, ValueError)
_SET_FIELDS = ("labels", "blocked_by", "attachments")
Chain = list[tuple[ArtifactRef, TicketVersion]]


class TicketsResult(msgspec.Struct):
    """The tickets that a transfer changed."""

    changed: int = 0
    """Tickets that were created or continued."""
    merged: list[str] = msgspec.field(default_factory=list)
    diverged: list[str] = msgspec.field(default_factory=list)
    """Tickets that stayed as they are: they cannot be read, or were changed meanwhile."""


def pull_tickets(
    remote: Store, store: Store, heads: Mapping[HeadName, ArtifactRef]
) -> TicketsResult:
    """Take over the tickets at these heads of the remote. Raises StoreError."""
    result = TicketsResult()
    existing: dict[HeadName, ArtifactRef] = store.heads("tkt-") if heads else {}
    new = [head for name, head in heads.items() if existing.get(name) != head]
    ReadThrough(store, remote).sequences(new)
    for name, head in heads.items():
        before = existing.get(name)
        if before == head:
            continue
        try:
            _pull_ticket(store, TicketId(name), head, before, result)
        except _UNREADABLE:
            result.diverged.append(name)
    return result


def _pull_ticket(
    store: Store,
    id_: TicketId,
    head: ArtifactRef,
    before: ArtifactRef | None,
    result: TicketsResult,
) -> None:
    """Move a local ticket to the head of the remote, or to a merge. Raises as `_read_chain`."""
    remote_chain = _read_chain(store, id_, head)
    if before is None:
        store.move_head(id_, head, expected=None)
        result.changed += 1
        return
    local_chain = _read_chain(store, id_, before)
    if before in dict(remote_chain):
        store.move_head(id_, head, expected=before)
        result.changed += 1
    elif head not in dict(local_chain):
        store.move_head(id_, _merge(store, local_chain, remote_chain), expected=before)
        result.merged.append(id_)


def push_tickets(store: Store, remote: Store, target: CopyTarget) -> TicketsResult:
    """Create and continue the tickets of the remote; `target` is the remote, or redacts.

    A ticket that has other versions there is left as it is: pull it first. Raises StoreError.
    """
    result = TicketsResult()
    remote_chain = remote.heads("tkt-")
    for name, head in store.heads("tkt-").items():
        before = remote_chain.get(name)
        if before == head:
            continue
        try:
            chain = dict(_read_chain(store, TicketId(name), head))
        except _UNREADABLE:
            result.diverged.append(name)
            continue
        if before is not None and before not in chain:
            if not _has_version(remote, name, head, before):
                result.diverged.append(name)
            continue
        copy_artifacts(store, target, [head], existing=[] if before is None else [before])
        try:
            remote.move_head(name, head, expected=before)
            result.changed += 1
        except BranchConflict:
            result.diverged.append(name)
    return result


def _has_version(remote: Store, name: str, version: ArtifactRef, head: ArtifactRef) -> bool:
    """Whether the remote only has later versions of a ticket."""
    try:
        return version in dict(_read_chain(remote, TicketId(name), head, until=version))
    except _UNREADABLE:
        return False


def _read_chain(
    store: Store, id_: TicketId, head: ArtifactRef, until: ArtifactRef | None = None
) -> Chain:
    """Return the versions of a ticket, newest first. Raises the errors of `_UNREADABLE`."""
    chain: Chain = []
    name: ArtifactRef | None = head
    while name is not None:
        version = read_versions(store, [name])[name]
        check_change(version)
        chain.append((name, version))
        if name == until:
            return chain
        if version.parent is None and ticket_id(name) != id_:
            raise ValueError(f"the first version of {id_} belongs to another ticket")
        if len(chain) > MAX_VERSIONS:
            raise ValueError(f"{id_} has more than {MAX_VERSIONS} versions")
        name = version.parent
    return chain


def _merge(store: Store, local_chain: Chain, remote_chain: Chain) -> ArtifactRef:
    """Write the local versions again, on top of the remote ones. Return the new head."""
    common = dict(remote_chain).keys() & dict(local_chain).keys()
    own = [(name, version) for name, version in local_chain if name not in common][::-1]
    base = next(version.ticket for name, version in local_chain if name in common)
    head, latest = remote_chain[0]
    for _, version in own:
        state = merge_states(base, version.ticket, latest.ticket)
        merged = structs.replace(
            _withdraw_claim(version, state),
            ticket=state,
            parent=head,
            earlier_context_id=_earlier_context(latest, version),
        )
        check_change(merged)
        base, latest = version.ticket, merged
        head, batch = encode_version(merged)
        store.write(batch)
    return head


def _withdraw_claim(version: TicketVersion, state: TicketState) -> TicketVersion:
    """Return a claim as a note if another claim was faster, and any other version as it is."""
    if version.action != "claim" or state.assignee == version.author:
        return version
    note = version.note or f"claimed at the same time; it is assigned to {state.assignee or '-'}"
    return structs.replace(version, action="note", note=note)


def _earlier_context(before: TicketVersion, version: TicketVersion) -> str:
    if version.context_id:
        return ""
    return before.context_id or before.earlier_context_id or version.earlier_context_id


def merge_states(base: TicketState, local: TicketState, current: TicketState) -> TicketState:
    """Apply the change from `base` to `local` to the current state, and return the result.

    A field that has another value than in `base` by now keeps it; items of lists are added and
    removed.
    """
    values: dict[str, Any] = {}
    for field in TicketState.__struct_fields__:
        old, new, now = getattr(base, field), getattr(local, field), getattr(current, field)
        if old == new:
            continue
        if field in _SET_FIELDS:
            added, removed = [item for item in new if item not in old], {*old} - {*new}
            items = tuple(item for item in dict.fromkeys((*now, *added)) if item not in removed)
            values[field] = tuple(sorted(items)) if field == "labels" else items
        elif field == "reviewers":
            dropped = old.keys() - new.keys()
            changes = {name: value for name, value in new.items() if old.get(name) != value}
            joined = {**now, **{k: v for k, v in changes.items() if now.get(k) == old.get(k)}}
            values[field] = {k: joined[k] for k in sorted(joined) if k not in dropped}
        elif now == old:
            values[field] = new
    merged = structs.replace(current, **values)
    if merged.status != "deferred" and merged.deferred_until:
        merged = structs.replace(merged, deferred_until="")
    return merged
