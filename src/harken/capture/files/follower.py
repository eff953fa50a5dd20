"""Watching: files that other programs write become commits as they grow.

One idea: to look is cheap, to read is not. A file that changed is read when its last line has its
end, the model has answered, nobody has written for a moment, and reading it has not taken too much
of the time lately; so what is read is almost always whole, and a long file that grows by the second
costs no more than a short one. It is imported like any file: nothing that is known is made again.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from harken.capture.files.importer import Importer
from harken.capture.files.peek import ending_of, spawned_in
from harken.capture.files.report import ImportResult, Report
from harken.capture.files.sources import File, files_in, in_order, with_companions
from harken.context.history import show, update_metadata
from harken.core.commits import ArtifactRef, CommitId
from harken.errors import NameNotFound, ObjectNotFound
from harken.index.catalogue import Catalogue
from harken.store.base import Store, StoredCommit

SUPERSEDED = "superseded"
"""A label: a commit of what was not whole yet, in whose place another one stands by now."""
QUIET_S = 1.5
"""So long nobody has written a file that is read."""
PATIENCE_S = 15.0
"""A file that never rests is read after so long."""
UNANSWERED_S = 60.0
"""So long a model may take to answer, and a last line to get its end; then the file is read."""
FREE_S, SHARE = 0.05, 20
"""What takes longer to read is read again later: it takes one part in so many of the time."""

Seconds = Callable[[], float]


@dataclass(frozen=True, slots=True)
class ImportedChange:
    """What is new of a file."""

    report: Report
    commits: tuple[StoredCommit, ...]
    """Those that were not there before, oldest first."""


@dataclass(slots=True)
class _Change:
    """A file that has changed, and was not read since."""

    first_s: float
    last_s: float


@dataclass(slots=True)
class _Known:
    """A file that was read."""

    raw: str | None = None
    is_ours: bool = False
    """Whether its bytes were kept for this follower alone."""
    tips: frozenset[str] = frozenset()
    session: str = ""
    size: int = 0
    again_s: float = 0.0
    """Before that it is not read again."""


@dataclass(slots=True)
class FileFollower:
    """Imports files as they grow."""

    store: Store
    catalogue: Catalogue
    clock: Seconds = time.monotonic
    """Seconds, from anywhere on."""
    _changed: dict[Path, _Change] = field(default_factory=dict)
    _known: dict[str, _Known] = field(default_factory=dict)
    _pinned: frozenset[str] | None = None
    """Whose bytes others had kept before."""

    def note(self, paths: Iterable[Path]) -> None:
        """Say that files have changed."""
        now = self.clock()
        for path in paths:
            change = self._changed.setdefault(path, _Change(now, now))
            change.last_s = now

    def read(self, *, at_once: bool = False, to_the_end: bool = False) -> Iterator[ImportedChange]:
        """Import those files that have changed and are due; yield what is new.

        at_once: also those that were written just now. to_the_end: all, nobody writes any more.
        Raises StoreError: then they are due again.
        """
        now = self.clock()
        due = [
            path
            for path, change in self._changed.items()
            if to_the_end or self._is_due(path, change, now, at_once=at_once)
        ]
        found = in_order(file for path in due for file in files_in(path) if file.path == path)
        yield from self._import(with_companions(found))
        for path in due:
            self._changed.pop(path, None)

    def _is_due(self, path: Path, change: _Change, now: float, *, at_once: bool) -> bool:
        known = self._known.get(os.path.abspath(path))  # noqa: PTH100 - as sources call it
        if known is not None and now < known.again_s:
            return False
        quiet_s, ending = now - change.last_s, ending_of(path)
        if ending in ("question", "torn") or self._is_orphan(path):
            return quiet_s >= UNANSWERED_S
        return at_once or quiet_s >= QUIET_S or now - change.first_s >= PATIENCE_S

    def _is_orphan(self, path: Path) -> bool:
        """Whether it is a subagent's, and its parent's file does not say yet where it began."""
        spawned = spawned_in(path)
        return spawned is not None and self.catalogue.spawner(*spawned) is None

    def _import(self, files: Sequence[File]) -> Iterator[ImportedChange]:
        """Import files; yield what is new, where anything is."""
        if not files:
            return
        if self._pinned is None:
            self._pinned = frozenset(self.store.retention())
        for file in files:
            if file.name not in self._known:
                self._known[file.name] = self._first(file)
        by_shown = {file.shown: self._known[file.name] for file in files}
        sizes = {file.shown: file.size for file in files}
        began = self.clock()
        for one in Importer(self.store, self.catalogue).run(files):
            known = by_shown.get(one.report.source)
            if known is None or one.is_unchanged:
                continue
            size = sizes[one.report.source]
            if one.report.format is not None:
                yield from self._take(known, one, size)
            elif one.report.raw is not None:
                self._keep(known, one.report, has_grown=size >= known.size)
                known.size = size
        took_s = (self.clock() - began) / len(files)
        again_s = began + (1 + SHARE) * took_s if took_s > FREE_S else 0.0
        for known in by_shown.values():
            known.again_s = again_s

    def _take(self, known: _Known, one: ImportResult, size: int) -> list[ImportedChange]:
        """Take what became of a file. What was cut or replaced stays as it was read."""
        tips = frozenset(tip.ctx for tip in one.report.tips)
        is_same = one.report.session == known.session or bool(tips & known.tips)
        has_grown = is_same and size >= known.size
        self._keep(known, one.report, has_grown=has_grown)
        commits = self._new(one.report, one.new)
        if has_grown:
            self._supersede(known.tips, one.report)
        known.tips, known.session, known.size = tips, one.report.session, size
        return [ImportedChange(one.report, commits)] if commits else []

    def _first(self, file: File) -> _Known:
        """Return what the catalogue knows of a file."""
        listed = self.catalogue.known([file.name]).get(file.name)
        if listed is None:
            return _Known()
        with suppress(msgspec.DecodeError):
            report = msgspec.json.decode(listed.record, type=Report)
            tips = frozenset(tip.ctx for tip in report.tips)
            return _Known(report.raw, False, tips, report.session, listed.mark.size)
        return _Known()

    def _keep(self, known: _Known, report: Report, *, has_grown: bool) -> None:
        """Keep the bytes of a file as they are now; where it grew, no more as they were before."""
        if known.raw == report.raw:
            return
        if has_grown and known.is_ours and known.raw is not None:
            with suppress(NameNotFound):
                self.store.set_retention({ArtifactRef(known.raw): None})
        known.raw, known.is_ours = report.raw, report.raw not in (self._pinned or ())

    def _new(self, report: Report, new: int) -> tuple[StoredCommit, ...]:
        """Return the commits that an import has made."""
        found: dict[CommitId, StoredCommit] = {}
        before = self._known_tips()
        for tip in report.tips:
            if len(found) >= new:
                break
            with suppress(NameNotFound, ObjectNotFound):
                for one in self.store.chain(CommitId(tip.ctx), new):
                    if one.id in found or one.id in before or len(found) >= new:
                        break
                    found[one.id] = one
        return tuple(sorted(found.values(), key=lambda one: one.commit.created_at))

    def _known_tips(self) -> set[str]:
        return {tip for known in self._known.values() for tip in known.tips}

    def _supersede(self, tips: Iterable[str], report: Report) -> None:
        """Label the ends of before on which nothing was built: they were not whole."""
        ends = {tip.ctx for tip in report.tips}
        for tip in tips:
            at: CommitId | None = CommitId(tip)
            gone: set[CommitId] = set()
            with suppress(NameNotFound):
                while (
                    at is not None and at not in ends and gone.issuperset(self.store.children(at))
                ):
                    supersede(self.store, at)
                    gone.add(at)
                    at = show(self.store, at).commit.parent


def supersede(store: Store, ctx: CommitId) -> None:
    """Label a commit in whose place another one stands. Raises NameNotFound, StoreError."""
    labels = {*show(store, ctx).notes.labels, SUPERSEDED}
    update_metadata(store, ctx, labels=sorted(labels))
