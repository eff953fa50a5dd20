"""A store with a realistic history: chains, forks, subagents, summaries, files, labels.

Its content is deterministic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, TypeAlias

from harken.context.checkpoint import CommitDraft, CommitOrigin, checkpoint
from harken.context.compaction import compact, snapshot
from harken.context.materialize import materialize
from harken.core.commits import ArtifactRef, CommitId, Hash, hash_raw
from harken.core.messages import Message
from harken.store.base import ObjectKind, Store, WriteBatch
from harken.store.sqlite.pack import decode_objects
from harken.store.sqlite.pack_table import iter_rows
from harken.store.sqlite.store import SqliteStore

LATE = "2100-01-01T00:00:00Z"
Questions: TypeAlias = Mapping[str, Callable[[Store], Any]]
"""What can be asked of a store, by what it is called."""


def fill_store(path: Path, steps: int) -> None:
    """Fill a store with about 2 KB per step before compression, and close it."""
    dice = Random(7)
    words = ["".join(dice.choices("etaoinshrdlu", k=dice.randint(2, 9))) for _ in range(1500)]
    store = SqliteStore(path, clock=lambda: 1_767_225_600_000_000)
    created: list[CommitId] = []
    for step in range(steps):
        messages = [
            Message(role, " ".join(dice.choices(words, k=150))) for role in ("user", "assistant")
        ]
        parent = None if not created else dice.choice(created) if step % 9 == 8 else created[-1]
        draft = CommitDraft(
            messages=messages,
            parent=parent,
            created_at=f"2026-01-01T{step // 60:02d}:{step % 60:02d}:00Z",
            origin=CommitOrigin(principal=f"p{step % 3}"),
            labels=(f"label {step % 5}",) if step % 4 == 0 else (),
        )
        created.append(
            compact(store, draft, f"summary {step}")
            if step % 20 == 19
            else checkpoint(store, draft)
        )
        if step % 15 == 14:
            created.append(snapshot(store, created[-1]))
    files = [dice.randbytes(3000), bytes(150_000), b""]
    store.write(WriteBatch(raw={hash_raw(data): data for data in files}))
    for ctx in (created[-1], created[len(created) // 2]):
        for stop in ("compaction", "root"):
            materialize(store, ctx, stop)
    store.close()


@dataclass(frozen=True, slots=True)
class PackObjects:
    """The objects of a pack, by kind."""

    names: Mapping[ObjectKind, list[str]]

    def of(self, *kinds: ObjectKind) -> list[str]:
        """Return the names of these kinds."""
        return [name for kind in kinds for name in self.names.get(kind, ())]


def read_packs(path: Path) -> dict[int, PackObjects]:
    """Return the objects of each pack, by pack number."""
    store = SqliteStore(path)
    by_pack: dict[int, PackObjects] = {}
    with store.snapshot() as connection:
        for row in iter_rows(connection):
            names: dict[ObjectKind, list[str]] = {}
            for name, (kind, _) in decode_objects(row.data).items():
                names.setdefault(kind, []).append(name)
            by_pack[row.first] = PackObjects(names)
    store.close()
    return by_pack


def object_reads(packs: Mapping[int, PackObjects]) -> dict[int, Questions]:
    """Return reads of objects: pack by pack, each in a few calls."""
    return {
        number: dict(_about(f"pack {number}", pack_things)) for number, pack_things in packs.items()
    }


def _about(place: str, pack_things: PackObjects) -> Iterator[tuple[str, Callable[[Store], Any]]]:
    objects = [Hash(name) for name in pack_things.of(ObjectKind.PART, ObjectKind.MESSAGE)]
    deltas = [ArtifactRef(name) for name in pack_things.of(ObjectKind.DELTA)]
    sequences = [ArtifactRef(name) for name in pack_things.of(ObjectKind.SEQUENCE)]
    commit_ids = [CommitId(name) for name in pack_things.of(ObjectKind.COMMIT)]
    raw = [ArtifactRef(name) for name in pack_things.of(ObjectKind.RAW)]
    yield f"{place}: objects", lambda store: store.objects(objects)
    yield f"{place}: deltas", lambda store: store.deltas(deltas)
    yield f"{place}: sequences", lambda store: store.sequences(sequences)
    yield f"{place}: commits", lambda store: store.commits(commit_ids)
    yield f"{place}: raw", lambda store: {name: store.raw(name) for name in raw}


def listing_reads(packs: Mapping[int, PackObjects]) -> Questions:
    """Return reads of the listings."""
    commit_ids = [
        CommitId(name)
        for pack_things in packs.values()
        for name in pack_things.of(ObjectKind.COMMIT)
    ]
    last = commit_ids[-1]
    return {
        "newest": lambda store: store.newest_commits(999),
        "names": lambda store: [
            store.names_with_prefix(prefix, 9) for prefix in ("ctx-1", "art-1")
        ],
        "labels": lambda store: store.commits_by_label(),
        "children": lambda store: {ctx: store.children(ctx) for ctx in commit_ids[::20]},
        "latest": lambda store: [store.latest_commit(f"p{number}", LATE) for number in range(4)],
        "chain": lambda store: store.chain(last),
        "conversation": lambda store: materialize(store, last, "root").messages,
    }
