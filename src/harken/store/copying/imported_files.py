"""Copy imported files between stores: into a bundle, and from a bundle that is not trusted.

A record from elsewhere never replaces one of this store. The bytes decide: a file that begins with
the bytes of an earlier copy continues it by compare-and-swap, and anything else is stored beside,
under a name of its own. A file of this machine is never changed by a copy, since this machine
imports it itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import msgspec

from harken.core.commits import ArtifactRef, CommitId, HeadName
from harken.errors import BranchConflict
from harken.store.base import Store
from harken.store.branches import SOURCE_PREFIX
from harken.store.copying.commits import copy_artifacts
from harken.store.imported_files import (
    FileRecord,
    ImportedFile,
    iter_versions,
    name_copied_head,
    name_head,
    read_file_heads,
    read_imported_files,
    starts_with,
)


class FileCopyResult(msgspec.Struct):
    """The imported files that a copy created, continued, or stored beside others."""

    created: list[ImportedFile] = msgspec.field(default_factory=list)
    continued: list[ImportedFile] = msgspec.field(default_factory=list)
    conflicting: list[ImportedFile] = msgspec.field(default_factory=list)
    """Files whose bytes differ from those in the target. They are stored beside these."""


def copy_imported_files(source: Store, target: Store, commits: Collection[CommitId]) -> None:
    """Copy the imported files of these commits, and other files of their sessions, to a new store.

    Raises StoreError.
    """
    files = read_imported_files(source)
    sessions = {file.session for file in files.values() if not set(commits).isdisjoint(file.tips)}
    heads = {
        name: file.head
        for name, file in files.items()
        if not set(commits).isdisjoint(file.tips) or (not file.tips and file.session in sessions)
    }
    if heads:
        copy_artifacts(source, target, heads.values(), existing=())
        target.set_heads(dict(heads))


def add_imported_files(
    source: Store, target: Store, heads: Iterable[ArtifactRef] | None = None
) -> FileCopyResult:
    """Add the imported files of an untrusted store. A second call changes nothing.

    heads: the heads of the files to add, by default of all. `source` may be the target, if it has
    their artifacts already. Raises StoreError.
    """
    result = FileCopyResult()
    heads = source.heads(SOURCE_PREFIX).values() if heads is None else heads
    for file in read_file_heads(source, heads).values():
        _FileCopy(source, target, file, result).add()
    return result


class _FileCopy(msgspec.Struct):
    """The copy of one file."""

    source: Store
    target: Store
    file: ImportedFile
    result: FileCopyResult

    def add(self) -> None:
        """Add the file, unless the target has its bytes."""
        record = self.file.record
        original, copied = name_head(record.machine, record.path), _name_slot(record)
        existing: dict[HeadName, ArtifactRef] = {}
        for name in (original, copied, self._name_beside()):
            existing |= self.target.heads(name)
        if self.file.head in existing.values() or self._is_contained(existing.values()):
            return
        if copied not in existing:
            self._copy_to(copied, None)
            is_continued = original not in existing or self._continues(existing[original])
            (self.result.created if is_continued else self.result.conflicting).append(self.file)
        elif self._continues(existing[copied]) and self._copy_to(copied, existing[copied]):
            self.result.continued.append(self.file)
        else:
            self._copy_to(self._name_beside(), existing.get(self._name_beside()))
            self.result.conflicting.append(self.file)

    def _name_beside(self) -> HeadName:
        record = self.file.record
        return name_copied_head(record.machine, record.path, self.file.raw)

    def _is_contained(self, heads: Iterable[ArtifactRef]) -> bool:
        """Whether a file in the target begins with the bytes of this one."""
        return any(
            starts_with(self.target.read_chunks(version.raw), self.file)
            for existing in read_file_heads(self.target, heads).values()
            for version in iter_versions(self.target, existing)
        )

    def _continues(self, head: ArtifactRef) -> bool:
        """Whether this file begins with the bytes of a file in the target, of the same session."""
        existing = read_file_heads(self.target, [head]).get(head)
        return (
            existing is not None
            and (existing.format, existing.session) == (self.file.format, self.file.session)
            and existing.earlier in (None, self.file.earlier)
            and starts_with(self.source.read_chunks(self.file.raw), existing)
        )

    def _copy_to(self, name: HeadName, expected: ArtifactRef | None) -> bool:
        """Copy the file, and move a head to it. Return False if another writer moved it first."""
        if self.source is not self.target:
            copy_artifacts(self.source, self.target, [self.file.head], existing=())
        try:
            self.target.move_head(name, self.file.head, expected=expected)
        except BranchConflict:
            return False
        return True


def _name_slot(record: FileRecord) -> HeadName:
    """Return the name of the head of a copy: of this machine's files another than their own."""
    if record.is_local:
        return name_copied_head(record.machine, record.path)
    return name_head(record.machine, record.path)
