"""Importing: files of other runtimes become commits, and their bytes are kept.

One idea: a commit follows from the file alone, and what has the same content at the same times
after the same beginning is the same history, whatever file it stands in. So importing again, a
copy that a runtime made to resume, or a session at a later moment, add only what is new.

What is small is written together: the disk is waited for once for many files. Only then does the
catalogue say that they were read.

Source: docs/design/005-other-runtimes.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from harken.capture.history import History, plain
from harken.capture.report import Bad, Imported, Report, Tip
from harken.capture.sources import File
from harken.context.checkpoint import Prepared, batch_of, prepare
from harken.core.commits import ArtifactRef, CommitId, raw_ref
from harken.errors import FormatError, HarkenError
from harken.formats.native import Native, Reading, Source, Step
from harken.formats.natives import LOOKED_AT_BYTES, native_of
from harken.index.catalogue import Catalogue
from harken.store.base import Batch, Keeping, Store
from harken.store.files import file_of, put_file

MAIN = "main"
"""What the main conversation is called among the agents of a source."""
SMALL_BYTES = 8 * 1024 * 1024
"""A file up to here is held in memory; a larger one is read from the store, where it is then."""
FLUSH_BYTES = 8 * 1024 * 1024
"""So much is written at once."""
_MOST_BAD = 100
"""So many bad lines of a source are told in full."""


class _Later(HarkenError):
    """The parent of a subagent may be in a file that comes later."""


@dataclass(slots=True)
class _Waiting:
    """What is not written yet."""

    batches: list[Batch] = field(default_factory=list)
    made: list[Prepared] = field(default_factory=list)
    pins: list[ArtifactRef] = field(default_factory=list)
    size: int = 0

    def whole(self) -> Batch:
        """Return all of it as one batch."""
        commits = batch_of(self.made)
        return Batch(
            raw={name: body for one in self.batches for name, body in one.raw.items()},
            files={name: made for one in self.batches for name, made in one.files.items()},
            objects=commits.objects,
            deltas=commits.deltas,
            commits=commits.commits,
        )


class Importer:
    """Imports files into a store."""

    def __init__(self, store: Store, catalogue: Catalogue) -> None:
        """Write to this store, and note it in this catalogue."""
        self._store, self._catalogue = store, catalogue
        self._waiting = _Waiting()
        self._there: set[CommitId] = set()
        """Commits of which it is known that they are in the store, or wait to be written."""

    def run(
        self, files: Sequence[File], tell: Callable[[int], None] = lambda _: None
    ) -> Iterator[Imported]:
        """Import files; yield each when it is in the store. `tell`: how many bytes are done.

        What was read before and has not changed is not read again. A file that cannot be read is
        reported. Raises StoreError.
        """
        known = self._unchanged(files)
        for report in known.values():
            yield Imported(report, is_unchanged=True)
        done = 0
        ready: list[Imported] = []
        later: list[File] = []
        for some in ([file for file in files if file.name not in known], later):
            for file in some:
                try:
                    ready.append(self._bring(file, is_last=some is later))
                except _Later:
                    later.append(file)
                    continue
                done += file.size
                tell(done)
                if self._waiting.size >= FLUSH_BYTES:
                    self._flush()
                    yield from ready
                    ready = []
        self._flush()
        yield from ready

    def _unchanged(self, files: Sequence[File]) -> dict[str, Report]:
        """Return what was told of files that are as they were, and are in the store."""
        known = self._catalogue.known(file.name for file in files)
        found: dict[str, Report] = {}
        for file in files:
            one = known.get(file.name)
            if one is not None and (one.mark.size, one.mark.mtime_ns) == (file.size, file.mtime_ns):
                with suppress(OSError, msgspec.DecodeError):
                    if file.mark() == one.mark:
                        found[file.name] = _reports.decode(one.record)
        tips = {CommitId(tip.ctx) for report in found.values() for tip in report.tips}
        there = self._store.commits(tips)
        kept = self._store.kept()
        return {
            name: report
            for name, report in found.items()
            if all(tip.ctx in there for tip in report.tips)
            and (report.raw is None or report.raw in kept)
            and not self._is_found(report)
        }

    def _is_found(self, report: Report) -> bool:
        """Whether the parent that a subagent lacked is known by now."""
        where = report.orphan
        return where is not None and self._catalogue.spawner(*where) is not None

    def _bring(self, file: File, *, is_last: bool) -> Imported:
        """Read a file. Raises _Later where its parent may come, and it is not the last time."""
        try:
            mark, beginning = file.mark(), file.beginning(LOOKED_AT_BYTES)
            native = native_of(file.shown, beginning)
            if native is None and beginning:
                report, new = Report(source=file.shown, reason="nobody here reads it"), 0
            else:
                raw, source = self._whole(file, native)
                report, new = self._read(raw, source, native, is_last=is_last)
        except FormatError as error:
            report, new = Report(source=file.shown, reason=str(error)), 0
        except OSError as error:
            reason = f"it cannot be read ({error.strerror or error})"
            return Imported(Report(source=file.shown, reason=reason))
        self._catalogue.note(file.name, mark, msgspec.json.encode(report))
        return Imported(report, new=new)

    def _whole(self, file: File, native: Native | None) -> tuple[ArtifactRef, Source]:
        """Keep a file, with what its runtime has beside it. As `_kept`; raises FormatError."""
        if native is None or native.settled is None:
            return self._kept(file.path, file.shown)
        with TemporaryDirectory(prefix="harken-") as folder:
            return self._kept(native.settled(file.path, Path(folder)), file.shown)

    def _kept(self, path: Path, name: str) -> tuple[ArtifactRef, Source]:
        """Keep the bytes of a file; return their name, and what reads the very same bytes."""
        if path.stat().st_size > SMALL_BYTES:
            with path.open("rb") as opened:
                raw = put_file(self._store, opened)
            source = Source(name, lambda: self._store.pieces(raw))
        else:
            data = path.read_bytes()
            raw = raw_ref(data)
            self._waiting.batches.append(file_of(data))
            self._waiting.size += len(data)
            source = Source(name, lambda: [data])
        self._waiting.pins.append(raw)
        return raw, source

    def _read(
        self, raw: ArtifactRef, source: Source, native: Native | None, *, is_last: bool
    ) -> tuple[Report, int]:
        """Make commits of a file; return what became of it, and how many commits are new."""
        report = Report(source=source.name, raw=raw)
        if native is None:
            return msgspec.structs.replace(report, reason="it is empty"), 0
        history = History(native, Reading(), is_last)
        try:
            for step in native.steps(source, history.reading):
                self._take(step, history)
                if self._waiting.size >= FLUSH_BYTES:
                    self._flush()
        except FormatError as error:
            return msgspec.structs.replace(report, reason=str(error)), 0
        reading = history.reading
        for agent, step_id in reading.spawned.items():
            if step_id in history.steps:
                where = native.runtime, reading.session_id, agent
                self._catalogue.note_spawner(*where, history.ctx(step_id))
        return _report(report, history), history.new

    def _take(self, step: Step, history: History) -> None:
        """Make a commit of a step, or find the one that it became in another file."""
        parent = None if step.parent is None else history.ctx(step.parent)
        if parent is None and step.trigger == "spawn":
            parent = self._spawner(step, history)
        made = prepare(history.draft(step, parent))
        key = history.key(step, made)
        ctx = self._catalogue.lineage([key]).get(key)
        if ctx is None or not self._is_there(ctx):
            ctx = made.id
            self._catalogue.note_lineage({key: ctx})
            self._waiting.made.append(made)
            self._waiting.size += made.size_bytes
            self._there.add(ctx)
            history.new += 1
        history.place(step, ctx, key)

    def _spawner(self, step: Step, history: History) -> CommitId | None:
        """Return the commit that spawned a subagent, which is in another file."""
        reading = history.reading
        where = (history.native.runtime, reading.parent or reading.session_id, step.agent)
        found = self._catalogue.spawner(*where)
        if found is not None and self._is_there(found):
            return found
        if not history.steps and not history.is_last:
            raise _Later
        history.orphan = where
        return None

    def _is_there(self, ctx: CommitId) -> bool:
        if ctx not in self._there:
            self._there.update(self._store.commits([ctx]))
        return ctx in self._there

    def _flush(self) -> None:
        """Write what waits, and let the catalogue say so."""
        self._write()
        self._catalogue.commit()

    def _write(self) -> None:
        waiting, self._waiting = self._waiting, _Waiting()
        if waiting.batches or waiting.made:
            self._store.write(waiting.whole())
        self._there.clear()  # from here on the store knows
        if waiting.pins:
            self._store.keep(dict.fromkeys(waiting.pins, Keeping("pin")))


def _report(report: Report, history: History) -> Report:
    reading = history.reading
    ends = [*reading.tips.items(), *reading.branches]
    return msgspec.structs.replace(
        report,
        format=history.native.name,
        tips=tuple(
            Tip(plain(agent) or MAIN, history.ctx(step))
            for agent, step in ends
            if step in history.steps
        ),
        lines=reading.lines,
        bad_lines=len(reading.bad),
        bad=tuple(Bad(one.number, one.start, one.reason) for one in reading.bad[:_MOST_BAD]),
        kept=dict(reading.kept),
        session=plain(reading.session_id),
        title=plain(reading.title),
        folder=plain(reading.folder),
        version=plain(reading.version),
        notes=tuple(reading.notes),
        commits=len({became[:32] for became in history.steps.values()}),
        orphan=history.orphan,
    )


_reports = msgspec.json.Decoder(Report)
