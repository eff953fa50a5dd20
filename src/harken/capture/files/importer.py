"""Import files of other runtimes as commits, and store their bytes.

A commit is determined by the file alone. Equal content at equal times after an equal beginning is
the same history, whatever file it is in. So importing again adds only what is new, also from a copy
that a runtime made to resume, or from a later state of a session.

Small files are written together, so that one sync covers many of them. The catalogue lists files as
read only after that.

A step has two names: its commit, which depends on all that the file says, and its key, which
depends only on the messages. A copy of a conversation has other ids but the same keys.

Source: docs/design/005-other-runtimes.md.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

import msgspec

from harken.capture.files.file_reader import (
    OpenedFile,
    StoredFile,
    failed_summary,
    open_source_file,
)
from harken.capture.files.grown_file import (
    CommitBuilder,
    RunningHashes,
    SavedReading,
    decode_reading,
    open_grown_file,
)
from harken.capture.files.parsed_file import FileSummary, PreparedStep, complete_report
from harken.capture.files.report import ImportProgress, ImportResult, Report
from harken.capture.files.sources import File, with_companions
from harken.capture.files.stored_files import StoredFiles, summarize_stored
from harken.capture.files.worker_pool import ReaderPool
from harken.capture.files.write_buffer import WriteBuffer
from harken.capture.redacted_file import FileNotRedactable, iter_file
from harken.context.checkpoint import CommitIdentity
from harken.core import structs
from harken.core.clock import normalize_rfc3339
from harken.core.commits import ArtifactRef, Commit, CommitId
from harken.core.secrets.redaction import Credentials, find_kind, redact
from harken.errors import CredentialRefused, FormatError, HarkenError
from harken.executors.executor import Executor
from harken.executors.workers import Workers
from harken.index.catalogue import Catalogue
from harken.store.base import Name, Store, Tombstone
from harken.store.batch import name_commit
from harken.store.capabilities import find_existing_commits
from harken.store.chunking import put_file
from harken.store.imported_files import FileRecord, Spawner
from harken.store.purge import find_purged_beginning

MIN_POOL_BYTES = 8 * 1024 * 1024
"""Below this size, starting other processes takes longer than reading the files."""
FLUSH_BYTES = 8 * 1024 * 1024
"""The number of bytes that are written at once."""


class _ParentPending(HarkenError):
    """The parent of a subagent may be in a file that comes later."""


class Importer:
    """Import files into a store."""

    def __init__(
        self,
        store: Store,
        catalogue: Catalogue,
        *,
        workers: Workers | None = None,
        identity: CommitIdentity | None = None,
        live_since: str | None = None,
        hashes: RunningHashes | None = None,
        redact: Credentials | None = None,
    ) -> None:
        """Write to this store, and list the files in this catalogue.

        workers: the processes that read files if there is much to read. None means this process
        only. identity: the identity of new commits. live_since: steps at or after this time are
        recorded while their session runs, so their trigger is a turn boundary, not an import.
        hashes: those of files that grow, for several importers. redact: removes credentials before
        anything is stored, and counts them.
        """
        self._workers, self._identity = workers or Workers(), identity or CommitIdentity()
        self._redact = redact
        self._live_since = None if live_since is None else normalize_rfc3339(live_since)
        self._store, self._catalogue, self._shelf = store, catalogue, _StoreLargeFiles(store)
        self._buffer = WriteBuffer()
        self._existing: set[CommitId] = set()
        """Commits that are in the store or in the write buffer."""
        self._hashes = RunningHashes() if hashes is None else hashes
        self._stored: StoredFiles
        """The states of files in the store when the run began."""
        self._purged: Mapping[Name, Tombstone] = {}
        """The purged content of the store when the run began."""
        self._executor: Executor | None = None
        """The workers, while they run."""
        self.lost_workers = 0
        """The number of times that files were parsed again because a worker had died."""
        self._readings: dict[str, SavedReading] = {}
        """The earlier readings of files that may have grown."""

    def run(
        self, files: Sequence[File], tell: Callable[[ImportProgress], None] = lambda _: None
    ) -> Iterator[ImportResult]:
        """Import files and their companions. Yield each result when it is in the store.

        `tell` is called after each file that had to be read. Unchanged files are not read again. A
        file that cannot be read is reported. Raises StoreError; ConfigError, ExecutorFailed if the
        workers cannot be used.
        """
        with ExitStack() as stack:
            yield from self._run(files, tell, stack)

    def _run(
        self, files: Sequence[File], tell: Callable[[ImportProgress], None], stack: ExitStack
    ) -> Iterator[ImportResult]:
        """Import files. `stack` ends the workers."""
        names = {file.name: file for file in with_companions(files)}
        self._stored = StoredFiles(self._store)
        unchanged = self._unchanged(names)
        for report in unchanged.values():
            yield ImportResult(report, is_unchanged=True)
        new = [file for name, file in names.items() if name not in unchanged]
        self._stored.read(file.name for file in new)
        self._purged = self._store.tombstones() if new else {}
        self._readings = self._find_readings(new)
        size, done_count, done_size = sum(file.size for file in new), 0, 0
        ready: list[tuple[File, ImportResult]] = []
        later: list[File] = []
        for batch in (new, later):
            for file, open_file in self._open_ahead(batch, stack):
                try:
                    result = self._import_file(file, open_file, is_last=batch is later)
                    ready.append((file, result))
                except _ParentPending:
                    later.append(file)
                    continue
                except CredentialRefused:
                    refused = [*(earlier for earlier, _ in ready), file]
                    ready = []
                    yield from map(self._import_alone, refused)
                done_count, done_size = done_count + 1, done_size + file.size
                tell(ImportProgress(done_count, len(new), done_size, size))
                if self._buffer.size >= FLUSH_BYTES:
                    yield from self._flush_results(ready)
                    ready = []
        yield from self._flush_results(ready)

    def _flush_results(self, ready: Sequence[tuple[File, ImportResult]]) -> Iterator[ImportResult]:
        """Write the buffer with the content of these files. Yield their results."""
        try:
            self._flush()
        except CredentialRefused:  # It is unknown which of the files has the credential.
            yield from (self._import_alone(file) for file, _ in ready)
        else:
            yield from (result for _, result in ready)

    def _import_alone(self, file: File) -> ImportResult:
        """Import a file again and write it, after its content was refused with that of others."""
        self._discard()
        try:
            result = self._import_file(file, partial(self._open_file, file), is_last=True)
            self._flush()
        except CredentialRefused as error:
            self._discard()
            reason = (
                f"it has a credential ({error.kind}) that could not be removed: "
                "remove it from the file"
            )
            return ImportResult(Report(source=file.display_name, reason=reason))
        return result

    def _discard(self) -> None:
        """Forget everything that was not written."""
        self._buffer = WriteBuffer()
        self._existing.clear()
        self._catalogue.discard()

    def _unchanged(self, files: Mapping[str, File]) -> dict[str, Report]:
        """Return the stored reports of files that have not changed and are in the store."""
        cached_by_name = self._catalogue.find_entries(files)
        reports: dict[str, Report] = {}
        for name, file in files.items():
            cached = cached_by_name.get(name)
            if cached is not None and (cached.fingerprint.size, cached.fingerprint.mtime_ns) == (
                file.size,
                file.mtime_ns,
            ):
                with suppress(OSError, msgspec.DecodeError):
                    if file.compute_fingerprint() == cached.fingerprint:
                        reports[name] = _reports.decode(cached.record)
        tips = {CommitId(tip.ctx) for report in reports.values() for tip in report.tips}
        existing = find_existing_commits(self._store, tips)
        return {
            name: report
            for name, report in reports.items()
            if all(tip.ctx in existing for tip in report.tips)
            and (report.raw is None or cached_by_name[name].head == self._stored.get_head(name))
            and not self._is_parent_found(report)
        }

    def _is_parent_found(self, report: Report) -> bool:
        """Whether the missing parent of a subagent is in the catalogue by now."""
        spawn_key = report.orphan
        return spawn_key is not None and self._catalogue.spawner(*spawn_key) is not None

    def _open_ahead(
        self, files: Sequence[File], stack: ExitStack
    ) -> Iterator[tuple[File, Callable[[], OpenedFile]]]:
        """Yield files in order, with a function that opens each."""
        changed = [file for file in files if file.name not in self._readings]
        is_worthwhile = sum(file.size for file in changed) >= MIN_POOL_BYTES
        if (
            changed
            and self._workers.has_processes
            and (is_worthwhile or not self._workers.is_local)
        ):
            if self._executor is None:
                self._executor = stack.enter_context(self._workers.open())
                stack.callback(self._forget_executor)
            pool = ReaderPool(self._executor, is_redacted=self._redact is not None)
            ahead = pool.ahead(changed, self._open_file)
            for file in files:
                is_grown = file.name in self._readings
                yield (file, partial(self._open_file, file)) if is_grown else next(ahead)
        else:
            for file in files:
                yield file, partial(self._open_file, file)

    def _forget_executor(self) -> None:
        if self._executor is not None:
            self.lost_workers += self._executor.lost_workers
        self._executor = None

    def _open_file(self, file: File) -> OpenedFile:
        saved = self._readings.get(file.name)
        credentials = None if self._redact is None else Credentials()
        opened = None
        if saved is not None:
            opened = open_grown_file(file, saved, self._hashes, credentials)
        if opened is None:
            self._readings.pop(file.name, None)
            opened = open_source_file(file, self._shelf, credentials)
        opened.credentials = credentials
        return opened

    def _find_readings(self, files: Sequence[File]) -> dict[str, SavedReading]:
        """Return the earlier readings of files, if their commits and bytes are in the store."""
        sizes = {file.name: file.size for file in files}
        readings: dict[str, SavedReading] = {}
        for name, data in self._catalogue.find_readings(sizes).items():
            saved = decode_reading(data)
            if saved is not None and saved.size < sizes[name]:
                readings[name] = saved
        if not readings:
            return {}
        tips = {ctx for saved in readings.values() for ctx in saved.tips}
        existing = find_existing_commits(self._store, tips)
        return {
            name: saved
            for name, saved in readings.items()
            if existing.issuperset(saved.tips)
            and saved.raw == self._stored.get_raw(name)
            and saved.raw not in self._purged
            and (saved.orphan is None or self._catalogue.spawner(*saved.orphan) is None)
        }

    def _import_file(
        self, file: File, open_file: Callable[[], OpenedFile], *, is_last: bool
    ) -> ImportResult:
        """Import a file.

        Raises _ParentPending if its parent may come later, unless this is the last attempt.
        """
        kind = "" if self._redact is None else find_kind(os.fsencode(file.name))
        if kind:
            reason = f"its name has a credential ({kind}), and names are stored; rename it"
            return ImportResult(Report(source=redact(file.display_name).text, reason=reason))
        try:
            opened = open_file()
        except FileNotRedactable as error:
            return ImportResult(Report(source=file.display_name, reason=str(error)))
        except OSError as error:
            reason = f"it cannot be read ({error.strerror or error})"
            return ImportResult(Report(source=file.display_name, reason=reason))
        history = CommitBuilder(opened.runtime, is_last)
        saved = self._readings.get(file.name)
        if saved is not None:
            history.restore(saved)
        ending = self._commit_steps(opened, file.display_name, history)
        if self._has_purged(opened):
            self._write()
            ending = summarize_stored(self._store, opened, ending)
        report = structs.replace(
            complete_report(ending, history.find_commit),
            commits=history.count_commits(),
            orphan=history.orphan,
        )
        if self._redact is not None and opened.credentials is not None:
            self._redact.add(opened.credentials)
            report = structs.replace(report, redacted=opened.credentials.kinds)
        head = None
        if opened.raw is not None:
            earlier = self._stored.find_uncontained(
                file.name, opened, is_grown=saved is not None, has_commits=history.has_commits
            )
            record = _build_record(file, opened, report, history)
            head = self._buffer.add_record(record, opened.raw, earlier)
        self._catalogue.note(file.name, opened.fingerprint, msgspec.json.encode(report), head)
        self._catalogue.note_reading(file.name, _encode_reading(opened, ending, history))
        return ImportResult(
            report,
            new=history.new,
            new_messages=history.new_messages,
            parsed_bytes=opened.parsed_bytes,
        )

    def _has_purged(self, file: OpenedFile) -> bool:
        """Whether a file in memory contains purged content. A large one is read from the store."""
        return bool(self._purged) and any(
            piece.name in self._purged or find_purged_beginning(piece.body, self._purged)
            for piece in file.pieces
        )

    def _commit_steps(self, file: OpenedFile, source: str, history: CommitBuilder) -> FileSummary:
        """Create the commits of a file, and store its bytes.

        Return the summary. Raises _ParentPending.
        """
        waiting, first_piece = self._buffer, 0
        try:
            for piece, ready in file.steps:
                waiting.add_pieces(file.pieces[first_piece:piece])
                first_piece = max(first_piece, piece)
                self._add_step(ready, history)
                if self._buffer.size >= FLUSH_BYTES and not file.pieces:
                    self._flush()
            ending = file.read_summary()
        except FormatError as error:
            ending = failed_summary(source, file.raw, error)
        if file.raw is not None and file.pieces:
            self._buffer.add_pieces(file.pieces[first_piece:])
            self._buffer.add_file(file.raw, [name for name, _ in file.chunks])
        for agent, step in ending.spawned.items():
            if step in history.steps:
                spawn_key = history.runtime, ending.session, agent
                history.spawners[agent] = history.get_commit(step)
                self._catalogue.note_spawner(*spawn_key, history.spawners[agent])
        return ending

    def _add_step(self, ready: PreparedStep, history: CommitBuilder) -> None:
        """Create the commit of a step, or find the equal commit of another file."""
        parent = None if ready.parent is None else history.get_commit(ready.parent)
        if parent is None and ready.spawned_in is not None:
            parent = self._find_spawner(ready, ready.spawned_in, history)
        key = history.key(ready, parent)
        ctx = self._catalogue.find_lineage_commit(key, is_new=history.is_fresh(ready.parent))
        is_fresh = ctx is None
        if ctx is None or not self._exists(ctx):
            commit = self._complete(structs.replace(ready.commit, parent=parent))
            stored_object, new = name_commit(commit, ready.notes)
            ctx = new.id
            self._catalogue.note_lineage({key: ctx})
            self._buffer.add(ready.things, stored_object, new)
            self._existing.add(ctx)
            history.new += 1
            if commit.type == "delta":
                history.new_messages += commit.message_count
        history.set_commit(ready.step, ctx, key, is_fresh=is_fresh)

    def _complete(self, commit: Commit) -> Commit:
        """Return a commit with the identity, and with the trigger of a live session."""
        commit = self._identity.assign(commit)
        is_live = self._live_since is not None and commit.created_at >= self._live_since
        if is_live and commit.checkpoint == "import":
            commit = structs.replace(commit, checkpoint="turn_boundary")
        return commit

    def _find_spawner(
        self, ready: PreparedStep, session: str, history: CommitBuilder
    ) -> CommitId | None:
        """Return the commit that spawned a subagent, which is in another file."""
        spawn_key = (history.runtime, session, ready.agent)
        spawner = self._catalogue.spawner(*spawn_key)
        if spawner is not None and self._exists(spawner):
            return spawner
        if not history.steps and not history.is_last:
            raise _ParentPending
        history.orphan = spawn_key
        return None

    def _exists(self, ctx: CommitId) -> bool:
        if ctx not in self._existing:
            self._existing.update(find_existing_commits(self._store, [ctx]))
        return ctx in self._existing

    def _flush(self) -> None:
        """Write the buffer, then commit the catalogue."""
        self._write()
        self._catalogue.commit()

    def _write(self) -> None:
        buffer, self._buffer = self._buffer, WriteBuffer()
        buffer.write(self._store)
        self._existing.clear()  # The buffered commits are in the store now.


class _StoreLargeFiles:
    """A store for files that are too large for memory."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def put(self, path: Path, credentials: Credentials | None = None) -> StoredFile:
        chunks: list[tuple[ArtifactRef, int]] = []
        file = iter_file(path, credentials)
        name = put_file(self._store, file, lambda *chunk: chunks.append(chunk))
        return StoredFile(name, chunks)

    def pieces(self, name: ArtifactRef) -> Iterable[bytes]:
        return self._store.read_chunks(name)


def _build_record(
    file: File, opened: OpenedFile, report: Report, history: CommitBuilder
) -> FileRecord:
    """Return the record of a file, which stands in the store beside its bytes."""
    spawners = (
        Spawner(history.runtime, report.session, agent, ctx)
        for agent, ctx in history.spawners.items()
    )
    return FileRecord(
        machine=platform.node(),
        path=file.name,
        size=opened.fingerprint.size,
        mtime_ns=opened.fingerprint.mtime_ns,
        tail=opened.fingerprint.tail.hex(),
        report=msgspec.to_builtins(report),
        spawners=tuple(spawners),
    )


def _encode_reading(file: OpenedFile, ending: FileSummary, history: CommitBuilder) -> bytes | None:
    """Return a reading to save. Return None if the file has to be read from its beginning."""
    point, raw = ending.point, file.raw
    if point is None or raw is None or file.is_copy:
        return None
    saved = SavedReading(
        runtime=file.runtime,
        size=sum(size for _, size in file.chunks),
        raw=raw,
        chunks=file.chunks,
        point=point,
        steps=history.get_records(point.step_ids),
        commits=history.count_commits(point.steps),
        orphan=history.orphan,
    )
    try:
        return msgspec.msgpack.encode(saved)
    except UnicodeEncodeError:  # A name with a lone surrogate.
        return None


_reports = msgspec.json.Decoder(Report)
