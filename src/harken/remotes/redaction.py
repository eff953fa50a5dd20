"""A store to copy to that gets no credentials: each batch is redacted before it is written.

An object with a credential is replaced by its stand-in, under a tombstone, as in a purge. So names
stay valid, and the store that has the original keeps it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec

from harken.context.bundle.redact import WHY
from harken.context.purge import PurgeMatches, find_in_store
from harken.context.shipping.shipper import BY
from harken.core import commits as values
from harken.core.clock import Clock, format_rfc3339
from harken.core.commits import ArtifactRef, Commit, CommitId, CommitNotes, Hash, hash_raw
from harken.core.secrets.redaction import Credentials
from harken.errors import ObjectNotFound, StoreError
from harken.session.rewrite import PartOfStructure
from harken.store.base import (
    Name,
    ObjectKind,
    Store,
    StoredCommit,
    StoredObject,
    Tombstone,
    WriteBatch,
)
from harken.store.batch import BatchContents, compute_name, parse_file, validate_batch
from harken.store.copying.commits import CopyTarget, copy_artifacts
from harken.store.sqlite.store import SqliteStore


def is_redaction(tombstone: Tombstone) -> bool:
    """Whether a tombstone stands for a redacted copy, and not for a purge."""
    return tombstone.why == WHY


class RedactingTarget(msgspec.Struct, frozen=True):
    """A target of copies from `source`: it redacts each batch and writes it to `target`."""

    source: Store
    target: CopyTarget
    credentials: Credentials
    clock: Clock

    def write(self, batch: WriteBatch) -> None:
        """Write a batch without credentials. Raises StoreError."""
        self.target.write(self._redact(batch))

    def objects(self, names: Iterable[Hash]) -> dict[Hash, bytes]:
        """Return objects of the target."""
        return self.target.objects(names)

    def names_with_prefix(self, beginning: str, limit: int = 20) -> list[CommitId | ArtifactRef]:
        """Return names of the target."""
        return self.target.names_with_prefix(beginning, limit)

    def _redact(self, batch: WriteBatch) -> WriteBatch:
        contents = validate_batch(batch)
        view = _BatchSource(contents, self.source)
        try:
            matches = find_in_store(view, self.credentials)
        except PartOfStructure:
            reason = "a credential is part of the structure of its commits; --no-redact sends it"
            raise StoreError("push", reason) from None
        if not matches.stand_ins and not matches.notes:
            return batch
        return _apply(batch, contents, matches, format_rfc3339(self.clock()))


class _BatchSource(msgspec.Struct, frozen=True):
    """The objects of a batch, as a place to look for text. Chunks may be in the source only."""

    contents: BatchContents
    source: Store

    def iter_objects(self) -> Iterator[StoredObject]:
        return iter(self.contents.objects.values())

    def raw(self, name: ArtifactRef) -> bytes:
        obj = self.contents.objects.get(name)
        return self.source.raw(name) if obj is None else obj.body

    def read_chunks(self, name: ArtifactRef) -> Iterator[bytes]:
        pieces = self.contents.files.get(name)
        if pieces is None:
            raise ObjectNotFound("the batch", name)
        return (self.raw(piece) for piece in pieces)

    def newest_commits(self, limit: int = 20) -> list[CommitId]:
        return [commit.id for commit in self.contents.commits][:limit]

    def commits(self, names: Iterable[CommitId]) -> dict[CommitId, StoredCommit]:
        name_set = {*names}
        return {
            commit.id: StoredCommit(commit.id, commit.commit, commit.notes)
            for commit in self.contents.commits
            if commit.id in name_set
        }


def _apply(
    batch: WriteBatch, contents: BatchContents, matches: PurgeMatches, when: str
) -> WriteBatch:
    """Return the batch with stand-ins in place of the objects that have a match."""
    new_names: dict[Name, Name] = {}
    objects, deltas = dict(batch.objects), dict(batch.deltas)
    raw, files = dict(batch.raw), dict(batch.files)
    commits: dict[CommitId, tuple[Commit, CommitNotes]] = {
        new.id: (new.commit, matches.notes.get(new.id, new.notes)) for new in contents.commits
    }
    for name, body in matches.stand_ins.items():
        obj = contents.objects.get(name)
        kind = ObjectKind.RAW if obj is None else obj.kind
        match kind:
            case ObjectKind.PART:
                new_names[name] = compute_name(kind, body)
                del objects[Hash(name)]
                objects[Hash(new_names[name])] = body
            case ObjectKind.DELTA:
                new_names[name] = compute_name(kind, body)
                del deltas[ArtifactRef(name)]
                deltas[ArtifactRef(new_names[name])] = values.decode_delta(body)
            case ObjectKind.FILE:
                file = parse_file(body)
                new_names[name] = file.name
                del files[ArtifactRef(name)]
                files[file.name] = file.pieces
            case ObjectKind.COMMIT:
                new_names[name] = compute_name(kind, body)
                notes = commits[CommitId(name)][1]
                commits[CommitId(name)] = (values.decode_commit(body), notes)
            case _:
                new_names[name] = hash_raw(body)
                raw.pop(ArtifactRef(name), None)
                raw[ArtifactRef(new_names[name])] = body
    return WriteBatch(
        objects=objects,
        deltas=deltas,
        sequences=batch.sequences,
        raw=raw,
        files=files,
        derived=batch.derived,
        commits=list(commits.values()),
        tombstones=_join_tombstones(batch.tombstones, new_names, when),
        moves=batch.moves,
    )


def _join_tombstones(
    tombstones: Mapping[Name, Tombstone], new_names: Mapping[Name, Name], when: str
) -> dict[Name, Tombstone]:
    """Return the tombstones of purges and redactions, each with its final stand-in."""
    purged = {
        name: msgspec.structs.replace(
            tombstone, stand_in=new_names.get(tombstone.stand_in, tombstone.stand_in)
        )
        for name, tombstone in tombstones.items()
    }
    redacted = {
        name: Tombstone(when=when, by=BY, why=WHY, stand_in=stand_in)
        for name, stand_in in new_names.items()
    }
    return purged | redacted


@contextmanager
def staged_artifacts(
    source: Store,
    heads: Iterable[ArtifactRef],
    credentials: Credentials | None,
    folder: Path,
    clock: Clock,
) -> Iterator[Store]:
    """Yield a store with redacted artifacts: a copy in `folder`, or the source itself.

    Large files are redacted as a whole, since a credential may span two chunks. Raises StoreError.
    """
    if credentials is None:
        yield source
        return
    with closing(SqliteStore(folder / "artifacts.db")) as copy:
        copy_artifacts(source, copy, heads, existing=())
        try:
            stand_ins = find_in_store(copy, credentials).stand_ins
        except PartOfStructure:
            reason = "a credential is part of its structure; --no-redact sends it"
            raise StoreError("push", reason) from None
        if stand_ins:
            copy.purge(stand_ins, Tombstone(when=format_rfc3339(clock()), by=BY, why=WHY))
        yield copy
