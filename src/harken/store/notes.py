"""Notes of commits, compared between two stores and merged.

A store that has the same notes as another one has the same digests. A digest is over the commits
whose names begin with the same two digits: the exclusive or of a hash of each name with its notes.
So it does not depend on an order, and one change is found among many commits by its group.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec
from blake3 import blake3

from harken.core import canonical
from harken.core.commits import CommitId, CommitNotes
from harken.store.base import NO_LIMIT, Store

GROUPS = 256
_HASH_BYTES = 16
_COMMITS_PER_BATCH = 2000


class NotesMerge(msgspec.Struct, frozen=True):
    """The result of a three-way merge of notes."""

    notes: CommitNotes
    has_conflict: bool = False
    """Whether both sides wrote different summaries. The local one is in the result."""


def iter_encoded_notes(store: Store) -> Iterator[tuple[CommitId, bytes]]:
    """Yield all commits of a store with the canonical bytes of their notes. Raises StoreError."""
    names = store.newest_commits(NO_LIMIT)
    for start in range(0, len(names), _COMMITS_PER_BATCH):
        for name, stored in store.commits(names[start : start + _COMMITS_PER_BATCH]).items():
            yield name, canonical.to_canonical_bytes(stored.notes)


def group_of(name: CommitId) -> int:
    """Return the group of a commit: the value of the first two digits of its name."""
    return int(name[4:6], 16)


def compute_notes_digests(notes: Iterable[tuple[CommitId, bytes]]) -> list[str]:
    """Return the digest of each group, as hex digits. notes: in their canonical bytes."""
    digests = [0] * GROUPS
    for name, data in notes:
        value = blake3(name.encode() + data).digest(_HASH_BYTES)
        digests[group_of(name)] ^= int.from_bytes(value, "big")
    return [f"{digest:032x}" for digest in digests]


def merge_notes(base: CommitNotes | None, local: CommitNotes, remote: CommitNotes) -> NotesMerge:
    """Merge the notes of two sides that began with `base`, if that is known.

    A label that one side added or removed is added or removed. A summary that one side changed
    replaces the other; a derived summary is no change. If both wrote one, the local one stays.
    """
    labels = _merge_labels(() if base is None else base.labels, local.labels, remote.labels)
    summary, has_conflict = _choose_summary(base, local, remote)
    return NotesMerge(msgspec.structs.replace(summary, labels=labels), has_conflict)


def _merge_labels(
    base: tuple[str, ...], local: tuple[str, ...], remote: tuple[str, ...]
) -> tuple[str, ...]:
    removed = {label for label in base if label not in local or label not in remote}
    # The remote's order first: else two homes would send each other their own orders forever.
    return tuple(label for label in dict.fromkeys((*remote, *local)) if label not in removed)


def _choose_summary(
    base: CommitNotes | None, local: CommitNotes, remote: CommitNotes
) -> tuple[CommitNotes, bool]:
    """Return the notes whose summary stands, and whether the other side wrote another one."""
    own, other = _summary_of(local), _summary_of(remote)
    if own == other or (base is not None and other == _summary_of(base)):
        return local, False
    if base is not None and own == _summary_of(base):
        return remote, False
    if _is_written(local) != _is_written(remote):
        return (local if _is_written(local) else remote), False
    return local, _is_written(local)


def _summary_of(notes: CommitNotes) -> tuple[str, bool, str]:
    return notes.summary, notes.derived, notes.summarized_by


def _is_written(notes: CommitNotes) -> bool:
    return bool(notes.summary) and not notes.derived
