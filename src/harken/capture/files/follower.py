"""`FileFollower`: import files of other programs while they grow.

Checking a file is cheap, parsing it is not. A changed file is parsed when its last line is
complete, the model has answered, the file has been quiet for a moment, and parsing it has not taken
too much time lately. So a file is almost always complete when it is parsed. Imports are
incremental: existing commits are not created again, and of most formats only new lines are read.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from harken.capture.files.grown_file import RunningHashes
from harken.capture.files.importer import Importer
from harken.capture.files.peek import read_ending, read_spawned
from harken.capture.files.report import ImportResult, Report
from harken.capture.files.sources import File, iter_files, sort_for_import, with_companions
from harken.context.checkpoint import CommitIdentity
from harken.context.history import get_commit, update_metadata
from harken.core.commits import CommitId
from harken.core.secrets.redaction import Credentials
from harken.errors import NameNotFound, ObjectNotFound
from harken.index.catalogue import Catalogue
from harken.store.base import Store, StoredCommit

SUPERSEDED_LABEL = "superseded"
"""The label of a commit of an incomplete conversation that another commit replaces."""
DEBOUNCE_S = 1.5
"""A file is read after it has not changed for this time."""
MAX_DELAY_S = 15.0
"""A file that keeps changing is read after this time."""
UNANSWERED_S = 60.0
"""The maximum wait for an answer, or for the end of the last line."""
FREE_S, SHARE = 0.05, 20
"""A file that takes longer to read is delayed.

Reading it takes at most one part in `SHARE` of the time.
"""

Seconds = Callable[[], float]


class ImportedChange(msgspec.Struct, frozen=True):
    """The import report of a changed file and the commits it added."""

    report: Report
    commits: tuple[StoredCommit, ...]
    """The new commits, oldest first. Empty if the file was not imported: see the report."""


class _Change(msgspec.Struct):
    """The times of the first and the last change since the file was read."""

    first_s: float
    last_s: float


class _FileState(msgspec.Struct):
    """The state of a file after it was read."""

    tips: frozenset[str] = frozenset()
    session: str = ""
    size: int = 0
    not_before_s: float = 0.0
    """The file is not read again before this time."""


@dataclass(slots=True)
class FileFollower:
    """Import files as they grow."""

    store: Store
    catalogue: Catalogue
    clock: Seconds = time.monotonic
    """A monotonic clock, in seconds."""
    identity: CommitIdentity = field(default_factory=CommitIdentity)
    """The identity of new commits."""
    live_since: str | None = None
    """The time since which the sessions are recorded live. See `Importer`."""
    redact: Credentials | None = None
    """Removes credentials before anything is stored, and counts them."""
    _changed: dict[Path, _Change] = field(default_factory=dict)
    _states: dict[str, _FileState] = field(default_factory=dict)
    _hashes: RunningHashes = field(init=False)

    def __post_init__(self) -> None:
        """Begin without the hash of any file."""
        self._hashes = RunningHashes(self.clock)

    def note_changed(self, paths: Iterable[Path]) -> None:
        """Record that files have changed."""
        now = self.clock()
        for path in paths:
            change = self._changed.setdefault(path, _Change(now, now))
            change.last_s = now

    def read(self, *, at_once: bool = False, to_the_end: bool = False) -> Iterator[ImportedChange]:
        """Import the changed files that are due. Yield what is new.

        at_once: include files that changed just now; to_the_end: include all files, because no
        process writes them any more. Raises StoreError; the files are then due again.
        """
        now = self.clock()
        due = [
            path
            for path, change in self._changed.items()
            if to_the_end or self._is_due(path, change, now, at_once=at_once)
        ]
        files = sort_for_import(
            file for path in due for file in iter_files(path) if file.path == path
        )
        yield from self._import(with_companions(files))
        for path in due:
            self._changed.pop(path, None)

    def _is_due(self, path: Path, change: _Change, now: float, *, at_once: bool) -> bool:
        state = self._states.get(os.path.abspath(path))  # noqa: PTH100 - as sources call it
        if state is not None and now < state.not_before_s:
            return False
        quiet_s, ending = now - change.last_s, read_ending(path)
        if ending in ("question", "torn") or self._is_orphan(path):
            return quiet_s >= UNANSWERED_S
        return at_once or quiet_s >= DEBOUNCE_S or now - change.first_s >= MAX_DELAY_S

    def _is_orphan(self, path: Path) -> bool:
        """Whether it is a subagent's file, and the parent's file does not contain the spawn yet."""
        spawned = read_spawned(path)
        return spawned is not None and self.catalogue.spawner(*spawned) is None

    def _import(self, files: Sequence[File]) -> Iterator[ImportedChange]:
        """Import files. Yield a change for each file with new commits, or that was refused."""
        if not files:
            return
        for file in files:
            if file.name not in self._states:
                self._states[file.name] = self._load_state(file)
        by_shown = {file.display_name: self._states[file.name] for file in files}
        sizes = {file.display_name: file.size for file in files}
        first_names = [file.name for file in files if not self._states[file.name].size]
        began = self.clock()
        for result in self._create_importer().run(files):
            state = by_shown.get(result.report.source)
            if state is None or result.is_unchanged:
                continue
            size = sizes[result.report.source]
            if result.report.format is not None:
                yield from self._apply_result(state, result, size)
            elif result.report.raw is not None:
                state.size = size
            elif result.report.has_failed:
                yield ImportedChange(result.report, ())
        took_s = (self.clock() - began) / len(files)
        not_before_s = began + (1 + SHARE) * took_s if took_s > FREE_S else 0.0
        for state in by_shown.values():
            state.not_before_s = not_before_s
        for name in self.catalogue.find_readings(first_names):
            self._states[name].not_before_s = 0.0  # Only its new lines are read next.

    def _create_importer(self) -> Importer:
        return Importer(
            self.store,
            self.catalogue,
            identity=self.identity,
            live_since=self.live_since,
            hashes=self._hashes,
            redact=self.redact,
        )

    def _apply_result(
        self, state: _FileState, result: ImportResult, size: int
    ) -> list[ImportedChange]:
        """Process the import of a file.

        Commits of a truncated or replaced file are not superseded.
        """
        tips = frozenset(tip.ctx for tip in result.report.tips)
        is_same = result.report.session == state.session or bool(tips & state.tips)
        has_grown = is_same and size >= state.size
        commits = self._find_new_commits(result.report, result.new)
        if has_grown:
            self._supersede(state.tips, result.report)
        state.tips, state.session, state.size = tips, result.report.session, size
        return [ImportedChange(result.report, commits)] if commits else []

    def _load_state(self, file: File) -> _FileState:
        """Return the state of a file from the catalogue."""
        cached = self.catalogue.find_entries([file.name]).get(file.name)
        if cached is None:
            return _FileState()
        with suppress(msgspec.DecodeError):
            report = msgspec.json.decode(cached.record, type=Report)
            tips = frozenset(tip.ctx for tip in report.tips)
            return _FileState(tips, report.session, cached.fingerprint.size)
        return _FileState()

    def _find_new_commits(self, report: Report, new: int) -> tuple[StoredCommit, ...]:
        """Return the commits that an import created."""
        new_commits: dict[CommitId, StoredCommit] = {}
        before = self._known_tips()
        for tip in report.tips:
            if len(new_commits) >= new:
                break
            with suppress(NameNotFound, ObjectNotFound):
                for stored in self.store.chain(CommitId(tip.ctx), new):
                    if stored.id in new_commits or stored.id in before or len(new_commits) >= new:
                        break
                    new_commits[stored.id] = stored
        return tuple(sorted(new_commits.values(), key=lambda stored: stored.commit.created_at))

    def _known_tips(self) -> set[str]:
        return {tip for state in self._states.values() for tip in state.tips}

    def _supersede(self, tips: Iterable[str], report: Report) -> None:
        """Label earlier tips without other children as superseded: they were incomplete."""
        ends = {tip.ctx for tip in report.tips}
        for tip in tips:
            commit_id: CommitId | None = CommitId(tip)
            superseded: set[CommitId] = set()
            with suppress(NameNotFound):
                while (
                    commit_id is not None
                    and commit_id not in ends
                    and superseded.issuperset(self.store.children(commit_id))
                ):
                    supersede(self.store, commit_id)
                    superseded.add(commit_id)
                    commit_id = get_commit(self.store, commit_id).commit.parent


def supersede(store: Store, ctx: CommitId) -> None:
    """Label a commit as superseded. Raises NameNotFound, StoreError."""
    labels = {*get_commit(store, ctx).notes.labels, SUPERSEDED_LABEL}
    update_metadata(store, ctx, labels=sorted(labels))
