"""Purges of the other side: purged content is not sent back, and may be purged here as well.

A store refuses the content of its tombstones, so purged content cannot return by a transfer. The
tombstone of a redacted copy is no purge: the original stays where it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from harken.core import canonical
from harken.core import commits as values
from harken.core.commits import ArtifactRef, CommitId, Hash
from harken.errors import ObjectNotFound
from harken.remotes.redaction import is_redaction
from harken.store.base import Name, Store, Tombstone

_NAMES_PER_BATCH = 500


def find_foreign_purges(
    store: Store, remote_stones: Mapping[Name, Tombstone], local_stones: Mapping[Name, Tombstone]
) -> dict[Name, Tombstone]:
    """Return the purges of another store, of content that this local store still has."""
    candidates = [
        name
        for name, tombstone in remote_stones.items()
        if name not in local_stones and not is_redaction(tombstone)
    ]
    existing: set[Name] = set()
    for start in range(0, len(candidates), _NAMES_PER_BATCH):
        existing |= _find_existing(store, candidates[start : start + _NAMES_PER_BATCH])
    return {name: remote_stones[name] for name in candidates if name in existing}


def _find_existing(store: Store, names: Iterable[Name]) -> set[Name]:
    names = list(names)
    parts = [Hash(name) for name in names if not name.startswith(("art-", "ctx-"))]
    commits = [CommitId(name) for name in names if name.startswith("ctx-")]
    artifacts = [ArtifactRef(name) for name in names if name.startswith("art-")]
    existing: set[Name] = {*store.objects(parts), *store.commits(commits)}
    existing |= {*store.deltas(artifacts), *store.sequences(artifacts), *store.raws(artifacts)}
    existing |= {name for name in artifacts if name not in existing and _is_file(store, name)}
    return existing


def _is_file(store: Store, name: ArtifactRef) -> bool:
    try:
        return bool(store.chunk_names(name))
    except ObjectNotFound:
        return False


def apply_purges(source: Store, target: Store, purges: Mapping[Name, Tombstone]) -> int:
    """Purge content in the target as it was purged in the source. Return the number of objects.

    Raises StoreError.
    """
    count = 0
    by_tombstone: dict[Tombstone, list[Name]] = {}
    for name, tombstone in purges.items():
        by_tombstone.setdefault(msgspec.structs.replace(tombstone, stand_in=""), []).append(name)
    for tombstone, names in by_tombstone.items():
        stand_ins = _read_stand_ins(source, names)
        if stand_ins:
            target.purge(stand_ins, tombstone)
            count += len(stand_ins)
    return count


def _read_stand_ins(source: Store, names: Iterable[Name]) -> dict[Name, bytes]:
    """Return the canonical bytes that a store has under purged names, files last."""
    names = list(names)
    stand_ins: dict[Name, bytes] = {}
    parts = [Hash(name) for name in names if not name.startswith(("art-", "ctx-"))]
    stand_ins |= {str(name): body for name, body in source.objects(parts).items()}
    artifacts = [ArtifactRef(name) for name in names if name.startswith("art-")]
    stand_ins |= {str(name): body for name, body in source.raws(artifacts).items()}
    for ref, entries in source.deltas(artifacts).items():
        stand_ins[ref] = values.encode_delta(entries)[1]
    for id_, stored in source.commits(CommitId(n) for n in names if n.startswith("ctx-")).items():
        stand_ins[id_] = values.commit_bytes(stored.commit)
    files: dict[Name, bytes] = {}
    for ref in artifacts:
        if ref not in stand_ins and not source.sequences([ref]):
            files |= _read_file_stand_in(source, ref)
    return stand_ins | files


def _read_file_stand_in(source: Store, ref: ArtifactRef) -> dict[Name, bytes]:
    """Return the chunks and the body of the file that is read under a purged name."""
    pieces = source.chunk_names(ref)
    bodies = [source.raw(piece) for piece in pieces]
    name = values.hash_raw(b"".join(bodies))
    names = [values.hash_raw(body) for body in bodies]
    return {ref: canonical.to_canonical_bytes({"name": name, "pieces": names})}
