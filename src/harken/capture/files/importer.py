"""Importing: files of other runtimes become commits, and their bytes are kept.

One idea: a commit follows from the file alone, and what has the same content at the same times
after the same beginning is the same history, whatever file it stands in. So importing again, a
copy that a runtime made to resume, or a session at a later moment, add only what is new.

What is small is written together: the disk is waited for once for many files. Only then does the
catalogue say that they were read.

Source: docs/design/005-other-runtimes.md.

A history: the steps of a file that is being read, and the commits that they become.

One idea: a step has two names. Its commit follows from all that the file says, its key from what
was said alone: so a copy of a conversation, which has other ids, is known by its keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import msgspec
from blake3 import blake3

from harken.capture.files.file_reader import OpenedFile, failed, open_source_file
from harken.capture.files.parsed_file import FileSummary, PreparedStep, sanitize_name
from harken.capture.files.report import MAIN, ConversationTip, ImportResult, Progress, Report
from harken.capture.files.sources import File, with_companions
from harken.capture.files.worker_pool import start_pool
from harken.capture.files.write_buffer import WriteBuffer, known_of
from harken.core.commits import ArtifactRef, CommitId
from harken.errors import FormatError, HarkenError
from harken.index.catalogue import Catalogue
from harken.store.base import RetentionPolicy, Store
from harken.store.batch import name_commit
from harken.store.chunking import put_file

_LENGTH = 32 + 16 + 1


@dataclass(slots=True)
class CommitBuilder:
    """A file that is being read."""

    runtime: str
    is_last: bool
    """Whether the parent of a subagent that is not known by now will not come any more."""
    steps: dict[str, int] = field(default_factory=dict)
    """Step -> where it stands in `_became`: a file may have many, and this takes little room."""
    _became: bytearray = field(default_factory=bytearray)
    """For each step the 32 bytes of the name of its commit, its key, and whether it is fresh."""
    new: int = 0
    orphan: tuple[str, str, str] | None = None

    @property
    def commits(self) -> int:
        """How many commits its steps became: counted in parts, since all names take much room."""
        held = self._became
        return sum(
            len({bytes(held[at : at + 32]) for at in self.steps.values() if held[at] % 16 == part})
            for part in range(16)
        )

    def place(self, step: str, ctx: CommitId, key: bytes, *, is_fresh: bool) -> None:
        """Say what a step became. is_fresh: no import knew it, but for this one."""
        self.steps[step] = len(self._became)
        self._became += bytes.fromhex(ctx.removeprefix("ctx-")) + key + bytes([is_fresh])

    def ctx(self, step: str) -> CommitId:
        """Return the commit that a step became."""
        return CommitId(f"ctx-{self._of(step)[:32].hex()}")

    def is_fresh(self, step: str | None) -> bool:
        """Whether no import knew a step: then none knew what follows it, either."""
        return step is not None and bool(self._of(step)[_LENGTH - 1])

    def key(self, ready: PreparedStep, parent: CommitId | None) -> bytes:
        """Return what is the same wherever the same was said since the beginning.

        parent: of the commit.
        """
        before = parent or self.runtime
        if ready.parent is not None:
            before = self._of(ready.parent)[32:-1].hex()
        return blake3(b'["%b",%b' % (before.encode(), ready.said)).digest(16)

    def _of(self, step: str) -> bytes:
        at = self.steps[step]
        return bytes(self._became[at : at + _LENGTH])


MUCH_BYTES = 8 * 1024 * 1024
"""Of less, one process is done before others have begun."""
FLUSH_BYTES = 8 * 1024 * 1024
"""So much is written at once."""


class _Later(HarkenError):
    """The parent of a subagent may be in a file that comes later."""


class Importer:
    """Imports files into a store."""

    def __init__(self, store: Store, catalogue: Catalogue, *, jobs: int = 1) -> None:
        """Write to this store, and note it in this catalogue.

        jobs: how many processes read files, where there is much to read; 1: this one alone.
        """
        self._jobs = jobs
        self._store, self._catalogue, self._shelf = store, catalogue, _Shelf(store)
        self._waiting = WriteBuffer()
        self._there: set[CommitId] = set()
        """Commits of which it is known that they are in the store, or wait to be written."""

    def run(
        self, files: Sequence[File], tell: Callable[[Progress], None] = lambda _: None
    ) -> Iterator[ImportResult]:
        """Import files, and those that belong to them; yield each when it is in the store.

        `tell` is called after each file that had to be read. What was read before and has not
        changed is not read again. A file that cannot be read is reported. Raises StoreError.
        """
        names = {file.name: file for file in with_companions(files)}
        known = self._unchanged(names)
        for report in known.values():
            yield ImportResult(report, is_unchanged=True)
        new = [file for name, file in names.items() if name not in known]
        size, done, done_size = sum(file.size for file in new), 0, 0
        ready: list[ImportResult] = []
        later: list[File] = []
        for some in (new, later):
            for file, brings in self._ahead(some):
                try:
                    ready.append(self._take_in(file, brings, is_last=some is later))
                except _Later:
                    later.append(file)
                    continue
                done, done_size = done + 1, done_size + file.size
                tell(Progress(done, len(new), done_size, size))
                if self._waiting.size >= FLUSH_BYTES:
                    self._flush()
                    yield from ready
                    ready = []
        self._flush()
        yield from ready

    def _unchanged(self, files: Mapping[str, File]) -> dict[str, Report]:
        """Return what was told of files that are as they were, and are in the store."""
        known = self._catalogue.known(files)
        found: dict[str, Report] = {}
        for name, file in files.items():
            one = known.get(name)
            if one is not None and (one.mark.size, one.mark.mtime_ns) == (file.size, file.mtime_ns):
                with suppress(OSError, msgspec.DecodeError):
                    if file.mark() == one.mark:
                        found[name] = _reports.decode(one.record)
        tips = {CommitId(tip.ctx) for report in found.values() for tip in report.tips}
        there = known_of(self._store, tips)
        kept = self._store.retention()
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

    def _ahead(self, files: Sequence[File]) -> Iterator[tuple[File, Callable[[], OpenedFile]]]:
        """Yield files in their order, with what brings each."""
        if self._jobs > 1 and sum(file.size for file in files) >= MUCH_BYTES:
            with start_pool(self._jobs) as crew:
                yield from crew.ahead(files, self._brought)
        else:
            for file in files:
                yield file, partial(self._brought, file)

    def _brought(self, file: File) -> OpenedFile:
        return open_source_file(file, self._shelf)

    def _take_in(
        self, file: File, brings: Callable[[], OpenedFile], *, is_last: bool
    ) -> ImportResult:
        """Read a file. Raises _Later where its parent may come, and it is not the last time."""
        try:
            brought = brings()
        except OSError as error:
            reason = f"it cannot be read ({error.strerror or error})"
            return ImportResult(Report(source=file.shown, reason=reason))
        history = CommitBuilder(brought.runtime, is_last)
        report = self._settled(brought, file.shown, history)
        self._catalogue.note(file.name, brought.mark, msgspec.json.encode(report))
        return ImportResult(report, new=history.new)

    def _settled(self, brought: OpenedFile, source: str, history: CommitBuilder) -> Report:
        """Make commits of a file, and keep its bytes; return what became of it. Raises _Later."""
        waiting, at = self._waiting, 0
        try:
            for piece, ready in brought.steps:
                waiting.keep(brought.pieces[at:piece])
                at = max(at, piece)
                self._take(ready, history)
                if self._waiting.size >= FLUSH_BYTES and not brought.pieces:
                    self._flush()
            ending = brought.ending()
        except FormatError as error:
            ending = failed(source, brought.raw, error)
        if brought.raw is not None:
            if brought.pieces:
                self._waiting.keep(brought.pieces[at:])
                self._waiting.whole(brought.raw, [ArtifactRef(one.name) for one in brought.pieces])
            self._waiting.pins.append(brought.raw)
        for agent, step in ending.spawned.items():
            if step in history.steps:
                where = history.runtime, ending.session, agent
                self._catalogue.note_spawner(*where, history.ctx(step))
        return _report(ending, history)

    def _take(self, ready: PreparedStep, history: CommitBuilder) -> None:
        """Make a commit of a step, or find the one that it became in another file."""
        parent = None if ready.parent is None else history.ctx(ready.parent)
        if parent is None and ready.spawned_in is not None:
            parent = self._spawner(ready, ready.spawned_in, history)
        key = history.key(ready, parent)
        ctx = self._catalogue.lineage_of(key, is_new=history.is_fresh(ready.parent))
        is_fresh = ctx is None
        if ctx is None or not self._is_there(ctx):
            commit = msgspec.structs.replace(ready.commit, parent=parent)
            thing, new = name_commit(commit, ready.notes)
            ctx = new.id
            self._catalogue.note_lineage({key: ctx})
            self._waiting.add(ready.things, thing, new)
            self._there.add(ctx)
            history.new += 1
        history.place(ready.step, ctx, key, is_fresh=is_fresh)

    def _spawner(
        self, ready: PreparedStep, session: str, history: CommitBuilder
    ) -> CommitId | None:
        """Return the commit that spawned a subagent, which is in another file."""
        where = (history.runtime, session, ready.agent)
        found = self._catalogue.spawner(*where)
        if found is not None and self._is_there(found):
            return found
        if not history.steps and not history.is_last:
            raise _Later
        history.orphan = where
        return None

    def _is_there(self, ctx: CommitId) -> bool:
        if ctx not in self._there:
            self._there.update(known_of(self._store, [ctx]))
        return ctx in self._there

    def _flush(self) -> None:
        """Write what waits, and let the catalogue say so."""
        self._write()
        self._catalogue.commit()

    def _write(self) -> None:
        waiting, self._waiting = self._waiting, WriteBuffer()
        waiting.write(self._store)
        self._there.clear()  # from here on the store knows
        if waiting.pins:
            self._store.set_retention(dict.fromkeys(waiting.pins, RetentionPolicy("pin")))


class _Shelf:
    """A store, for files that cannot be held in memory."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def put(self, path: Path) -> ArtifactRef:
        with path.open("rb") as opened:
            return put_file(self._store, opened)

    def pieces(self, name: ArtifactRef) -> Iterable[bytes]:
        return self._store.read_chunks(name)


def _report(ending: FileSummary, history: CommitBuilder) -> Report:
    ends = [*ending.tips.items(), *ending.branches]
    return msgspec.structs.replace(
        ending.report,
        tips=tuple(
            ConversationTip(sanitize_name(agent) or MAIN, history.ctx(step))
            for agent, step in ends
            if step in history.steps
        ),
        commits=history.commits,
        orphan=history.orphan,
    )


_reports = msgspec.json.Decoder(Report)
