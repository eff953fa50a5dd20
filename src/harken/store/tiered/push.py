"""Push a local store: copy what the backing store lacks, and move its names to the local heads.

A name is moved only forwards. A local head replaces that of the backing store if it contains the
latter: a commit its ancestor, and an imported file the bytes or the conversations of the earlier
one. This is read from both stores, so that no record of earlier pushes is needed.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from harken.core.commits import CommitId
from harken.errors import BranchConflict, NameNotFound
from harken.store.base import Store
from harken.store.branches import SOURCE_PREFIX, TICKET_PREFIX
from harken.store.copy import CopyResult, copy_artifacts, copy_commits
from harken.store.imported_files import ImportedFile, iter_versions, read_file_heads, starts_with
from harken.store.sqlite.store import SqliteStore

NO_LIMIT = 2**62
_COMMITS_PER_BATCH = 500


def push(
    tiers: Store,
    local: SqliteStore,
    backing: Store,
    on_progress: Callable[[int, int], None] | None = None,
) -> CopyResult:
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
    pusher.push_branches()
    pusher.push_tickets()
    pusher.push_files()
    return copied


def is_descendant(tiers: Store, local: SqliteStore, name: CommitId, ancestor: CommitId) -> bool:
    """Whether a commit descends from another one.

    Of local commits only the rows in between are read. A commit that is local has its ancestors
    there, too.
    """
    commits = local.commits([name, ancestor])
    if name in commits:
        return ancestor in commits and local.common_ancestor(name, ancestor) == ancestor
    return any(stored.id == ancestor for stored in tiers.chain(name))


@dataclass(frozen=True, slots=True)
class _HeadPusher:
    """Moves the names of the backing store to the local heads."""

    tiers: Store
    local: SqliteStore
    backing: Store

    def push_branches(self) -> None:
        """Move the branches of the backing store to the local heads, if these continue them."""
        remote = self.backing.branches()
        for name, head in self.local.branches().items():
            before = remote.get(name)
            if before not in (None, head) and not is_descendant(
                self.tiers, self.local, head, before
            ):
                raise BranchConflict(str(self.local.path), name, expected=head, actual=before)
            if before != head:
                self.backing.move_branch(name, head, expected=before)

    def push_tickets(self) -> None:
        """Create in the backing store the tickets that only the local store has."""
        remote = self.backing.heads(TICKET_PREFIX)
        for name, head in self.local.heads(TICKET_PREFIX).items():
            if name not in remote:
                copy_artifacts(self.tiers, self.backing, [head], existing=())
                self.backing.move_head(name, head, expected=None)

    def push_files(self) -> None:
        """Move the imported files of the backing store to the local heads that contain them."""
        remote, heads = self.backing.heads(SOURCE_PREFIX), self.local.heads(SOURCE_PREFIX)
        different = [name for name, head in heads.items() if remote.get(name, head) != head]
        files = read_file_heads(self.tiers, [heads[name] for name in different])
        backed_up = read_file_heads(self.backing, [remote[name] for name in different])
        for name, head in heads.items():
            before = remote.get(name)
            if before == head:
                continue
            if before is None or self._contains(files.get(head), backed_up.get(before)):
                copy_artifacts(self.tiers, self.backing, [head], existing=())
                self.backing.move_head(name, head, expected=before)

    def _contains(self, file: ImportedFile | None, earlier: ImportedFile | None) -> bool:
        """Whether a local file contains the bytes or all conversations of an earlier one."""
        if file is None or earlier is None:
            return False
        return any(
            starts_with(self.tiers.read_chunks(version.raw), earlier)
            or self._leads_to(version, earlier)
            for version in iter_versions(self.tiers, file)
        )

    def _leads_to(self, file: ImportedFile, earlier: ImportedFile) -> bool:
        """Whether all commits that an earlier file led to are among those of a local file."""
        with suppress(NameNotFound):
            return bool(earlier.tips) and all(
                any(is_descendant(self.tiers, self.local, tip, before) for tip in file.tips)
                for before in earlier.tips
            )
        return False
