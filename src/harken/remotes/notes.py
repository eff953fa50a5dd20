"""Summaries and labels of commits, merged with those of a remote.

The notes that both sides had at the last transfer are the base of the merge. Groups of commits with
equal digests are not read, so that a change is found among any number of commits in a few requests.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

import msgspec

from harken.core import canonical
from harken.core.commits import CommitId, CommitNotes
from harken.errors import NotesConflict
from harken.remotes.commit_names import iter_batches
from harken.remotes.mirror import Mirror
from harken.remotes.service import RemoteHome
from harken.store.base import NO_LIMIT, Store
from harken.store.notes import compute_notes_digests, merge_notes
from harken.store.remote.errors import REFUSALS


class NotesResult(msgspec.Struct):
    """The commits with changed notes, and those with another summary on both sides."""

    changed: list[CommitId] = msgspec.field(default_factory=list)
    conflicting: list[CommitId] = msgspec.field(default_factory=list)
    refused: dict[CommitId, str] = msgspec.field(default_factory=dict)
    """Commits whose notes the remote does not accept, and the reason."""


def pull_notes(
    store: Store, remote: RemoteHome, mirror: Mirror, *, dry_run: bool = False
) -> NotesResult:
    """Merge the notes that changed on the remote into those of the store. Raises StoreError."""
    result = NotesResult()
    base_digests = compute_notes_digests(mirror.iter_encoded_notes())
    for group, (base, remote_notes) in enumerate(
        zip(base_digests, remote.notes_digests(), strict=True)
    ):
        if base != remote_notes:
            _pull_group(group, store, remote, mirror, result, dry_run=dry_run)
    return result


def _pull_group(
    group: int,
    store: Store,
    remote: RemoteHome,
    mirror: Mirror,
    result: NotesResult,
    *,
    dry_run: bool,
) -> None:
    names = remote.names_with_prefix(f"ctx-{group:02x}", NO_LIMIT)
    base = mirror.read_group(group)
    for batch in iter_batches([CommitId(name) for name in names]):
        remote_notes = {name: stored.notes for name, stored in remote.commits(batch).items()}
        changes = [name for name in remote_notes if base.get(name) != remote_notes[name]]
        for name, stored in store.commits(changes).items():
            merged = merge_notes(base.get(name), stored.notes, remote_notes[name])
            if merged.has_conflict:
                result.conflicting.append(name)
            if merged.notes == stored.notes:
                continue
            if not dry_run:
                store.update_notes(name, merged.notes, was=stored.notes)
            result.changed.append(name)
        if not dry_run:
            # Only after the merge: an interrupted one must find the same base again.
            mirror.write_notes((name, remote_notes[name]) for name in changes)


def find_changed_notes(store: Store, mirror: Mirror) -> dict[CommitId, CommitNotes]:
    """Return the notes of the store that differ from those of the last transfer.

    Commits that the remote does not have yet are left out. Raises StoreError.
    """
    base = dict(mirror.iter_encoded_notes())
    changes: dict[CommitId, CommitNotes] = {}
    for batch in iter_batches([*base]):
        for name, stored in store.commits(batch).items():
            if canonical.to_canonical_bytes(stored.notes) != base[name]:
                changes[name] = stored.notes
    return changes


def push_notes(
    changes: Mapping[CommitId, CommitNotes],
    redacted: Mapping[CommitId, CommitNotes],
    remote: RemoteHome,
    mirror: Mirror,
    *,
    dry_run: bool = False,
) -> NotesResult:
    """Send changed notes, except those that changed on the remote as well: pull these first.

    redacted: the changed notes as they may be sent. Raises StoreError.
    """
    result = NotesResult()
    names = [name for name in changes if name in redacted]
    for batch in iter_batches(names, 500):
        base = mirror.read_notes(batch)
        sent_notes: list[tuple[CommitId, CommitNotes]] = []
        for name in batch:
            notes = redacted[name]
            if base.get(name) == notes:
                continue
            try:
                if not dry_run and not _replace(remote, name, notes, base.get(name)):
                    result.conflicting.append(name)
                    continue
            except REFUSALS as error:
                result.refused[name] = str(error)
                continue
            result.changed.append(name)
            sent_notes.append((name, notes))
        if not dry_run:
            mirror.write_notes(sent_notes)
    return result


def _replace(
    remote: RemoteHome, name: CommitId, notes: CommitNotes, was: CommitNotes | None
) -> bool:
    """Replace notes of the remote. Return whether they were those of the last transfer."""
    with suppress(NotesConflict):
        remote.update_notes(name, notes, was=was)
        return True
    return False
