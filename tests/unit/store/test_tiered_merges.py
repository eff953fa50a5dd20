"""What two tiers return together: commits, names and labels of both, each once and in order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from harken.core.commits import (
    ArtifactRef,
    Commit,
    CommitId,
    CommitNotes,
    Hash,
    HeadName,
    encode_sequence,
    hash_raw,
)
from harken.errors import BranchConflict, NameNotFound, ObjectNotFound, StoreError
from harken.store.base import ObjectKind, RetentionPolicy, Tombstone, WriteBatch
from harken.store.batch import validate_batch
from harken.store.chunking import put_file
from harken.store.fsck import fsck
from harken.store.memory import MemoryStore
from harken.store.sqlite.store import SqliteStore
from harken.store.tiered.store import TieredStore
from harken.testing.store import batch_of, commit_in

LATER = "2100-01-01T00:00:00Z"
FILE = b"".join(b"%d\n" % number for number in range(100_000))


@pytest.fixture
def backing() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def tiered(tmp_path: Path, backing: MemoryStore) -> Iterator[TieredStore]:
    store = TieredStore(SqliteStore(tmp_path / "s.db"), backing)
    yield store
    store.local.close()


def write_to(
    store: MemoryStore | SqliteStore | TieredStore,
    text: str,
    *,
    second: int = 0,
    parent: CommitId | None = None,
    labels: tuple[str, ...] = (),
) -> CommitId:
    batch = batch_of(
        text, second=second, parent=parent, notes=CommitNotes(summary=text, labels=labels)
    )
    store.write(batch)
    return commit_in(batch)


def test_commits_of_both_tiers_are_listed_once_each(
    tiered: TieredStore, backing: MemoryStore
) -> None:
    both = write_to(tiered, "both", second=1)
    tiered.push()
    local = write_to(tiered, "local", second=3)
    remote = write_to(backing, "remote", second=2)
    later = write_to(backing, "later", second=4)
    assert tiered.newest_commits() == [later, local, remote, both]
    assert tiered.newest_commits(2) == [later, local]
    assert tiered.newest_commits(0) == []
    names = sorted([both, local, remote, later])
    assert tiered.names_with_prefix("ctx-") == names
    assert tiered.names_with_prefix("ctx-", 3) == names[:3]
    assert tiered.names_with_prefix("ctx-", 0) == []
    assert tiered.names_with_prefix("ctx-", -1) == []


def test_children_and_labels_of_both_tiers_are_oldest_first(
    tiered: TieredStore, backing: MemoryStore
) -> None:
    root = write_to(tiered, "root", labels=("good",))
    tiered.push()
    last = write_to(tiered, "last", second=9, parent=root, labels=("good", "best"))
    first = write_to(backing, "first", second=1, parent=root, labels=("good", "other"))
    assert tiered.children(root) == [first, last]
    assert tiered.commits_by_label() == {
        "best": [last],
        "good": [root, first, last],
        "other": [first],
    }
    assert tiered.commits_by_label("good") == {"good": [root, first, last]}


def test_labels_of_a_local_commit_are_the_local_ones(
    tiered: TieredStore, backing: MemoryStore
) -> None:
    name = write_to(tiered, "x", labels=("old",))
    tiered.push()
    tiered.local.update_notes(name, CommitNotes(summary="x", labels=("new",)))
    assert backing.commits_by_label() == {"old": [name]}
    assert tiered.commits_by_label() == {"new": [name]}
    tiered.push()
    assert backing.commits_by_label() == {"new": [name]}


@pytest.mark.parametrize("is_remote", [True, False])
def test_latest_commit_is_that_of_the_tier_that_has_the_later_one(
    tiered: TieredStore, backing: MemoryStore, is_remote: bool
) -> None:
    early = write_to(backing if is_remote else tiered, "early", second=1)
    late = write_to(tiered if is_remote else backing, "late", second=2)
    assert tiered.latest_commit("", LATER) == late
    assert tiered.latest_commit("", "2026-01-01T00:00:01Z") == early
    assert tiered.latest_commit("", "2025-01-01T00:00:00Z") is None


def test_remote_descendant_with_an_earlier_time_is_the_latest_commit(
    tiered: TieredStore, backing: MemoryStore
) -> None:
    """The clock of the other machine is behind."""
    parent = write_to(tiered, "parent", second=9)
    tiered.push()
    child = write_to(backing, "child", second=3, parent=parent)
    grandchild = write_to(backing, "grandchild", second=4, parent=child)
    assert tiered.latest_commit("", LATER) == grandchild


def test_branches_of_both_tiers_are_named_and_the_local_one_counts(
    tiered: TieredStore, backing: MemoryStore
) -> None:
    local, remote = write_to(tiered, "local"), write_to(backing, "remote")
    backing.move_branch("main", remote, expected=None)
    backing.move_branch("other", remote, expected=None)
    with pytest.raises(BranchConflict):
        tiered.move_branch("main", local, expected=None)
    tiered.move_branch("main", local, expected=remote)
    assert tiered.branches() == {"main": local, "other": remote}
    with pytest.raises(NameNotFound, match="ctx-000000"):
        tiered.move_branch("third", CommitId(f"ctx-{'0' * 64}"), expected=None)


def test_sequence_is_fetched_with_deltas_raw_bytes_and_files(
    tiered: TieredStore, backing: MemoryStore
) -> None:
    batch = batch_of("Hi")
    [delta] = batch.deltas
    raw = hash_raw(b"raw")
    backing.write(WriteBatch(objects=batch.objects, deltas=batch.deltas, raw={raw: b"raw"}))
    file = put_file(backing, [FILE])
    inner_members = [raw, file]
    inner = encode_sequence(inner_members)[0]
    members = [delta, inner, raw]
    outer = encode_sequence(members)[0]
    backing.write(WriteBatch(sequences={inner: inner_members, outer: members}))
    assert tiered.sequences([outer]) == {outer: members}
    local = tiered.local
    assert local.sequences([inner, outer]) == {inner: inner_members, outer: members}
    assert local.raw(file) == FILE
    assert local.raw(raw) == b"raw"
    assert local.deltas([delta]).keys() == {delta}
    assert fsck(local) == []


def test_purged_bytes_of_the_backing_store_arrive_with_their_tombstone(
    tiered: TieredStore, backing: MemoryStore
) -> None:
    raw, stand_in = hash_raw(b"secret"), b"gone"
    backing.write(WriteBatch(raw={raw: b"secret"}))
    backing.purge({raw: stand_in}, Tombstone(when=LATER, by="ann", why="a secret"))
    for store in (tiered, tiered.local):
        assert store.raw(raw) == stand_in
        assert store.tombstones()[raw].stand_in == hash_raw(stand_in)
    assert fsck(tiered.local) == []


@pytest.mark.parametrize("kind", ["pin", "replicate"])
def test_evicted_objects_of_a_retained_artifact_are_fetched(
    tiered: TieredStore, backing: MemoryStore, kind: str
) -> None:
    file = put_file(tiered, [FILE])
    members = [file]
    sequence = encode_sequence(members)[0]
    tiered.write(WriteBatch(sequences={sequence: members}))
    value = Commit(artifact=sequence, created_at="2026-01-31T12:00:00.000000Z")
    tiered.write(WriteBatch(commits=[(value, CommitNotes())]))
    tiered.push()
    tiered.evict(0)
    with pytest.raises(ObjectNotFound):
        tiered.local.raw(file)
    tiered.set_retention({value.id: RetentionPolicy(kind)})  # type: ignore[arg-type]
    assert tiered.local.raw(file) == FILE
    assert tiered.retention() == {value.id: RetentionPolicy(kind)}  # type: ignore[arg-type]


def test_retention_of_an_unknown_object_is_refused(tiered: TieredStore) -> None:
    with pytest.raises((ObjectNotFound, NameNotFound)):
        tiered.set_retention({ArtifactRef(f"art-{'0' * 64}"): RetentionPolicy("pin")})
    assert tiered.retention() == {}


def test_ticket_does_not_move_to_a_version_that_no_tier_has(tiered: TieredStore) -> None:
    missing = ArtifactRef(f"art-{'0' * 64}")
    with pytest.raises(ObjectNotFound, match=missing):
        tiered.move_head(HeadName(f"tkt-{'1' * 64}"), missing, expected=None)


def test_failure_of_the_backing_store_names_what_was_requested(tiered: TieredStore) -> None:
    class AwayStore(MemoryStore):
        def objects(self, names: Iterable[Hash]) -> dict[Hash, bytes]:
            raise StoreError("there", "does not answer")

    store = TieredStore(tiered.local, AwayStore())
    [name, *_] = batch_of("x").objects
    with pytest.raises(StoreError, match=f"{name} is not in this store.*there: does not answer"):
        store.objects([name])


def test_evicted_object_is_no_need_of_another_kind(tiered: TieredStore) -> None:
    batch = batch_of("text")
    tiered.write(batch)
    tiered.push()
    assert tiered.evict(0).objects == 1
    (part,) = (
        obj.name for obj in validate_batch(batch).objects.values() if obj.kind is ObjectKind.PART
    )
    ref, _ = encode_sequence([ArtifactRef(part)])
    with pytest.raises(ObjectNotFound, match=part):
        tiered.write(WriteBatch(sequences={ref: [ArtifactRef(part)]}))
    tiered.write(batch_of("text", second=9))
    assert len(tiered.newest_commits()) == 2
