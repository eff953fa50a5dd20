"""`RefusingStore`: a store in a file that refuses content with credentials.

A home with `redact = "store"` removes credentials before content reaches its store. This check is
the last one, for content that comes by a way that removes none: a ticket, a label, a bundle. It has
the definition of a credential by which they are removed (`harken.core.secrets.redaction`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from harken.core import canonical
from harken.core.commits import ArtifactRef, CommitId, CommitNotes, HeadName
from harken.core.secrets.redaction import find_kind, find_kind_between, find_kind_in_json
from harken.errors import CredentialRefused
from harken.store.base import Name, ObjectKind, StoredObject, Tombstone, WriteBatch
from harken.store.batch import BatchContents, validate_batch
from harken.store.chunking import MIN_CHUNK_BYTES
from harken.store.sqlite.store import SqliteStore

_NAMES_ONLY = frozenset({ObjectKind.SEQUENCE, ObjectKind.FILE})
_SEAM_BYTES = 16 * 1024
"""The bytes on both sides of the seam of two chunks that are searched together."""


if TYPE_CHECKING:

    class _CheckedStore:
        """The methods of a store that are checked, and the one that the check needs."""

        def raws(self, names: Iterable[ArtifactRef]) -> dict[ArtifactRef, bytes]:
            raise NotImplementedError

        def write(self, batch: WriteBatch) -> None:
            raise NotImplementedError

        def update_notes(
            self, name: CommitId, notes: CommitNotes, *, was: CommitNotes | None = None
        ) -> None:
            raise NotImplementedError

        def move_branch(self, name: str, to: CommitId | None, *, expected: CommitId | None) -> None:
            raise NotImplementedError

        def move_head(
            self, name: HeadName, to: ArtifactRef, *, expected: ArtifactRef | None
        ) -> None:
            raise NotImplementedError

        def set_heads(self, heads: Mapping[HeadName, ArtifactRef | None]) -> None:
            raise NotImplementedError

        def purge(self, stand_ins: Mapping[Name, bytes], tombstone: Tombstone) -> None:
            raise NotImplementedError

else:
    _CheckedStore = object


class CredentialCheck(_CheckedStore):
    """Make each write of the store that follows among the base classes raise CredentialRefused."""

    @property
    def _place(self) -> str:
        """The file or the address of the store."""
        raise NotImplementedError

    def write(self, batch: WriteBatch) -> None:
        contents = validate_batch(batch)
        self._check_contents(contents)
        for pieces in contents.files.values():
            self._check_seams(contents, pieces)
        super().write(batch)

    def update_notes(
        self, name: CommitId, notes: CommitNotes, *, was: CommitNotes | None = None
    ) -> None:
        self._check_notes(name, notes)
        super().update_notes(name, notes, was=was)

    def move_branch(self, name: str, to: CommitId | None, *, expected: CommitId | None) -> None:
        self._check_names([name] if to is not None else [])
        super().move_branch(name, to, expected=expected)

    def move_head(self, name: HeadName, to: ArtifactRef, *, expected: ArtifactRef | None) -> None:
        self._check_names([name])
        super().move_head(name, to, expected=expected)

    def set_heads(self, heads: Mapping[HeadName, ArtifactRef | None]) -> None:
        self._check_names([name for name, head in heads.items() if head is not None])
        super().set_heads(heads)

    def purge(self, stand_ins: Mapping[Name, bytes], tombstone: Tombstone) -> None:
        """Check the reason only: a stand-in has less content than the original."""
        self._check_tombstone(tombstone)
        super().purge(stand_ins, tombstone)

    def check_named(self, contents: BatchContents) -> None:
        """Raise CredentialRefused if contents with names contain a credential."""
        self._check_contents(contents)
        for pieces in contents.files.values():
            is_new = [piece in contents.objects for piece in pieces]
            first_new = is_new.index(True) if True in is_new else len(pieces)
            self._check_seams(contents, pieces[max(first_new - 1, 0) :])

    def _check_contents(self, contents: BatchContents) -> None:
        """Raise CredentialRefused if a batch contains a credential."""
        objs = [obj for obj in contents.objects.values() if obj.kind not in _NAMES_ONLY]
        in_json = [obj for obj in objs if obj.kind is not ObjectKind.RAW]
        if not find_kind_in_json(*(obj.body for obj in in_json)):
            objs = [obj for obj in objs if obj.kind is ObjectKind.RAW]
        for obj in objs:
            self._refuse(f"{obj.name} ({obj.kind.name.lower()})", _find_in_object(obj))
        if find_kind_in_json(*(canonical.to_json_line(c.notes) for c in contents.commits)):
            for commit in contents.commits:
                self._check_notes(commit.id, commit.notes)
        self._check_names([*contents.moves, *contents.derived])
        for tombstone in contents.tombstones.values():
            self._check_tombstone(tombstone)

    def _check_seams(self, contents: BatchContents, pieces: Sequence[ArtifactRef]) -> None:
        """Raise CredentialRefused if a credential is in two chunks of a file."""
        last: bytes | None = None
        for piece in pieces:
            obj = contents.objects.get(piece)
            body = self.raws([piece]).get(piece) if obj is None else obj.body
            if last and body:
                kind = find_kind_between(last[-_SEAM_BYTES:], body[:_SEAM_BYTES])
                self._refuse(f"{piece} (raw)", kind)
            last = body

    def _check_notes(self, name: str, notes: CommitNotes) -> None:
        self._refuse(f"the notes of {name}", find_kind_in_json(canonical.to_json_line(notes)))

    def _check_names(self, names: Iterable[str]) -> None:
        for name in names:
            self._refuse("a name", find_kind(name.encode("utf-8", "surrogatepass")))

    def _check_tombstone(self, tombstone: Tombstone) -> None:
        kind = find_kind_in_json(canonical.to_json_line([tombstone.by, tombstone.why]))
        self._refuse("the reason of a purge", kind)

    def _refuse(self, where: str, kind: str) -> None:
        if kind:
            raise CredentialRefused(self._place, where, kind=kind)


class RefusingStore(CredentialCheck, SqliteStore):
    """A store of a home with `redact = "store"`. All writes raise CredentialRefused, too."""

    @property
    def _place(self) -> str:
        return str(self.path)

    def write_named(self, contents: BatchContents) -> None:
        self.check_named(contents)
        super().write_named(contents)


def _find_in_object(obj: StoredObject) -> str:
    """Return the kind of the first credential in an object, or "".

    A chunk may begin or end inside of a placeholder.
    """
    if obj.kind is not ObjectKind.RAW:
        return find_kind_in_json(obj.body)
    return find_kind(obj.body, is_chunk=len(obj.body) >= MIN_CHUNK_BYTES)
