"""Pull: add to this home the new content of a remote. Nothing here is overwritten.

The order makes every interruption harmless. Logs and heads are listed first, commits last, so that
all commits that they name are copied. Commits are written before the logs, branches and tickets
that name them, and the cursor of the mirror is moved after them. A second pull continues: what
arrived is found in the store and in the logs, and is not sent again.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from harken.context.shipping.log_stream import collect_commits
from harken.core.clock import Clock, system_clock
from harken.core.commits import ArtifactRef, CommitId, HeadName
from harken.errors import NameNotFound
from harken.remotes.branches import pull_branches
from harken.remotes.commit_names import list_recent_commits, select_missing
from harken.remotes.logs import LogPuller
from harken.remotes.mirror import Mirror
from harken.remotes.notes import pull_notes
from harken.remotes.purges import apply_purges, find_foreign_purges
from harken.remotes.result import OnProgress, TransferResult, no_progress
from harken.remotes.retention import copy_retention
from harken.remotes.service import RemoteHome
from harken.remotes.tickets import pull_tickets
from harken.store.base import Store, StoredCommit
from harken.store.branches import SOURCE_PREFIX, TICKET_PREFIX
from harken.store.copying.commits import copy_commits, copy_listed_commits
from harken.store.copying.imported_files import add_imported_files
from harken.store.remote.wire import ListedLog
from harken.store.tiered.read_through import ReadThrough


class PullOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The choices of a pull."""

    dry_run: bool = False
    """Whether nothing is changed. Commits are counted, their objects are not read."""
    purge: bool = False
    """Whether content that was purged on the remote is purged here, too."""
    logs_only: bool = False
    """Whether commits are read from the remote on demand: the home is a lazy clone."""
    is_clone: bool = False
    """Whether the home is new, so that all its commits come from the remote."""


class Puller(msgspec.Struct):
    """Pulls from one remote. All methods raise StoreError, and may be repeated after it."""

    store: Store
    remote: RemoteHome
    mirror: Mirror
    logs: LogPuller
    options: PullOptions = PullOptions()
    clock: Clock = system_clock
    on_progress: OnProgress = no_progress

    def pull_all(self) -> TransferResult:
        """Pull everything: commits, notes, logs, branches, tickets, files and retention."""
        result = TransferResult()
        logs = list(self.remote.iter_logs())
        if self.options.logs_only:
            self._pull_logs(logs, result)
            self.mirror.write_branches(self.remote.branches())
            return result
        branches, heads = self.remote.branches(), self.remote.heads()
        new = self._pull_commits(result)
        self._pull_notes(result)
        self._pull_logs(logs, result)
        result.branches = pull_branches(
            self.store, branches, self.mirror, dry_run=self.options.dry_run
        )
        self._pull_heads(heads, result)
        result.retention = copy_retention(
            self.remote.retention(), self.store, new=new, dry_run=self.options.dry_run
        )
        self._pull_purges(result)
        return result

    def pull_sessions(self, names: Sequence[str]) -> TransferResult:
        """Pull some sessions, with the commits that they name. Raises NameNotFound."""
        result = TransferResult()
        logs_by_name = {log.name: log for log in self.remote.iter_logs()}
        for name in names:
            if name not in logs_by_name:
                raise NameNotFound("session on the remote", name, sorted(logs_by_name)[:20])
        for name in names:
            if not self.options.dry_run and not self.options.logs_only:
                self._pull_commits_of(logs_by_name[name], result)
            result.logs.append(self.logs.pull(logs_by_name[name], is_named=True))
        return result

    def _pull_commits(self, result: TransferResult) -> Collection[CommitId]:
        """Copy the commits that are new on the remote. Return them."""
        recent = list_recent_commits(self.remote, self.mirror.read_cursor("remote"))
        missing = select_missing(self.store, recent.names)
        result.commits = len(missing)
        if self.options.dry_run:
            return missing
        count = 0

        def record(commits: Sequence[StoredCommit]) -> None:
            nonlocal count
            count += len(commits)
            self.mirror.write_notes((stored.id, stored.notes) for stored in commits)
            self.on_progress("commits", count, len(missing))

        copied = copy_listed_commits(self.remote, self.store, missing, on_copied=record)
        result.objects, result.size_bytes = copied.objects, copied.size_bytes
        self.mirror.write_cursor("remote", recent.newest)
        if self.options.is_clone:
            self.mirror.write_cursor("local", next(iter(self.store.newest_commits(1)), ""))
        return missing

    def _pull_notes(self, result: TransferResult) -> None:
        notes = pull_notes(self.store, self.remote, self.mirror, dry_run=self.options.dry_run)
        result.notes, result.conflicting_notes = len(notes.changed), notes.conflicting

    def _pull_logs(self, logs: Sequence[ListedLog], result: TransferResult) -> None:
        for number, log in enumerate(logs, start=1):
            result.logs.append(self.logs.pull(log))
            if result.logs[-1].size_bytes:
                self.on_progress("sessions", number, len(logs))

    def _pull_heads(self, heads: dict[HeadName, ArtifactRef], result: TransferResult) -> None:
        """Pull the tickets and imported files with heads that changed on the remote."""
        known_heads = self.mirror.heads()
        moved_heads = {name: head for name, head in heads.items() if known_heads.get(name) != head}
        tickets = {
            name: head for name, head in moved_heads.items() if name.startswith(TICKET_PREFIX)
        }
        files = {name: head for name, head in moved_heads.items() if name.startswith(SOURCE_PREFIX)}
        if self.options.dry_run:
            local_state = self.store.heads()
            result.tickets = sum(local_state.get(name) != head for name, head in tickets.items())
            result.files = sum(head not in local_state.values() for head in files.values())
            return
        pulled = pull_tickets(self.remote, self.store, tickets)
        result.tickets = pulled.changed
        result.merged_tickets, result.diverged_tickets = pulled.merged, pulled.diverged
        if files:
            ReadThrough(self.store, self.remote).sequences([*files.values()])
            added = add_imported_files(self.store, self.store, files.values())
            result.files = len(added.created) + len(added.continued)
            result.conflicting_files = [
                f"{file.record.machine}:{file.record.path}" for file in added.conflicting
            ]
        final_heads = {
            name: head for name, head in moved_heads.items() if name not in pulled.diverged
        }
        self.mirror.write_heads(final_heads)

    def _pull_purges(self, result: TransferResult) -> None:
        remote_state, local_state = self.remote.tombstones(), self.store.tombstones()
        foreign = find_foreign_purges(self.store, remote_state, local_state)
        if foreign and self.options.purge and not self.options.dry_run:
            result.purged = apply_purges(self.remote, self.store, foreign)
        else:
            result.unpurged = foreign

    def _pull_commits_of(self, log: ListedLog, result: TransferResult) -> None:
        """Copy the commits that new lines of a log name, and their ancestors."""
        start = self.logs.local_end(log.name)
        while start < log.size_bytes:
            lines = self.remote.read_log(log.name, start, log.size_bytes)
            if not lines:
                break
            start += len(lines)
            names = [*collect_commits(lines.splitlines(keepends=True)).committed]
            existing = [*self.remote.commits(names)] if names else []
            copied = copy_commits(self.remote, self.store, existing)
            result.commits += copied.commits
            result.objects += copied.objects
            result.size_bytes += copied.size_bytes
