"""`StoredFiles`: the states of files that a store has from earlier imports.

The head of a file retains its bytes. A new state replaces an earlier one that it contains: its
bytes begin with those of the earlier state, or it leads to all commits that the earlier state led
to. Otherwise the new head names the earlier one, so the bytes of a file that was truncated or
replaced stay with their commits.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

from harken.capture.files.file_reader import OpenedFile
from harken.capture.files.parsed_file import CommitReader, FileSummary
from harken.capture.files.report import Report
from harken.core import structs
from harken.core.commits import ArtifactRef, CommitId, HeadName
from harken.errors import FormatError, ObjectCorrupted
from harken.formats.runtimes.base import SessionFile
from harken.formats.runtimes.registry import find_runtime_format
from harken.store.base import Store
from harken.store.branches import SOURCE_PREFIX
from harken.store.imported_files import ImportedFile, name_head, read_file_heads, starts_with


class StoredFiles:
    """The heads of the files of this machine in a store."""

    def __init__(self, store: Store) -> None:
        """Read the heads. Raises StoreError."""
        self._store = store
        self._heads: Mapping[HeadName, ArtifactRef] = store.heads(SOURCE_PREFIX)
        self._files: dict[str, ImportedFile] = {}

    def get_head(self, path: str) -> ArtifactRef | None:
        """Return the head of a file, or None if its bytes are not in the store."""
        return self._heads.get(name_head(platform.node(), path))

    def read(self, paths: Iterable[str]) -> None:
        """Read the stored states of files that have changed. Raises StoreError."""
        heads = {path: head for path in paths if (head := self.get_head(path)) is not None}
        files = read_file_heads(self._store, heads.values()) if heads else {}
        self._files = {path: files[head] for path, head in heads.items() if head in files}

    def get_raw(self, path: str) -> ArtifactRef | None:
        """Return the stored bytes of a file that was read, or None."""
        file = self._files.get(path)
        return None if file is None else file.raw

    def find_uncontained(
        self,
        path: str,
        file: OpenedFile,
        *,
        is_grown: bool,
        has_commits: Callable[[Iterable[CommitId]], bool],
    ) -> ArtifactRef | None:
        """Return the head of the stored state that a file does not contain, or None.

        is_grown: whether the file begins with the stored bytes. has_commits: whether the file leads
        to all these commits. Raises StoreError.
        """
        earlier = self._files.get(path)
        if earlier is None:
            return self._find_unreadable(path)
        is_contained = (
            is_grown
            or file.raw == earlier.raw
            or (bool(earlier.tips) and has_commits(earlier.tips))
            or starts_with(self._read_bytes(file), earlier)
        )
        return earlier.earlier if is_contained else earlier.head

    def _find_unreadable(self, path: str) -> ArtifactRef | None:
        """Return the head of an unreadable record, if other heads can name it."""
        head = self.get_head(path)
        with suppress(ObjectCorrupted):
            if head is not None and self._store.sequences([head]):
                return head
        return None

    def _read_bytes(self, file: OpenedFile) -> Iterable[bytes]:
        """Return the bytes of an open file. Those of a large file are in the store."""
        if file.pieces or file.raw is None:
            return (piece.body for piece in file.pieces)
        return self._store.read_chunks(file.raw)


def summarize_stored(store: Store, file: OpenedFile, summary: FileSummary) -> FileSummary:
    """Return the summary of a file with purged content: its texts are those of the stored bytes.

    It has no read point: the file is read from its beginning when it has grown. Raises StoreError.
    """
    native = find_runtime_format(file.runtime)
    report = structs.replace(summary.report, title="", notes=(), bad=())
    if native is not None and file.raw is not None and not file.is_copy:
        pieces = [*store.read_chunks(file.raw)]
        source = SessionFile(report.source, lambda: pieces, is_in_memory=True)
        reader = CommitReader(native, source)
        with suppress(FormatError):
            for _ in reader.steps():
                pass
            stored = reader.read_summary(Report(source=report.source, raw=file.raw)).report
            report = structs.replace(stored, agent_type=report.agent_type, task=report.task)
    return structs.replace(summary, report=report, point=None)
