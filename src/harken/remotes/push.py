"""Push: send to a remote the content that it lacks, without credentials.

Commits are sent first, then the logs, branches, tickets and files that name them. All content is
named by its hash and all names are moved by compare-and-swap, so a push may be interrupted and
repeated, and two homes may push at once. A name that the remote has moved elsewhere is left as it
is: pull first.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import msgspec

from harken.context.shipping.outbox import Outbox
from harken.core.clock import Clock, system_clock
from harken.core.commits import ArtifactRef, CommitId, CommitNotes, HeadName
from harken.core.secrets.redaction import Credentials
from harken.core.structs import replace
from harken.errors import BranchConflict, ObjectNotFound
from harken.remotes.branches import Refusal, push_branches
from harken.remotes.commit_names import list_recent_commits
from harken.remotes.logs import stat_log_or_none
from harken.remotes.mirror import LogRelation, Mirror
from harken.remotes.notes import find_changed_notes, push_notes
from harken.remotes.purges import apply_purges, find_foreign_purges
from harken.remotes.redaction import RedactingTarget, staged_artifacts
from harken.remotes.result import OnProgress, TransferResult, no_progress
from harken.remotes.retention import copy_retention
from harken.remotes.service import RemoteHome
from harken.remotes.tickets import push_tickets
from harken.store.base import Store, StoredCommit
from harken.store.branches import SOURCE_PREFIX
from harken.store.copying.commits import (
    CopyTarget,
    copy_artifacts,
    copy_listed_commits,
)
from harken.store.imported_files import (
    ImportedFile,
    iter_versions,
    list_chunks,
    read_file_heads,
    starts_with,
)
from harken.store.remote.errors import REFUSALS
from harken.store.remote.wire import ListedLog

_MAX_REFUSED = 100
"""The number of refused commits after which no more are tried one by one."""


class Pusher(msgspec.Struct):
    """Pushes the store of a home to one remote. All methods raise StoreError.

    `credentials` collects redacted credentials; None sends everything unchanged.
    """

    store: Store
    remote: RemoteHome
    mirror: Mirror
    credentials: Credentials | None
    staging: Path
    """A folder for redacted copies that only its owner can read."""
    clock: Clock = system_clock
    dry_run: bool = False
    on_progress: OnProgress = no_progress
    _logs: dict[str, ListedLog] = msgspec.field(default_factory=dict)

    def push_commits(self, result: TransferResult) -> None:
        """Send the commits that the remote lacks, then the notes that changed here."""
        changes = find_changed_notes(self.store, self.mirror)
        missing, newest = self._list_missing()
        result.commits = len(missing)
        if not self.dry_run:
            self._send_commits(missing, result)
            if not result.refusals:  # Else the next push must find the refused ones again.
                self.mirror.write_cursor("local", newest)
        redacted = {name: self._redact_notes(notes) for name, notes in changes.items()}
        notes = push_notes(changes, redacted, self.remote, self.mirror, dry_run=self.dry_run)
        result.notes, result.conflicting_notes = len(notes.changed), notes.conflicting
        result.refusals += [Refusal(name, reason) for name, reason in notes.refused.items()]

    def push_names(self, result: TransferResult) -> None:
        """Send branches, tickets, imported files, retention and purges.

        What the remote refuses is in `refusals`, and the other kinds are sent.
        """
        for subject, push in (
            ("branches", self._push_branches),
            ("tickets", self._push_tickets),
            ("imported files", self._push_files),
            ("retention policies", self._push_retention),
            ("purges", self._push_purges),
        ):
            with self._refusing(result, subject):
                push(result)

    @contextmanager
    def _refusing(self, result: TransferResult, subject: str) -> Iterator[None]:
        """Record refusals of the remote. Raises StoreError."""
        try:
            yield
        except REFUSALS as error:
            result.refusals.append(Refusal(subject, str(error)))

    def list_logs(self) -> None:
        """List the logs of the remote, to which `is_unchanged` refers."""
        self._logs = {log.name: log for log in self.remote.iter_logs()}

    def is_unchanged(self, path: Path) -> bool:
        """Whether a log is on both sides as it was after the last transfer."""
        log, stat = self._logs.get(path.stem), stat_log_or_none(path)
        if log is None or stat is None:
            return False
        relation = self.mirror.find_relation(log, stat)
        return relation == "equal" or (relation == "redacted" and self.credentials is not None)

    def record_logs(self, paths: Iterable[Path], outbox: Outbox) -> None:
        """Record the logs that were sent completely."""
        self.list_logs()
        for path in paths:
            log, stat = self._logs.get(path.stem), stat_log_or_none(path)
            if log is None or stat is None:
                continue
            note = outbox.read_state(path.stem)
            sent = note.there_bytes, note.read_bytes, note.written_ns
            if sent == (log.size_bytes, stat.size_bytes, stat.modified_ns):
                relation: LogRelation = "redacted" if note.is_redacted else "equal"
                self.mirror.write_log(log, stat, relation)

    def is_on_remote(self, name: CommitId) -> bool:
        """Whether a commit is known to be on the remote."""
        return bool(self.mirror.read_notes([name]))

    def _list_missing(self, *, compares_all: bool = False) -> tuple[list[CommitId], str]:
        """Return the commits that the remote lacks, parents first, and the next cursor."""
        cursor = "" if compares_all else self.mirror.read_cursor("remote")
        remote_state = list_recent_commits(self.remote, cursor)
        # Without its cursor the remote may have lost commits: all names are compared.
        local_state = list_recent_commits(
            self.store, "" if remote_state.is_complete else self.mirror.read_cursor("local")
        )
        known_names = {*remote_state.names}
        candidates = [name for name in local_state.names if name not in known_names]
        if not remote_state.is_complete:
            on_both = self.mirror.read_notes(candidates)
            candidates = [name for name in candidates if name not in on_both]
        return candidates, local_state.newest

    def _send_commits(self, missing: Sequence[CommitId], result: TransferResult) -> None:
        refused: set[CommitId] = set()
        count = 0

        def record(commits: Sequence[StoredCommit]) -> None:
            nonlocal count
            count += len(commits)
            self.mirror.write_notes(
                (stored.id, self._redact_notes(stored.notes)) for stored in commits
            )
            self.on_progress("commits", count, len(missing))

        def send(names: Sequence[CommitId]) -> None:
            copied = copy_listed_commits(self.store, self._target(), names, on_copied=record)
            result.objects += copied.objects
            result.size_bytes += copied.size_bytes

        def send_or_split(names: Sequence[CommitId]) -> None:
            """Send commits, and those beside a refused one in smaller batches."""
            try:
                send(names)
            except REFUSALS as error:
                if len(names) > 1 and len(refused) >= _MAX_REFUSED:
                    refused.update(names)
                    reason = f"not tried one by one, after {_MAX_REFUSED} were refused: {error}"
                    result.refusals.append(Refusal(f"{len(names)} more commits", reason))
                    return
                if len(names) == 1:
                    refused.add(names[0])
                    result.refusals.append(Refusal(names[0], str(error)))
                    return
                middle = len(names) // 2
                send_or_split(names[:middle])
                send_or_split(self._without_children(names[middle:], refused, result))

        try:
            send(missing)
        except REFUSALS as error:
            # The remote removed an ancestor that the mirror has recorded: all names are compared.
            missing, _ = self._list_missing(compares_all=isinstance(error, ObjectNotFound))
            send_or_split(missing)
        result.commits = count

    def _without_children(
        self, names: Sequence[CommitId], refused: set[CommitId], result: TransferResult
    ) -> list[CommitId]:
        """Return commits that are based on no refused one; the others are refused, too."""
        parents = {name: stored.commit.parent for name, stored in self.store.commits(names).items()}
        remaining: list[CommitId] = []
        for name in names:
            if (parent := parents.get(name)) in refused:
                refused.add(name)
                result.refusals.append(Refusal(name, f"is based on {parent}, which was refused"))
            else:
                remaining.append(name)
        return remaining

    def _redact_notes(self, notes: CommitNotes) -> CommitNotes:
        """Return notes as they are on the remote."""
        if self.credentials is None:
            return notes
        clean = self.credentials.replace
        return replace(notes, summary=clean(notes.summary), labels=tuple(map(clean, notes.labels)))

    def _target(self) -> CopyTarget:
        if self.credentials is None:
            return self.remote
        return RedactingTarget(self.store, self.remote, self.credentials, self.clock)

    def _push_branches(self, result: TransferResult) -> None:
        result.branches = push_branches(
            self.store, self.remote, self.mirror, result.refusals, dry_run=self.dry_run
        )

    def _push_tickets(self, result: TransferResult) -> None:
        if not self.dry_run:
            tickets = push_tickets(self.store, self.remote, self._target())
            result.tickets, result.diverged_tickets = tickets.changed, tickets.diverged

    def _push_retention(self, result: TransferResult) -> None:
        result.retention = copy_retention(
            self.store.retention(), self.remote, new=(), dry_run=self.dry_run
        )

    def _push_files(self, result: TransferResult) -> None:
        """Send imported files that are new or have grown here."""
        local_state, remote_state = (
            self.store.heads(SOURCE_PREFIX),
            self.remote.heads(SOURCE_PREFIX),
        )
        known_names = self.mirror.heads()
        present = {*remote_state.values(), *known_names.values()}
        changes = {
            name: head
            for name, head in local_state.items()
            if remote_state.get(name) != head
            and head not in present
            and known_names.get(name) != head
        }
        if self.dry_run:
            result.files = len(changes)
            return
        for name, head in changes.items():
            outcome = None
            with self._refusing(result, name):
                outcome = self._push_file(name, head, remote_state.get(name))
            if outcome == "sent":
                result.files += 1
                self.mirror.write_heads({name: head})
            elif outcome == "different":
                file = read_file_heads(self.store, [head]).get(head)
                place = name if file is None else f"{file.record.machine}:{file.record.path}"
                result.conflicting_files.append(place)

    def _push_file(
        self, name: HeadName, head: ArtifactRef, before: ArtifactRef | None
    ) -> Literal["sent", "behind", "different"]:
        """Send one imported file, unless the remote has a later state of it, or other bytes."""
        file = read_file_heads(self.store, [head]).get(head)
        if before is not None:
            earlier = read_file_heads(self.remote, [before]).get(before)
            if file is None or earlier is None:
                return "different"
            if not _contains(self.store, file, earlier):
                return "behind" if _contains(self.remote, earlier, file) else "different"
        with (
            tempfile.TemporaryDirectory(dir=self.staging) as folder,
            staged_artifacts(
                self.store, [head], self.credentials, Path(folder), self.clock
            ) as source,
        ):
            copy_artifacts(source, self.remote, [head], existing=list_chunks(self.remote, before))
        try:
            self.remote.move_head(name, head, expected=before)
        except BranchConflict:
            return "different"
        return "sent"

    def _push_purges(self, result: TransferResult) -> None:
        """Purge content on the remote that was purged here and is still there."""
        local_state, remote_state = self.store.tombstones(), self.remote.tombstones()
        foreign = find_foreign_purges(self.remote, local_state, remote_state) if local_state else {}
        if not self.dry_run:
            result.purged = apply_purges(self.store, self.remote, foreign)
        else:
            result.purged = len(foreign)


def _contains(store: Store, file: ImportedFile, earlier: ImportedFile) -> bool:
    """Whether a file of a store, in any of its states, begins with the bytes of an earlier one."""
    return any(
        version.head == earlier.head or starts_with(store.read_chunks(version.raw), earlier)
        for version in iter_versions(store, file)
    )
