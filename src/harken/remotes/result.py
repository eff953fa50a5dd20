"""The result of a transfer: the content that was sent or received, and the differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import msgspec

from harken.core.commits import CommitId
from harken.remotes.branches import BranchResult, Refusal
from harken.remotes.logs import LogResult
from harken.store.base import Name, Tombstone

OnProgress: TypeAlias = Callable[[str, int, int], None]
"""Called with a subject (`commits`, `sessions`), the number done, and the total."""


def no_progress(_subject: str, _count: int, _total: int) -> None:
    """Report nothing."""


class TransferResult(msgspec.Struct):
    """The result of a pull, a clone or a push of everything."""

    commits: int = 0
    """The number of new commits."""
    objects: int = 0
    size_bytes: int = 0
    """The size of their objects before compression, without logs."""
    logs: list[LogResult] = msgspec.field(default_factory=list)
    branches: list[BranchResult] = msgspec.field(default_factory=list)
    notes: int = 0
    """The number of commits whose summary or labels changed."""
    conflicting_notes: list[CommitId] = msgspec.field(default_factory=list)
    tickets: int = 0
    """The number of tickets that were created or continued."""
    merged_tickets: list[str] = msgspec.field(default_factory=list)
    """Tickets that had changes on both sides, which have all of them now."""
    diverged_tickets: list[str] = msgspec.field(default_factory=list)
    files: int = 0
    """The number of imported files that were created or continued."""
    conflicting_files: list[str] = msgspec.field(default_factory=list)
    """Imported files with other bytes on both sides."""
    retention: int = 0
    """The number of retention policies that were set."""
    purged: int = 0
    """The number of objects that were purged because they are purged on the other side."""
    unpurged: dict[Name, Tombstone] = msgspec.field(default_factory=dict)
    """Objects that are here, and purged on the remote."""

    refusals: list[Refusal] = msgspec.field(default_factory=list)

    @property
    def new_logs(self) -> list[LogResult]:
        """The logs of which lines were transferred."""
        return [log for log in self.logs if log.size_bytes]

    @property
    def problems(self) -> list[LogResult]:
        """The logs that were skipped or have diverged."""
        return [log for log in self.logs if log.relation in ("skipped", "diverged")]

    @property
    def is_up_to_date(self) -> bool:
        """Whether nothing was transferred."""
        moved = [branch for branch in self.branches if branch.change in ("new", "moved")]
        counts = (self.commits, self.notes, self.tickets, self.files, self.retention, self.purged)
        return not any((*counts, moved, self.new_logs, self.merged_tickets))

    @property
    def needs_attention(self) -> bool:
        """Whether something differs on both sides, and a person has to decide."""
        differing = [branch for branch in self.branches if branch.change in ("diverged", "refused")]
        conflicts = (self.conflicting_notes, self.diverged_tickets, self.conflicting_files)
        return any((self.problems, differing, *conflicts))
