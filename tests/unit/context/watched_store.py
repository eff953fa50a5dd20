"""A store in memory that counts its reads, and from which objects can be removed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from harken.core.commits import ArtifactRef, CommitId, DeltaEntry, Hash
from harken.store.base import StoredCommit, WriteBatch
from harken.store.memory import MemoryStore


class WatchedStore(MemoryStore):
    """See `harken.store.base.Store`."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: Counter[str] = Counter()
        """Rows written and read, by what they are."""
        self.made: list[CommitId] = []
        """All commits, in the order of writing."""
        self.lost: set[str] = set()
        """What it does not give any more."""
        self.instead: dict[Hash, bytes] = {}
        """What it gives in place of objects."""
        self.twins: list[CommitId] = []
        """Names that it says it has, too."""

    def write(self, batch: WriteBatch) -> None:
        super().write(batch)
        self.made += [commit.id for commit, _ in batch.commits if commit.id not in self.made]
        self.asked["objects written"] += len(batch.objects)
        self.asked["entries written"] += sum(map(len, batch.deltas.values()))
        self.asked["sequences written"] += len(batch.sequences)
        self.asked["names written"] += sum(map(len, batch.sequences.values()))

    def objects(self, names: Iterable[Hash]) -> dict[Hash, bytes]:
        objects_found = super().objects(name for name in names if name not in self.lost)
        self.asked["objects read"] += len(objects_found)
        return {name: self.instead.get(name, body) for name, body in objects_found.items()}

    def deltas(self, names: Iterable[ArtifactRef]) -> dict[ArtifactRef, list[DeltaEntry]]:
        deltas_found = super().deltas(name for name in names if name not in self.lost)
        self.asked["deltas read"] += len(deltas_found)
        return deltas_found

    def chain(self, name: CommitId, depth: int | None = None) -> list[StoredCommit]:
        chain_found = super().chain(name, depth)
        self.asked["commits walked"] += len(chain_found)
        return chain_found

    def names_with_prefix(self, beginning: str, limit: int = 20) -> list[CommitId | ArtifactRef]:
        twins = [name for name in self.twins if name.startswith(beginning)]
        return sorted([*super().names_with_prefix(beginning, limit), *twins])[:limit]

    def artifact(self, ctx: CommitId) -> ArtifactRef:
        """Return the artifact of a commit."""
        return self.commits([ctx])[ctx].commit.artifact
