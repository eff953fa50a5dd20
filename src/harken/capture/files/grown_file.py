"""Read a file that grew since its last import: the new lines, and the last step before them.

The first bytes must not have changed. Their hash proves it, which is the name of the raw bytes. A
`RunningHashes` remembers the hash of a file and continues it, so a follower does not compute it
again with each line. Then it compares the last chunk, and from time to time all bytes. A file that
was changed, truncated or replaced is read from its beginning.

The raw bytes are stored in chunks. Only the last one has changed, and new ones follow.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from io import FileIO

import msgspec
from blake3 import blake3

from harken.capture.files.file_reader import (
    MAX_IN_MEMORY_BYTES,
    OpenedFile,
    create_reader,
    list_chunks,
)
from harken.capture.files.parsed_file import CommitReader, PreparedStep
from harken.capture.files.report import Report
from harken.capture.files.sources import File
from harken.core import canonical
from harken.core.commits import ArtifactRef, CommitId, hash_raw
from harken.core.secrets.redaction import Credentials
from harken.errors import FormatError
from harken.formats.runtimes.base import ReadReport, SessionFile
from harken.formats.runtimes.read_point import EarlierStepChanged, ReadPoint
from harken.formats.runtimes.registry import find_runtime_format
from harken.store.base import ObjectKind, StoredObject
from harken.store.chunking import iter_chunks

FORM = 1
"""The form of a saved reading. Increase it when a reader yields other steps for the same lines."""
_READ_BYTES = 1024 * 1024
_VERIFIED_BYTES_PER_S = 2_000_000
"""A follower hashes all bytes of a file again in this time: about a thousandth of a processor."""
_MAX_HASHES = 64
_RECORD_BYTES = 32 + 16 + 1
_COUNTED_AT_ONCE = 10_000


class SavedReading(msgspec.Struct, array_like=True, kw_only=True):
    """A reading of a file, for continuing when the file has grown."""

    form: int = FORM
    runtime: str
    size: int
    raw: ArtifactRef
    """The artifact with the bytes of the file."""
    chunks: list[tuple[ArtifactRef, int]]
    """The names and the sizes of its chunks."""
    point: ReadPoint
    steps: dict[str, bytes]
    """The commit records of the steps that later steps may follow."""
    commits: int
    """The number of distinct commits before the read point."""
    orphan: tuple[str, str, str] | None = None

    @property
    def tips(self) -> set[CommitId]:
        """The commits at the ends of conversations. All others are their ancestors."""
        totals = self.point.totals
        steps = {*totals.tips.values(), *(step for _, step in totals.branches)}
        return {CommitId(f"ctx-{self.steps[step][:32].hex()}") for step in steps}


def decode_reading(data: bytes) -> SavedReading | None:
    """Decode a saved reading. Return None if it has another form."""
    try:
        saved = _readings.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return saved if saved.form == FORM else None


class CommitBuilder(msgspec.Struct):
    """Map the steps of a file to their commits while the file is read."""

    runtime: str
    is_last: bool
    """Whether this is the last attempt: an unknown parent of a subagent will not be found later."""
    steps: dict[str, int] = msgspec.field(default_factory=dict)
    """Step -> its offset in `_records`. This is compact, because a file may have many steps."""
    _records: bytearray = msgspec.field(default_factory=bytearray)
    """For each step: the 32-byte hash of its commit, its key, and whether it is fresh."""
    new: int = 0
    new_messages: int = 0
    """The number of messages of new commits, without those that a compaction repeats."""
    orphan: tuple[str, str, str] | None = None
    spawners: dict[str, CommitId] = msgspec.field(default_factory=dict)
    """The spawning commits of agents with files of their own."""
    _earlier_steps: int = 0
    """The number of steps of an earlier reading."""
    _earlier_commits: int = 0
    """The number of distinct commits of an earlier reading."""

    def restore(self, saved: SavedReading) -> None:
        """Continue an earlier reading."""
        for step, record in saved.steps.items():
            self.steps[step] = len(self._records)
            self._records += record
        self._earlier_steps, self._earlier_commits = len(saved.steps), saved.commits
        self.orphan = saved.orphan

    def get_records(self, steps: Iterable[str]) -> dict[str, bytes]:
        """Return the records of steps, as those of an earlier reading."""
        return {step: self._of(step)[:-1] + b"\0" for step in steps}

    def count_commits(self, steps: int | None = None) -> int:
        """Return the number of distinct commits, or of those of the first steps of this reading.

        Many commits are counted in 16 parts to limit memory use.
        """
        records, earlier = self._records, self._earlier_steps
        offsets = [*self.steps.values()]
        earlier_names = {bytes(records[offset : offset + 32]) for offset in offsets[:earlier]}
        offsets = offsets[earlier : None if steps is None else earlier + steps]
        parts = 16 if len(offsets) > _COUNTED_AT_ONCE else 1
        return self._earlier_commits + sum(
            len(
                {
                    bytes(records[offset : offset + 32])
                    for offset in offsets
                    if records[offset] % parts == part
                }
                - earlier_names
            )
            for part in range(parts)
        )

    def set_commit(self, step: str, ctx: CommitId, key: bytes, *, is_fresh: bool) -> None:
        """Record the commit of a step. `is_fresh`: no earlier import has it."""
        self.steps[step] = len(self._records)
        self._records += bytes.fromhex(ctx.removeprefix("ctx-")) + key + bytes([is_fresh])

    def get_commit(self, step: str) -> CommitId:
        """Return the commit of a step."""
        return CommitId(f"ctx-{self._of(step)[:32].hex()}")

    def find_commit(self, step: str) -> CommitId | None:
        """Return the commit of a step, or None if it was not read."""
        return self.get_commit(step) if step in self.steps else None

    def has_commits(self, names: Iterable[CommitId]) -> bool:
        """Whether each of these commits is that of a step."""
        missing = {bytes.fromhex(name.removeprefix("ctx-")) for name in names}
        for offset in self.steps.values():
            missing.discard(bytes(self._records[offset : offset + 32]))
        return not missing

    def is_fresh(self, step: str | None) -> bool:
        """Whether no earlier import has a step, and so none of its successors."""
        return step is not None and bool(self._of(step)[_RECORD_BYTES - 1])

    def key(self, ready: PreparedStep, parent: CommitId | None) -> bytes:
        """Return a key that is equal for equal messages after an equal beginning.

        parent: the parent commit.
        """
        previous = parent or self.runtime
        if ready.parent is not None:
            previous = self._of(ready.parent)[32:-1].hex()
        return blake3(b'["%b",%b' % (previous.encode(), ready.said)).digest(16)

    def _of(self, step: str) -> bytes:
        offset = self.steps[step]
        return bytes(self._records[offset : offset + _RECORD_BYTES])


class _RunningHash(msgspec.Struct):
    """The hash of the first bytes of a file."""

    hasher: blake3
    name: ArtifactRef
    inode: tuple[int, int]
    verified_s: float
    """The time when all bytes were hashed."""


class RunningHashes(msgspec.Struct):
    """The hashes of files that grow."""

    clock: Callable[[], float] = time.monotonic
    """A monotonic clock, in seconds."""
    _hashes: dict[str, _RunningHash] = msgspec.field(default_factory=dict)

    def verify(self, name: str, stream: FileIO, saved: SavedReading) -> _RunningHash | None:
        """Return the hash of the bytes of an earlier reading. Return None if they have changed.

        Raises OSError.
        """
        status = os.fstat(stream.fileno())
        inode, earlier = (status.st_dev, status.st_ino), self._hashes.pop(name, None)
        now = self.clock()
        if earlier is not None and (earlier.name, earlier.inode) == (saved.raw, inode):
            last_name, last_size = saved.chunks[-1]
            is_recent = now - earlier.verified_s < saved.size / _VERIFIED_BYTES_PER_S
            if is_recent:
                last = read_range(stream, saved.size - last_size, saved.size)
                return earlier if hash_raw(last) == last_name else None
        hasher = blake3(canonical.RAW_DOMAIN)
        stream.seek(0)
        remaining = saved.size
        while remaining and (data := stream.read(min(_READ_BYTES, remaining))):
            hasher.update(data)
            remaining -= len(data)
        if _name_of(hasher) != saved.raw:
            return None
        return _RunningHash(hasher, saved.raw, inode, now)

    def extend(self, name: str, hash_: _RunningHash, data: bytes) -> ArtifactRef:
        """Add the bytes that follow. Return the name of all bytes."""
        hash_.hasher.update(data)
        hash_.name = _name_of(hash_.hasher)
        self._hashes[name] = hash_
        if len(self._hashes) > _MAX_HASHES:
            del self._hashes[next(iter(self._hashes))]
        return hash_.name


def open_grown_file(
    file: File,
    saved: SavedReading,
    hashes: RunningHashes,
    credentials: Credentials | None = None,
) -> OpenedFile | None:
    """Open a file that grew. Return None if it has to be read from its beginning.

    A file with credentials is read from its beginning. Raises OSError.
    """
    native, point = find_runtime_format(saved.runtime), saved.point
    tail_start = saved.size - saved.chunks[-1][1]
    start = min(point.start, tail_start)
    if native is None or not saved.size < file.size <= start + MAX_IN_MEMORY_BYTES:
        return None
    mark = file.compute_fingerprint()
    with file.path.open("rb", buffering=0) as stream:
        hash_ = hashes.verify(file.name, stream, saved)
        data = b"" if hash_ is None else read_range(stream, start, file.size)
    if hash_ is None or len(data) != file.size - start:
        return None
    if credentials is not None and credentials.replace_in_bytes(data) != data:
        return None
    raw = hashes.extend(file.name, hash_, data[saved.size - start :])
    pieces = _split_tail(data[tail_start - start :], raw, is_whole=len(saved.chunks) == 1)
    reading = ReadReport.from_point(point)
    reading.size_bytes = file.size
    lines = data[point.start - start :]
    source = SessionFile(file.display_name, lambda: [lines], is_in_memory=True, point=point)
    reader = create_reader(native, file.path, source, reading, credentials)
    steps = _read_steps(reader)
    if steps is None:
        return None
    return OpenedFile(
        mark,
        lambda: reader.read_summary(Report(source=file.display_name, raw=raw)),
        native.runtime,
        raw,
        pieces,
        saved.chunks[:-1] + list_chunks(pieces),
        [(0, step) for step in steps],
        parsed_bytes=len(lines),
    )


def read_range(stream: FileIO, start: int, end: int) -> bytes:
    """Read the bytes of a file between two offsets, or fewer at its end. Raises OSError."""
    stream.seek(start)
    parts: list[bytes] = []
    while start < end and (data := stream.read(end - start)):
        parts.append(data)
        start += len(data)
    return b"".join(parts)


def _split_tail(data: bytes, raw: ArtifactRef, *, is_whole: bool) -> list[StoredObject]:
    """Return the chunks of the bytes from the beginning of the last chunk on.

    is_whole: they are all bytes of the file, and if they are one chunk, it has the file's name.
    """
    pieces = [*iter_chunks(data)]
    names = [raw] if is_whole and len(pieces) == 1 else [hash_raw(piece) for piece in pieces]
    return [
        StoredObject(ObjectKind.RAW, *named_piece)
        for named_piece in zip(names, pieces, strict=True)
    ]


def _read_steps(reader: CommitReader) -> list[PreparedStep] | None:
    """Read all steps. Return None if the file has to be read from its beginning."""
    try:
        return [*reader.steps()]
    except (EarlierStepChanged, FormatError):
        return None


def _name_of(hasher: blake3) -> ArtifactRef:
    return ArtifactRef(f"art-{hasher.hexdigest()}")


_readings = msgspec.msgpack.Decoder(SavedReading)
