"""`RefusingStore`: a store in a file that refuses content with credentials.

A home with `redact = "store"` removes credentials before content reaches its store. This check is
the last one, for content that comes by a way that removes none: a ticket, a label, a bundle.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from harken.core import canonical
from harken.core.commits import ArtifactRef, CommitId, CommitNotes, HeadName
from harken.core.secrets.redaction import find_kind
from harken.errors import CredentialRefused
from harken.store.base import ObjectKind, StoredObject, WriteBatch
from harken.store.batch import BatchContents, validate_batch
from harken.store.chunking import MIN_CHUNK_BYTES
from harken.store.sqlite.store import SqliteStore

_NAMES_ONLY = frozenset({ObjectKind.SEQUENCE, ObjectKind.FILE})


class RefusingStore(SqliteStore):
    """A store of a home with `redact = "store"`. All writes raise CredentialRefused, too."""

    def write_named(self, contents: BatchContents) -> None:
        check_contents(self.path, contents)
        super().write_named(contents)

    def write(self, batch: WriteBatch) -> None:
        check_contents(self.path, validate_batch(batch))
        super().write(batch)

    def update_notes(
        self, name: CommitId, notes: CommitNotes, *, was: CommitNotes | None = None
    ) -> None:
        check_notes(self.path, name, notes)
        super().update_notes(name, notes, was=was)

    def move_branch(self, name: str, to: CommitId | None, *, expected: CommitId | None) -> None:
        check_names(self.path, [name] if to is not None else [])
        super().move_branch(name, to, expected=expected)

    def move_head(self, name: HeadName, to: ArtifactRef, *, expected: ArtifactRef | None) -> None:
        check_names(self.path, [name])
        super().move_head(name, to, expected=expected)

    def set_heads(self, heads: Mapping[HeadName, ArtifactRef | None]) -> None:
        check_names(self.path, [name for name, head in heads.items() if head is not None])
        super().set_heads(heads)


def check_contents(store: str | Path, contents: BatchContents) -> None:
    """Raise CredentialRefused if a batch contains a credential."""
    for obj in contents.objects.values():
        if obj.kind not in _NAMES_ONLY:
            _refuse(store, f"{obj.name} ({obj.kind.name.lower()})", _find_in_object(obj))
    for commit in contents.commits:
        check_notes(store, commit.id, commit.notes)
    check_names(store, [*contents.moves, *contents.derived])


def check_notes(store: str | Path, name: str, notes: CommitNotes) -> None:
    """Raise CredentialRefused if the notes of a commit contain a credential."""
    _refuse(store, f"the notes of {name}", find_kind(canonical.to_json_line(notes)))


def check_names(store: str | Path, names: Iterable[str]) -> None:
    """Raise CredentialRefused if a branch or another name contains a credential."""
    for name in names:
        _refuse(store, "a name", find_kind(name.encode("utf-8", "surrogatepass")))


def _find_in_object(obj: StoredObject) -> str:
    """Return the kind of the first credential in an object, or "".

    A chunk may begin or end inside of a placeholder, and a database is no text; both were redacted
    as a whole.
    """
    if obj.kind is not ObjectKind.RAW:
        return find_kind(obj.body)
    try:
        obj.body[4:-4].decode()
    except UnicodeDecodeError as error:
        if 4 < error.start < len(obj.body) - 12:
            return ""
    return find_kind(obj.body, is_chunk=len(obj.body) >= MIN_CHUNK_BYTES)


def _refuse(store: str | Path, where: str, kind: str) -> None:
    if kind:
        raise CredentialRefused(store, where, kind=kind)
