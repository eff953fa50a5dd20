"""Push a local store: copy what the backing store lacks, and move its names to the local heads.

A name is moved only forwards. A local head replaces that of the backing store if it contains the
latter: a commit its ancestor, and an imported file the bytes or the conversations of the earlier
one. This is read from both stores, so that no record of earlier pushes is needed. A name that
cannot be moved forwards stays, and is part of the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Literal

import msgspec

from harken.core.commits import ArtifactRef, CommitId
from harken.errors import BranchConflict, NameNotFound
from harken.store.base import NO_LIMIT, Store
from harken.store.branches import SOURCE_PREFIX, TICKET_PREFIX
from harken.store.copying.commits import CopyResult, copy_artifacts, copy_commits
from harken.store.copying.tickets import copy_tickets
from harken.store.imported_files import (
    ImportedFile,
    iter_versions,
    list_chunks,
    read_file_heads,
    starts_with,
)
from harken.store.sqlite.store import SqliteStore

_COMMITS_PER_BATCH = 500


class DifferentHead(msgspec.Struct, frozen=True):
    """A branch, a ticket or an imported file that a push left as it is in the backing store."""

    kind: Literal["branch", "ticket", "file"]
    name: str
    """The name of the branch or of the head."""
    local: CommitId | ArtifactRef
    remote: CommitId | ArtifactRef
    """The head in the backing store."""
    is_behind: bool = False
    """Whether the backing store continues the local branch."""
    place: str = ""
    """The machine and the path of a file, if its record can be read. Untrusted."""


class PushResult(CopyResult, frozen=True):
    """The number and size of the objects that a push sent, and the names that it did not move."""

    different: tuple[DifferentHead, ...] = ()


def push(
    tiers: Store,
    local: SqliteStore,
    backing: Store,
    on_progress: Callable[[int, int], None] | None = None,
) -> PushResult:
    """Push the local store to the backing store. `tiers` reads from both. As `TieredStore.push`."""
    names = local.newest_commits(NO_LIMIT)
    copied = copy_commits(tiers, backing, names[::-1], on_progress=on_progress)
    for start in range(0, len(names), _COMMITS_PER_BATCH):
        batch = names[start : start + _COMMITS_PER_BATCH]
        existing = backing.commits(batch)
        for name, stored in local.commits(batch).items():
            if name in existing and existing[name].notes != stored.notes:
                backing.update_notes(name, stored.notes)
    pusher = _HeadPusher(tiers, local, backing)
    different = (*pusher.push_branches(), *pusher.push_tickets(), *pusher.push_files())
    return PushResult(copied.commits, copied.objects, copied.size_bytes, different)


def is_descendant(tiers: Store, local: SqliteStore, name: CommitId, ancestor: CommitId) -> bool:
    """Whether a commit descends from another one.

    Of local commits only the rows in between are read. A commit that is local has its ancestors
    there, too.
    """
    commits = local.commits([name, ancestor])
    if name in commits:
        return ancestor in commits and local.common_ancestor(name, ancestor) == ancestor
    return any(stored.id == ancestor for stored in tiers.chain(name))


class _HeadPusher(msgspec.Struct, frozen=True):
    """Moves the names of the backing store to the local heads."""

    tiers: Store
    local: SqliteStore
    backing: Store

    def push_branches(self) -> Iterator[DifferentHead]:
        """Move the branches of the backing store to the local heads, if these continue them."""
        remote = self.backing.branches()
        for name, head in self.local.branches().items():
            before = remote.get(name)
            if before == head:
                continue
            if before is None or self._descends(head, before):
                try:
                    self.backing.move_branch(name, head, expected=before)
                    continue
                except BranchConflict:  # Another writer moved it since.
                    before = self.backing.find_branch(name) or head
            yield DifferentHead("branch", name, head, before, self._descends(before, head))

    def push_tickets(self) -> Iterator[DifferentHead]:
        """Create or continue the tickets of the backing store."""
        heads = self.local.heads(TICKET_PREFIX)
        copied = copy_tickets(self.tiers, self.backing, heads=heads)
        remote = self.backing.heads(TICKET_PREFIX) if copied.diverged else {}
        for id_ in copied.diverged:
            yield DifferentHead("ticket", id_, heads[id_], remote.get(id_, heads[id_]))

    def push_files(self) -> Iterator[DifferentHead]:
        """Move the imported files of the backing store to the local heads that contain them."""
        remote, heads = self.backing.heads(SOURCE_PREFIX), self.local.heads(SOURCE_PREFIX)
        different = [name for name, head in heads.items() if remote.get(name, head) != head]
        files = read_file_heads(self.tiers, [heads[name] for name in different])
        backed_up = read_file_heads(self.backing, [remote[name] for name in different])
        for name, head in heads.items():
            before = remote.get(name)
            if before == head:
                continue
            file, earlier = files.get(head), None if before is None else backed_up.get(before)
            if before is None or self._contains(file, earlier):
                chunks = list_chunks(self.backing, before)
                copy_artifacts(self.tiers, self.backing, [head], existing=chunks)
                try:
                    self.backing.move_head(name, head, expected=before)
                    continue
                except BranchConflict:  # Another writer moved it since; the next push compares.
                    before = before or head
            elif file is not None and earlier is not None and self._leads_to(earlier, file):
                continue  # This store has an older state.
            place = "" if file is None else f"{file.record.machine}:{file.record.path}"
            yield DifferentHead("file", name, head, before, place=place)

    def _descends(self, name: CommitId, ancestor: CommitId) -> bool:
        with suppress(NameNotFound):
            return is_descendant(self.tiers, self.local, name, ancestor)
        return False

    def _contains(self, file: ImportedFile | None, earlier: ImportedFile | None) -> bool:
        """Whether a local file contains the bytes or all conversations of an earlier one."""
        if file is None or earlier is None:
            return False
        return any(
            self._leads_to(version, earlier)
            or starts_with(self.tiers.read_chunks(version.raw), earlier)
            for version in iter_versions(self.tiers, file)
        )

    def _leads_to(self, file: ImportedFile, earlier: ImportedFile) -> bool:
        """Whether all commits that an earlier file led to are among those of a file."""
        return bool(earlier.tips) and all(
            any(self._descends(tip, before) for tip in file.tips) for before in earlier.tips
        )
