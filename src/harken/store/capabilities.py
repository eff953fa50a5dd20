"""Capabilities of some stores beyond `Store`, each with a way for the others.

Callers ask for a capability, never for the class of a store. So a store of another package has the
same rights as those of Harken.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol, runtime_checkable

from harken.core.commits import CommitId
from harken.store.base import EvictionResult, Progress, Store, StoreFinding, UnusedSpace
from harken.store.batch import BatchContents, batch_from
from harken.store.tiered.push import PushResult


@runtime_checkable
class CheckedStore(Protocol):
    """A store that checks its own tables and bytes."""

    def findings(self, on_progress: Progress | None = None) -> Iterator[StoreFinding]:
        """Yield the problems of the store. Nothing is changed."""
        ...


@runtime_checkable
class _NamedWriter(Protocol):
    """A store that takes contents with names, without computing these again."""

    def write_named(self, contents: BatchContents) -> None:
        """Write contents with names that were computed by the caller."""
        ...


@runtime_checkable
class _CommitIndex(Protocol):
    """A store that knows which commits exist without reading them."""

    def existing_commits(self, names: Iterable[CommitId]) -> set[CommitId]:
        """Return the commits among these that exist."""
        ...


@runtime_checkable
class _FileStore(Protocol):
    """A store in a file that may have unused space."""

    def unused(self) -> UnusedSpace:
        """Return the unused bytes of the file."""
        ...


@runtime_checkable
class TierStore(Protocol):
    """A store in front of a backing store."""

    @property
    def local(self) -> Store:
        """The store in front."""
        ...

    def push(self) -> PushResult:
        """Send new content to the backing store."""
        ...

    def evict(self, most_bytes: int) -> EvictionResult:
        """Remove local content that the backing store has."""
        ...


def write_contents(store: Store, contents: BatchContents) -> None:
    """Write contents with names that the caller computed. Raises StoreError."""
    if isinstance(store, _NamedWriter):
        store.write_named(contents)
    else:
        store.write(batch_from(contents))


def find_existing_commits(store: Store, names: Iterable[CommitId]) -> set[CommitId]:
    """Return the commits that exist in a store."""
    if isinstance(store, _CommitIndex):
        return store.existing_commits(names)
    return {*store.commits(names)}


def get_local_store(store: Store) -> Store:
    """Return the store in front of a backing store, or the store itself."""
    return store.local if isinstance(store, TierStore) else store


def measure_unused(store: Store) -> UnusedSpace:
    """Return the unused space of the file of a store, or none."""
    local = get_local_store(store)
    return local.unused() if isinstance(local, _FileStore) else UnusedSpace(0, 0)
