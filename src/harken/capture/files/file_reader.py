"""Bringing a file: its bytes in pieces, and its steps made ready, each after the piece it came in.

One idea: all of this needs no store, so several files can be brought at once. Only a file that is
too large to be held is put into a store first, and read from there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from itertools import accumulate
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

import msgspec

from harken.capture.files.companions import (
    AgentMeta,
    Outputs,
    agent_meta_of,
    is_inside,
    is_output,
    session_folder_of,
)
from harken.capture.files.parsed_file import CommitReader, FileSummary, PreparedStep, sanitize_name
from harken.capture.files.report import Report
from harken.capture.files.sources import File
from harken.capture.files.write_buffer import BufferedFile
from harken.core.commits import ArtifactRef, hash_raw
from harken.errors import FormatError
from harken.formats.runtimes.base import ReadReport, RuntimeFormat, SessionFile
from harken.formats.runtimes.compressed import Unpacked, is_compressed
from harken.formats.runtimes.registry import LOOKED_AT_BYTES, native_of
from harken.index.catalogue import FileFingerprint
from harken.store.base import ObjectKind, StoredObject

CLAUDE = "claude"
"""The runtime that moves outputs out of its transcripts."""
SMALL_BYTES = 8 * 1024 * 1024
"""A file up to here is held in memory; a larger one is read from the store, where it is then."""


class FileTooLarge(Exception):
    """A file cannot be held in memory: who has a store brings it."""


class LargeFileStore(Protocol):
    """Where a file goes that cannot be held."""

    def put(self, path: Path) -> ArtifactRef:
        """Write a file; return its name. Raises StoreError, OSError."""
        ...

    def pieces(self, name: ArtifactRef) -> Iterable[bytes]:
        """Return its bytes again."""
        ...


@dataclass(slots=True)
class OpenedFile:
    """A file that was opened, and is read while its steps are taken."""

    mark: FileFingerprint
    ending: Callable[[], FileSummary]
    """What it told beside its steps, when all of them were taken."""
    runtime: str = ""
    """Empty: nothing in it is read."""
    raw: ArtifactRef | None = None
    pieces: list[StoredObject] = field(default_factory=list)
    """Its bytes, where they are held."""
    steps: Iterable[tuple[int, PreparedStep]] = ()
    """With the number of the piece in which each came. Raises FormatError."""
    is_copy: bool = False
    """Whether its bytes are others than those of the file: what was made of several."""


class ParsedFile(msgspec.Struct, array_like=True):
    """A file that was brought whole: what goes from one process to another.

    Its bytes do not, where they can be read again: to see by their name that they are the same
    takes less time.
    """

    size: int
    mtime_ns: int
    tail: bytes
    ending: FileSummary
    runtime: str
    raw: ArtifactRef | None
    cut: list[tuple[ArtifactRef, int]]
    """The pieces by name, and how long they are."""
    copy: bytes | None
    """Its bytes, where they cannot be read again."""
    steps: list[tuple[int, PreparedStep]]

    def brought(self, path: Path) -> OpenedFile | None:
        """Return what it was made of; None: the file has changed. Raises OSError."""
        data = self.copy
        if data is None:
            data = path.read_bytes() if self.cut else b""
            if self.cut and hash_raw(data) != self.raw:
                return None
        ends = [*accumulate([size for _, size in self.cut], initial=0)]
        places = zip(self.cut, ends, ends[1:], strict=False)
        return OpenedFile(
            mark=FileFingerprint(self.size, self.mtime_ns, self.tail),
            ending=lambda: self.ending,
            runtime=self.runtime,
            raw=self.raw,
            pieces=[
                StoredObject(ObjectKind.RAW, name, data[start:end])
                for (name, _), start, end in places
            ],
            steps=self.steps,
        )


def open_source_file(file: File, shelf: LargeFileStore | None) -> OpenedFile:
    """Open a file. Raises OSError; FileTooLarge where there is no shelf for it."""
    if is_output(file.path):
        return _unread(file, shelf)
    mark, beginning = file.mark(), file.beginning(LOOKED_AT_BYTES)
    native = native_of(file.shown, beginning)
    if native is None:
        return _unread(file, shelf)
    try:
        if native.settled is None:
            return _read(file.path, file.shown, mark, native, shelf)
        with TemporaryDirectory(prefix="harken-") as folder:
            path = native.settled(file.path, Path(folder))
            return replace(_read(path, file.shown, mark, native, shelf), is_copy=True)
    except FormatError as error:
        report = Report(source=file.shown, reason=str(error))
        return OpenedFile(mark, lambda: FileSummary(report))


def read_whole_file(file: File) -> ParsedFile:
    """Bring a file whole. Raises OSError, FileTooLarge."""
    brought = open_source_file(file, None)
    steps: list[tuple[int, PreparedStep]] = []
    try:
        steps += brought.steps
        ending = brought.ending()
    except FormatError as error:
        ending, steps = failed(file.shown, brought.raw, error), []
    mark, pieces = brought.mark, brought.pieces
    return ParsedFile(
        mark.size,
        mark.mtime_ns,
        mark.tail,
        ending,
        brought.runtime,
        brought.raw,
        [(ArtifactRef(one.name), len(one.body)) for one in pieces],
        b"".join([one.body for one in pieces]) if brought.is_copy else None,
        steps,
    )


def failed(source: str, raw: ArtifactRef | None, error: FormatError) -> FileSummary:
    """Return the ending of a file that cannot be read, and is kept."""
    return FileSummary(Report(source=source, raw=raw, reason=str(error)))


def _unread(file: File, shelf: LargeFileStore | None) -> OpenedFile:
    """Open what nobody reads: its bytes are kept if it lies in the folder of a session."""
    report = Report(source=file.shown, reason="nobody here reads it", is_unknown=True)
    if not file.size:
        held = BufferedFile(b"")
        report = Report(source=file.shown, raw=held.name, reason="it is empty", is_unknown=True)
        return OpenedFile(
            file.mark(), lambda: FileSummary(report), raw=held.name, pieces=held.pieces
        )
    folder = session_folder_of(file.path)
    if folder is None:
        return OpenedFile(file.mark(), lambda: FileSummary(report))
    if not is_inside(file.path, folder):
        linked = Report(
            source=file.shown, reason="it is a link, which may lead out of its session's folder"
        )
        return OpenedFile(
            FileFingerprint(file.size, file.mtime_ns, b""), lambda: FileSummary(linked)
        )
    kept, pieces = _kept(file.path, shelf)
    told = Report(
        source=file.shown,
        raw=kept,
        belongs_to=sanitize_name(folder.name),
        reason="nobody here reads it; its bytes are kept with its session",
    )
    return OpenedFile(file.mark(), lambda: FileSummary(told), raw=kept, pieces=pieces)


def _kept(path: Path, shelf: LargeFileStore | None) -> tuple[ArtifactRef, list[StoredObject]]:
    """Return the name of a file's bytes, and the bytes where they are held. Raises FileTooLarge."""
    if path.stat().st_size <= SMALL_BYTES:
        held = BufferedFile(path.read_bytes())
        return held.name, held.pieces
    if shelf is None:
        raise FileTooLarge
    return shelf.put(path), []


def _read(
    path: Path,
    name: str,
    mark: FileFingerprint,
    native: RuntimeFormat,
    shelf: LargeFileStore | None,
) -> OpenedFile:
    """Open what is read; it is at hand also when the file is gone."""
    size = path.stat().st_size
    reading = ReadReport()
    if size <= SMALL_BYTES:
        held = BufferedFile(path.read_bytes())
        raw, pieces = held.name, held.pieces
        source = _source(name, held.chunks, reading, size, is_held=True)
        piece_at: Callable[[int], int] = held.piece_at
    elif shelf is None:
        raise FileTooLarge
    else:
        raw, pieces = shelf.put(path), []
        source = _source(name, lambda: shelf.pieces(raw), reading, size)
        piece_at = _first_piece
    outputs, agent = None, AgentMeta()
    if native.runtime == CLAUDE:
        outputs, agent = Outputs.of(path), agent_meta_of(path)
    reader = CommitReader(native, source, reading, outputs, agent)
    steps = ((piece_at(reading.at), one) for one in reader.steps())
    report = Report(source=name, raw=raw)
    return OpenedFile(mark, lambda: reader.ending(report), native.runtime, raw, pieces, steps)


def _first_piece(start: int) -> int:
    """Return where a byte of a file that is in the store already is: its pieces are not needed."""
    del start
    return 0


def _source(
    name: str,
    chunks: Callable[[], Iterable[bytes]],
    reading: ReadReport,
    size_bytes: int,
    *,
    is_held: bool = False,
) -> SessionFile:
    """Return what a file is read from: its bytes, or what they unpack to."""
    beginning = next(iter(chunks()), b"")
    if is_compressed(beginning):
        return SessionFile(name, Unpacked(name, chunks, size_bytes, reading.notes).pieces)
    return SessionFile(name, chunks, is_held=is_held)
