"""Read a file: its bytes in chunks, and its parsed steps, each with the chunk it came from.

None of this needs a store, so several files can be read in parallel. Only a file that is too large
for memory is first written to a store, and read from there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from itertools import accumulate
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

import apsw
import msgspec

from harken.capture.files.companions import (
    AgentMeta,
    Outputs,
    find_session_folder,
    is_inside,
    is_output,
    read_agent_meta,
)
from harken.capture.files.parsed_file import CommitReader, FileSummary, PreparedStep, sanitize_name
from harken.capture.files.report import Report
from harken.capture.files.sources import File
from harken.capture.files.write_buffer import BufferedFile
from harken.capture.redacted_file import iter_file, redact_database
from harken.core import structs
from harken.core.commits import ArtifactRef, hash_raw
from harken.core.secrets.redaction import Credentials
from harken.errors import FormatError
from harken.formats.runtimes.base import ReadReport, RuntimeFormat, SessionFile
from harken.formats.runtimes.compressed import DecompressedFile, is_compressed
from harken.formats.runtimes.registry import CHECKED_BYTES, detect_runtime_format
from harken.index.catalogue import FileFingerprint
from harken.store.base import ObjectKind, StoredObject

CLAUDE_RUNTIME = "claude"
"""The runtime that moves outputs out of its transcripts."""
MAX_IN_MEMORY_BYTES = 8 * 1024 * 1024
"""The maximum size of a file that is held in memory. A larger file is read from the store."""


class FileTooLarge(Exception):
    """A file is too large for memory, and no store is available."""


class StoredFile(msgspec.Struct, frozen=True):
    """The name of the bytes of a file, and its chunks with their sizes."""

    name: ArtifactRef
    chunks: list[tuple[ArtifactRef, int]]


class LargeFileStore(Protocol):
    """The store for files that are too large for memory."""

    def put(self, path: Path, credentials: Credentials | None = None) -> StoredFile:
        """Write a file, without credentials if they are given. Raises StoreError, OSError."""
        ...

    def pieces(self, name: ArtifactRef) -> Iterable[bytes]:
        """Return the bytes of a stored file."""
        ...


class OpenedFile(msgspec.Struct):
    """An open file. It is parsed while its steps are consumed."""

    fingerprint: FileFingerprint
    read_summary: Callable[[], FileSummary]
    """Returns the summary of the file, after all steps were consumed."""
    runtime: str = ""
    """Empty if the file is not parsed."""
    raw: ArtifactRef | None = None
    pieces: list[StoredObject] = msgspec.field(default_factory=list)
    """Its chunks, if they are in memory. Of a file that grew: the new ones."""
    chunks: list[tuple[ArtifactRef, int]] = msgspec.field(default_factory=list)
    """The names and the sizes of all its chunks."""
    steps: Iterable[tuple[int, PreparedStep]] = ()
    """Each step with the number of the chunk in which it ends. Raises FormatError."""
    is_copy: bool = False
    """Whether its bytes were assembled from several files."""
    parsed_bytes: int = 0
    """The number of bytes that are parsed: all, or those after a read point."""
    credentials: Credentials | None = None
    """Counts the credentials that were removed. None if none are removed."""


class ParsedFile(msgspec.Struct, array_like=True):
    """A parsed file, as it is sent between processes.

    Bytes that can be read again are not sent: checking their hash takes less time.
    """

    size: int
    mtime_ns: int
    tail: bytes
    ending: FileSummary
    runtime: str
    raw: ArtifactRef | None
    cut: list[tuple[ArtifactRef, int]]
    """The names and the sizes of the chunks."""
    copy: bytes | None
    """Its bytes, if they cannot be read again."""
    steps: list[tuple[int, PreparedStep]]
    credentials: Credentials | None = None
    """The credentials that were removed from it. None if none are removed."""

    def to_opened_file(self, path: Path) -> OpenedFile | None:
        """Return the opened file. Return None if the file has changed. Raises OSError."""
        data = self.copy
        if data is None:
            data = path.read_bytes() if self.cut else b""
            if self.cut and hash_raw(data) != self.raw:
                return None
        ends = [*accumulate([size for _, size in self.cut], initial=0)]
        chunk_ranges = zip(self.cut, ends, ends[1:], strict=False)
        return OpenedFile(
            fingerprint=FileFingerprint(self.size, self.mtime_ns, self.tail),
            read_summary=lambda: self.ending,
            runtime=self.runtime,
            raw=self.raw,
            pieces=[
                StoredObject(ObjectKind.RAW, name, data[start:end])
                for (name, _), start, end in chunk_ranges
            ],
            chunks=self.cut,
            steps=self.steps,
            parsed_bytes=ends[-1],
            credentials=self.credentials,
        )


def open_source_file(
    file: File, large_files: LargeFileStore | None, credentials: Credentials | None = None
) -> OpenedFile:
    """Open a file, and remove credentials from its bytes if they are given.

    Raises OSError. Raises FileTooLarge if there is no store for a large file.
    """
    if is_output(file.path):
        return _open_unknown(file, large_files, credentials)
    mark, beginning = file.compute_fingerprint(), file.read_beginning(CHECKED_BYTES)
    native = detect_runtime_format(file.display_name, beginning)
    if native is None:
        return _open_unknown(file, large_files, credentials)
    opening = partial(_open_session, name=file.display_name, mark=mark, native=native)
    try:
        if native.copy_merged is None:
            return opening(file.path, large_files=large_files, credentials=credentials)
        with TemporaryDirectory(prefix="harken-") as folder:
            path = native.copy_merged(file.path, Path(folder))
            if credentials is not None:  # Then its bytes have no credentials.
                _redact_copy(path, native, credentials)
            opened = opening(path, large_files=large_files, credentials=None)
            return structs.replace(opened, is_copy=True)
    except FormatError as error:
        report = Report(source=file.display_name, reason=str(error))
        return OpenedFile(mark, lambda: FileSummary(report))


def _redact_copy(path: Path, native: RuntimeFormat, credentials: Credentials) -> None:
    """Remove credentials from a copy of a database. Raises FormatError."""
    try:
        redact_database(path, credentials)
    except apsw.Error as error:
        raise FormatError(native.name, f"its credentials cannot be removed: {error}") from None


def read_whole_file(file: File, credentials: Credentials | None = None) -> ParsedFile:
    """Read and parse a complete file, and remove credentials if they are given.

    Raises OSError, FileTooLarge.
    """
    opened = open_source_file(file, None, credentials)
    steps: list[tuple[int, PreparedStep]] = []
    try:
        steps += opened.steps
        ending = opened.read_summary()
    except FormatError as error:
        ending, steps = failed_summary(file.display_name, opened.raw, error), []
    mark, pieces = opened.fingerprint, opened.pieces
    is_changed = opened.is_copy or (credentials is not None and bool(credentials.kinds))
    return ParsedFile(
        mark.size,
        mark.mtime_ns,
        mark.tail,
        ending,
        opened.runtime,
        opened.raw,
        list_chunks(pieces),
        b"".join([piece.body for piece in pieces]) if is_changed else None,
        steps,
        credentials,
    )


def list_chunks(pieces: Iterable[StoredObject]) -> list[tuple[ArtifactRef, int]]:
    """Return the names and the sizes of chunks."""
    return [(ArtifactRef(piece.name), len(piece.body)) for piece in pieces]


def failed_summary(source: str, raw: ArtifactRef | None, error: FormatError) -> FileSummary:
    """Return the summary of a file that cannot be parsed. Its bytes are stored."""
    return FileSummary(Report(source=source, raw=raw, reason=str(error)))


def _open_unknown(
    file: File, large_files: LargeFileStore | None, credentials: Credentials | None
) -> OpenedFile:
    """Open a file of unknown format. Its bytes are stored if it is in the folder of a session."""
    report = Report(source=file.display_name, reason="unknown format", is_unknown=True)
    if not file.size:
        buffered = BufferedFile(b"")
        report = Report(
            source=file.display_name, raw=buffered.name, reason="it is empty", is_unknown=True
        )
        return OpenedFile(
            file.compute_fingerprint(),
            lambda: FileSummary(report),
            raw=buffered.name,
            pieces=buffered.pieces,
        )
    folder = find_session_folder(file.path)
    if folder is None:
        return OpenedFile(file.compute_fingerprint(), lambda: FileSummary(report))
    if not is_inside(file.path, folder):
        link_report = Report(
            source=file.display_name,
            reason="it is a link, which may refer to a file outside its session's folder",
        )
        return OpenedFile(
            FileFingerprint(file.size, file.mtime_ns, b""), lambda: FileSummary(link_report)
        )
    raw, pieces = _store_bytes(file.path, large_files, credentials)
    report_kept = Report(
        source=file.display_name,
        raw=raw,
        belongs_to=sanitize_name(folder.name),
        reason="unknown format; its bytes are stored with its session",
    )
    return OpenedFile(
        file.compute_fingerprint(), lambda: FileSummary(report_kept), raw=raw, pieces=pieces
    )


def _store_bytes(
    path: Path, large_files: LargeFileStore | None, credentials: Credentials | None
) -> tuple[ArtifactRef, list[StoredObject]]:
    """Return the name of a file's bytes, and its chunks if they are in memory.

    Raises FileTooLarge.
    """
    if path.stat().st_size <= MAX_IN_MEMORY_BYTES:
        buffered = BufferedFile(b"".join(iter_file(path, credentials)))
        return buffered.name, buffered.pieces
    if large_files is None:
        raise FileTooLarge
    return large_files.put(path, credentials).name, []


def _open_session(
    path: Path,
    *,
    name: str,
    mark: FileFingerprint,
    native: RuntimeFormat,
    large_files: LargeFileStore | None,
    credentials: Credentials | None,
) -> OpenedFile:
    """Open a file of a known format. The steps can be read even if the file is removed."""
    size = path.stat().st_size
    reading = ReadReport()
    if size <= MAX_IN_MEMORY_BYTES:
        buffered = BufferedFile(b"".join(iter_file(path, credentials)))
        size = buffered.size
        raw, pieces, chunks = buffered.name, buffered.pieces, list_chunks(buffered.pieces)
        source = _create_source(name, buffered.chunks, reading, size, is_held=True)
        piece_at: Callable[[int], int] = buffered.piece_at
    elif large_files is None:
        raise FileTooLarge
    else:
        stored = large_files.put(path, credentials)
        size = sum(chunk_size for _, chunk_size in stored.chunks)
        raw, pieces, chunks = stored.name, [], stored.chunks
        source = _create_source(name, lambda: large_files.pieces(raw), reading, size)
        piece_at = _first_piece
    reader = create_reader(native, path, source, reading, credentials)
    return OpenedFile(
        mark,
        lambda: reader.read_summary(Report(source=name, raw=raw)),
        native.runtime,
        raw,
        pieces,
        chunks,
        ((piece_at(reading.offset), step) for step in reader.steps()),
        parsed_bytes=size,
    )


def create_reader(
    native: RuntimeFormat,
    path: Path,
    source: SessionFile,
    reading: ReadReport,
    credentials: Credentials | None,
) -> CommitReader:
    """Return a reader of a file, with the data that its client stored next to it."""
    outputs, agent = None, AgentMeta()
    if native.runtime == CLAUDE_RUNTIME:
        outputs = Outputs.from_transcript(path, credentials)
        agent = read_agent_meta(path, credentials)
    return CommitReader(native, source, reading, outputs, agent)


def _first_piece(start: int) -> int:
    """Return 0: the file is in the store already, so no chunk is needed."""
    del start
    return 0


def _create_source(
    name: str,
    chunks: Callable[[], Iterable[bytes]],
    reading: ReadReport,
    size_bytes: int,
    *,
    is_held: bool = False,
) -> SessionFile:
    """Return the session file to parse: the bytes, or the decompressed bytes."""
    beginning = next(iter(chunks()), b"")
    if is_compressed(beginning):
        return SessionFile(name, DecompressedFile(name, chunks, size_bytes, reading.notes).pieces)
    reading.size_bytes = size_bytes
    return SessionFile(name, chunks, is_in_memory=is_held)
