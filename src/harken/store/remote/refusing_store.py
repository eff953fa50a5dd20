"""`RefusingRemoteStore`: a store of a service to which no credential is sent."""

from __future__ import annotations

from collections.abc import Mapping

from harken.core.commits import ArtifactRef, CommitId, CommitNotes, HeadName
from harken.store.base import WriteBatch
from harken.store.batch import validate_batch
from harken.store.refusing_store import check_contents, check_names, check_notes
from harken.store.remote.store import RemoteStore


class RefusingRemoteStore(RemoteStore):
    """The remote store of a home with `redact = "store"`. All writes raise CredentialRefused."""

    def write(self, batch: WriteBatch) -> None:
        check_contents(self.address, validate_batch(batch))
        super().write(batch)

    def update_notes(
        self, name: CommitId, notes: CommitNotes, *, was: CommitNotes | None = None
    ) -> None:
        check_notes(self.address, name, notes)
        super().update_notes(name, notes, was=was)

    def move_branch(self, name: str, to: CommitId | None, *, expected: CommitId | None) -> None:
        check_names(self.address, [name] if to is not None else [])
        super().move_branch(name, to, expected=expected)

    def move_head(self, name: HeadName, to: ArtifactRef, *, expected: ArtifactRef | None) -> None:
        check_names(self.address, [name])
        super().move_head(name, to, expected=expected)

    def set_heads(self, heads: Mapping[HeadName, ArtifactRef | None]) -> None:
        check_names(self.address, [name for name, head in heads.items() if head is not None])
        super().set_heads(heads)
