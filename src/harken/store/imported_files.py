"""Imported files in a store: their bytes, and the commits that they were read into.

For each file that an import has read, the store has a head, `src-` and 64 hex digits: a hash of the
machine and the path. The head is a sequence of two raw artifacts, a record and the bytes of the
file. So the bytes hang on the commits that the record names as tips, are retained and verified like
any other object, and travel with bundles and pushes. When a file has grown, its head is set to a
new sequence. If a file was rewritten, and bytes or commits of its earlier state are missing from
the new one, the earlier head is the third member of the new sequence, so nothing is lost.

The catalogue of a home (`harken.index.catalogue`) is derived from these records.

Source: docs/formats/store.md, "Imported files".
"""

from __future__ import annotations

import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Any, TypeAlias

import msgspec
from blake3 import blake3

from harken.core import canonical, structs
from harken.core.commits import ArtifactRef, CommitId, HeadName, encode_sequence, hash_raw
from harken.errors import ObjectCorrupted, ObjectNotFound
from harken.store.base import ObjectKind, Store, StoredObject
from harken.store.branches import SOURCE_PREFIX

_MAX_INTEGER = 2**63 - 1
"""The largest integer of a table, and of a constraint."""
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=_MAX_INTEGER)]


class _Tip(msgspec.Struct, frozen=True):
    ctx: str


class _Report(msgspec.Struct, frozen=True):
    """The members of an import report that are needed here."""

    format: str | None = None
    session: str = ""
    tips: tuple[_Tip, ...] = ()
    belongs_to: str = ""
    lines: Count = 0
    bad_lines: Count = 0
    commits: Count = 0
    redacted: dict[str, Count] = {}


class Spawner(msgspec.Struct, frozen=True):
    """The commit from which a subagent with a file of its own was spawned."""

    runtime: str
    session: str
    agent: str
    ctx: str


class FileRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The record of an imported file."""

    machine: str
    """The name of the machine with the file."""
    path: str
    """Its absolute path there."""
    size: Count
    mtime_ns: Annotated[int, msgspec.Meta(ge=-_MAX_INTEGER - 1, le=_MAX_INTEGER)]
    tail: Annotated[str, msgspec.Meta(pattern="^([0-9a-f]{2}){0,64}$")]
    """Hex digits: a hash of its last bytes, to recognize an unchanged file."""
    report: dict[str, Any]
    """The report of the import: `harken.capture.files.report`."""
    spawners: tuple[Spawner, ...] = ()

    @property
    def is_local(self) -> bool:
        """Whether the file is on this machine."""
        return self.machine == platform.node()


class ImportedFile(msgspec.Struct, frozen=True):
    """An imported file in a store."""

    head: ArtifactRef
    record: FileRecord
    raw: ArtifactRef
    """Its bytes."""
    format: str | None
    """The format of the bytes. None if it was not recognized."""
    session: str
    """The runtime's id of its session. Empty if it belongs to none."""
    tips: tuple[CommitId, ...]
    """The last commits of its conversations, the main one first."""
    is_redacted: bool = False
    """Whether credentials were removed before the bytes were stored."""
    earlier: ArtifactRef | None = None
    """The head of an earlier state that this one does not contain."""


def name_head(machine: str, path: str) -> HeadName:
    """Return the name of the head of a file."""
    digest = blake3(canonical.to_canonical_bytes([machine, path])).hexdigest()
    return HeadName(f"{SOURCE_PREFIX}{digest}")


def name_copied_head(machine: str, path: str, raw: ArtifactRef | None = None) -> HeadName:
    """Return the name of the head of a copy of a file, which an untrusted store brought.

    raw: the bytes, if they differ from those of another copy.
    """
    members = [machine, path, "copy", *([] if raw is None else [raw])]
    return HeadName(f"{SOURCE_PREFIX}{blake3(canonical.to_canonical_bytes(members)).hexdigest()}")


def encode_record(
    record: FileRecord, raw: ArtifactRef, earlier: ArtifactRef | None = None
) -> list[StoredObject]:
    """Return the objects to write for a file whose bytes are written; the last one is the head.

    earlier: the head of an earlier state that this one does not contain.
    """
    body = canonical.to_canonical_bytes(msgspec.to_builtins(record))
    record_object = StoredObject(ObjectKind.RAW, hash_raw(body), body)
    members = [ArtifactRef(record_object.name), raw, *([] if earlier is None else [earlier])]
    head, sequence = encode_sequence(members)
    needs = tuple(dict.fromkeys(members))
    return [record_object, StoredObject(ObjectKind.SEQUENCE, head, sequence, needs)]


def read_imported_files(store: Store) -> dict[HeadName, ImportedFile]:
    """Return the imported files of a store. Unreadable records are left out. Raises StoreError."""
    heads = store.heads(SOURCE_PREFIX)
    files = read_file_heads(store, heads.values())
    return {name: files[head] for name, head in heads.items() if head in files}


def read_file_heads(store: Store, heads: Iterable[ArtifactRef]) -> dict[ArtifactRef, ImportedFile]:
    """Return the imported files of heads. Unreadable records are left out. Raises StoreError."""
    results = _decode_heads(store, heads)
    return {head: file for head, file in results.items() if isinstance(file, ImportedFile)}


def list_chunks(store: Store, head: ArtifactRef | None) -> list[ArtifactRef]:
    """Return the chunks of the bytes of an imported file in a store, and of its record.

    Another version of the file shares most of them. Raises StoreError.
    """
    members = [] if head is None else store.sequences([head]).get(head, [])
    chunks: list[ArtifactRef] = []
    for ref in members:
        with suppress(ObjectNotFound):
            chunks += store.chunk_names(ref)
    return chunks


def iter_unreadable_files(store: Store) -> Iterator[tuple[HeadName, str]]:
    """Yield the heads of imported files without a readable record, with the problem."""
    heads = store.heads(SOURCE_PREFIX)
    results = _decode_heads(store, heads.values())
    for name, head in heads.items():
        problem = results[head]
        if isinstance(problem, str):
            yield name, f"its record cannot be read: {problem}"


def _decode_heads(
    store: Store, heads: Iterable[ArtifactRef]
) -> dict[ArtifactRef, ImportedFile | str]:
    """Return the imported file of each head, or its problem. Raises StoreError.

    All heads are read together, and each alone if an object is corrupted.
    """
    distinct_heads = list(dict.fromkeys(heads))
    try:
        members = store.sequences(distinct_heads)
        bodies = store.raws([refs[0] for refs in members.values() if refs])
    except ObjectCorrupted as error:
        if len(distinct_heads) == 1:
            return {distinct_heads[0]: str(error)}
        results: dict[ArtifactRef, ImportedFile | str] = {}
        for head in distinct_heads:
            results |= _decode_heads(store, [head])
        return results
    return {head: _decode_members(head, members.get(head, []), bodies) for head in distinct_heads}


def _decode_members(
    head: ArtifactRef, members: Sequence[ArtifactRef], bodies: Mapping[ArtifactRef, bytes]
) -> ImportedFile | str:
    """Return the imported file of a head with these members, or the problem."""
    if len(members) < 2:
        return "its head names no record and no bytes"
    record, raw, *earlier = members[:3]
    if record not in bodies:
        return f"{record} is missing"
    try:
        file = _decode(bodies[record], head, raw)
        return structs.replace(file, earlier=next(iter(earlier), None))
    except (ValueError, RecursionError) as error:
        return str(error)


def starts_with(chunks: Iterable[bytes], file: ImportedFile) -> bool:
    """Whether the bytes in chunks begin with the bytes of an imported file."""
    hasher, remaining = blake3(canonical.RAW_DOMAIN), file.record.size
    for chunk in chunks:
        hasher.update(chunk[:remaining])
        remaining -= len(chunk)
        if remaining <= 0:
            return file.raw == f"art-{hasher.hexdigest()}"
    return False


def iter_versions(store: Store, file: ImportedFile) -> Iterator[ImportedFile]:
    """Yield an imported file, and its earlier states that it does not contain, the newest first.

    An unreadable one ends the iteration. Raises StoreError.
    """
    visited: set[ArtifactRef] = set()
    while file.head not in visited:
        visited.add(file.head)
        yield file
        if file.earlier is not None:
            file = read_file_heads(store, [file.earlier]).get(file.earlier, file)


def find_native_file(store: Store, ctx: CommitId, format: str) -> ImportedFile | None:
    """Return the file of this format that ends with a commit, or None. Raises StoreError.

    A file that this machine imported precedes copies from elsewhere, which may be forged.
    """
    matches: list[tuple[tuple[bool, bool, int], ImportedFile]] = []
    for name, file in read_imported_files(store).items():
        is_ours = file.record.is_local and is_own_head(name, file.record)
        for version in iter_versions(store, file):
            if version.format == format and ctx in version.tips:
                # A session that was resumed may be in several files: the largest one has most.
                rank = (is_ours, version.tips[0] == ctx, version.record.size)
                matches.append((rank, version))
    return max(matches, key=lambda match: match[0])[1] if matches else None


def is_own_head(name: HeadName, record: FileRecord) -> bool:
    """Whether a head is that of the file itself, and not of a copy beside it."""
    return name == name_head(record.machine, record.path)


def _decode(body: bytes, head: ArtifactRef, raw: ArtifactRef) -> ImportedFile:
    """Decode a record. Raises ValueError, RecursionError."""
    try:
        record = _records.decode(body)
    except ValueError:  # msgspec rejects lone surrogates, which a path may have.
        record = msgspec.convert(canonical.from_json(body), FileRecord)
    report = msgspec.convert(record.report, _Report)
    session = report.session or report.belongs_to
    tips = tuple(CommitId(tip.ctx) for tip in report.tips)
    is_redacted = bool(report.redacted)
    return ImportedFile(head, record, raw, report.format, session, tips, is_redacted)


_records = msgspec.json.Decoder(FileRecord)  # An impossible constraint fails here, at the import.
