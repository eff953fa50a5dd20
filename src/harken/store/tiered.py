"""A store in two tiers: a file that is near, and a store that has what the file has not.

One idea: what is asked for is looked for here, then there, and what comes from there is kept here.
So content may go from here (`evict`) where the backing store has it, and commits of other machines
can be read and built on as if they were here. What commits are, and which messages they have,
stays here: a history can be read while the backing store is away.

Lists (children, newest, names, labels) are of both, and of what is here alone while the backing
store is away. What both know of a commit, its summary and labels, is here as it was changed last.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TypeVar

from harken.core.commits import ArtifactRef, CommitId, Entry, Hash, Notes, raw_ref
from harken.errors import ObjectDamaged, ObjectMissing, StoreError, UnknownName
from harken.store.base import (
    Batch,
    Collected,
    Keeping,
    Kind,
    Name,
    Stats,
    Store,
    Stored,
    Thing,
    Tombstone,
)
from harken.store.contents import DOMAINS, name_of, parts_of
from harken.store.copy import Copied, Progress, copy_commits

T = TypeVar("T")


class TieredStore:
    """`local` before `backing`; both are closed with it. Threads may share it where both allow it.

    Writes go to `local`; to `backing` too with `push`, and at once for what is kept as `replicate`.
    """

    def __init__(self, local: Store, backing: Store) -> None:
        self.local, self.backing = local, backing

    def write(self, batch: Batch) -> None:
        """Write here. What the batch names and only the backing store has is brought first."""
        brought: set[Name] = set()
        while True:
            try:
                self.local.write(batch)
                return
            except ObjectMissing as error:
                if error.name in brought or not self._bring(error.name):
                    raise
                brought.add(error.name)

    def objects(self, names: Iterable[Hash]) -> dict[Hash, bytes]:
        wanted = list(dict.fromkeys(names))
        found = self.local.objects(wanted)
        if missing := [name for name in wanted if name not in found]:
            found |= self._objects_from_there(missing)
        return found
