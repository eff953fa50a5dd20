"""Two tiers: evicted objects are restored, and local ones are readable offline."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import pytest

from harken.context.checkpoint import CommitDraft, checkpoint
from harken.context.history import commit_history, get_commit
from harken.context.materialize import materialize
from harken.context.purge import PurgeRequest, find_text, purge_text
from harken.core.commits import ArtifactRef, CommitId, CommitNotes, Hash, HeadName, hash_raw
from harken.core.messages import Message
from harken.core.secrets.removal import Secret
from harken.errors import ObjectCorrupted, ObjectNotFound, StoreError
from harken.store.base import (
    ObjectKind,
    RetentionPolicy,
    Store,
    StoredCommit,
    Tombstone,
    WriteBatch,
)
from harken.store.chunking import put_file
from harken.store.fsck import fsck
from harken.store.memory import MemoryStore
from harken.store.sqlite.store import SqliteStore
from harken.store.tiered.push import DifferentHead
from harken.store.tiered.store import TieredStore
from harken.testing.store import batch_of, commit_in
from tests.unit.context.test_purge import PURGE, SECRET, write_secret

NOON = "2026-01-31T12:00:00.000000Z"
LATER = "2100-01-01T00:00:00Z"


class BackingStore(MemoryStore):
    """A backing store that counts its calls, and that may be offline."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []
        self.is_away = False

    def _note(self, call_name: str) -> None:
        self.asked.append(call_name)
        if self.is_away:
            raise StoreError("far away", "does not answer")

    def __getattribute__(self, name: str) -> Any:
        attribute = super().__getattribute__(name)
        if name.startswith("_") or not callable(attribute):
            return attribute

        def count_call(*arguments: object, **keywords: object) -> object:
            self._note(name)
            return attribute(*arguments, **keywords)

        return count_call


@pytest.fixture
def backing() -> BackingStore:
    return BackingStore()


@pytest.fixture
def tiered(tmp_path: Path, backing: BackingStore) -> Iterator[TieredStore]:
    store = TieredStore(SqliteStore(tmp_path / "s.db"), backing)
    yield store
    store.local.close()


def conversation(store: Store, steps: int = 30) -> CommitId:
    dice, last = Random(1), None
    for step in range(steps):
        text = f"step {step} " + dice.randbytes(300).hex()
        messages = [Message("user", text), Message("assistant", f"yes, {text}")]
        last = checkpoint(store, CommitDraft(parent=last, messages=messages, created_at=NOON))
    assert last is not None
    return last


def bodies(store: Store, *kinds: ObjectKind) -> set[str]:
    return {stored.name for stored in store.iter_objects() if stored.kind in kinds}


def evict_all(store: TieredStore) -> None:
    store.push()
    store.evict(0)
    assert bodies(store.local, ObjectKind.PART) == set()


@pytest.mark.req("S2-68")
def test_evicted_object_is_restored_on_read(tiered: TieredStore, backing: BackingStore) -> None:
    tip = conversation(tiered)
    before = materialize(tiered, tip).messages
    size = tiered.stats().stored_bytes
    evict_all(tiered)
    assert fsck(tiered.local) == []
    assert tiered.stats().raw_bytes < size
    backing.asked.clear()
    assert materialize(tiered, tip).messages == before
    assert backing.asked == ["objects"], "one round trip, however many they are"
    backing.is_away = True
    assert materialize(tiered, tip).messages == before
    assert fsck(tiered.local) == []


@pytest.mark.req("S2-19", "S2-68")
def test_commit_metadata_is_readable_with_everything_evicted_offline(
    tiered: TieredStore, backing: BackingStore
) -> None:
    tip = conversation(tiered)
    tiered.update_notes(tip, CommitNotes(summary="the end", labels=("x",)))
    before = commit_history(tiered, tip)
    evict_all(tiered)
    backing.is_away = True
    assert commit_history(tiered, tip) == before
    assert get_commit(tiered, tip).notes.summary == "the end"
    assert tiered.newest_commits(3)[0] == tip
    assert tiered.commits_by_label() == {"x": [tip]}
    assert tiered.names_with_prefix(tip[:16]) == [tip]
    assert tiered.children(before[1].id) == [tip]
    artifact = get_commit(tiered, tip).commit.artifact
    [entry, _] = tiered.deltas([artifact])[artifact]
    with pytest.raises(StoreError, match=r"[0-9a-f]{64} is not in this store.*does not answer"):
        _ = materialize(tiered, tip).messages
    later = CommitDraft(parent=tip, messages=[Message("user", "offline")], created_at=NOON)
    assert commit_history(tiered, checkpoint(tiered, later))[1:] == before
    assert tiered.local.objects([entry.message]), "messages stay; their parts may go"


@pytest.mark.req("S2-68")
def test_object_lost_by_the_backing_store_is_named(
    tiered: TieredStore, backing: BackingStore
) -> None:
    tip = conversation(tiered, 2)
    evict_all(tiered)
    missing_name = next(iter(bodies(backing, ObjectKind.PART)))
    del backing._objects[missing_name]
    with pytest.raises(ObjectNotFound, match=missing_name):
        _ = materialize(tiered, tip).messages


@pytest.mark.req("S2-67")
def test_only_objects_in_the_backing_store_are_evicted(tiered: TieredStore) -> None:
    conversation(tiered, 3)
    before = bodies(tiered.local, *ObjectKind)
    assert tiered.evict(0).objects == 0
    tiered.push()
    newer = batch_of("not there yet")
    tiered.write(newer)
    tiered.evict(0)
    remaining = bodies(tiered.local, ObjectKind.PART)
    assert remaining == {name for name in newer.objects if name not in before} & remaining
    assert len(remaining) == 1
    assert fsck(tiered.local) == []


def test_object_damaged_in_the_backing_store_is_kept(
    tiered: TieredStore, backing: BackingStore
) -> None:
    conversation(tiered, 2)
    tiered.push()
    name = next(iter(bodies(backing, ObjectKind.PART)))
    backing._objects[name] = backing._objects[next(iter(bodies(backing, ObjectKind.PART) - {name}))]
    tiered.evict(0)
    assert bodies(tiered.local, ObjectKind.PART) == {name}


@pytest.mark.req("S2-67")
def test_pinned_object_stays_and_later_pinned_one_returns(tiered: TieredStore) -> None:
    pinned, unpinned = conversation(tiered, 3), commit_in(batch_of("other"))
    tiered.write(batch_of("other"))
    tiered.push()
    tiered.set_retention({pinned: RetentionPolicy("pin")})
    needed = bodies(tiered.local, ObjectKind.PART)
    assert tiered.evict(0).objects == 1
    assert len(bodies(tiered.local, ObjectKind.PART)) == len(needed) - 1
    tiered.set_retention({unpinned: RetentionPolicy("pin")})
    assert bodies(tiered.local, ObjectKind.PART) == needed


@pytest.mark.req("S2-67")
def test_least_recently_used_object_is_evicted_first(tmp_path: Path) -> None:
    times = iter(range(10**9, 10**15, 20 * 60 * 10**6))  # each is later than one mark interval
    local = SqliteStore(tmp_path / "s.db", clock=lambda: next(times))
    tiered = TieredStore(local, MemoryStore())
    dice = Random(2)
    raw = [dice.randbytes(20_000) for _ in range(8)]
    for data in raw:
        tiered.write(WriteBatch(raw={hash_raw(data): data}))
        tiered._send([hash_raw(data)])
    evicted = tiered.evict(4 * 20_000 + 5_000)
    assert evicted.objects == 4
    names = [hash_raw(data) for data in raw]
    assert bodies(local, ObjectKind.RAW) == {*names[4:]}
    assert [tiered.raw(name) for name in names] == raw
    assert bodies(local, ObjectKind.RAW) == {*names}
    local.close()


@pytest.mark.req("S2-67")
def test_replicated_object_is_pushed_at_once(tiered: TieredStore, backing: BackingStore) -> None:
    tip = conversation(tiered, 3)
    data = b"a large file\n" * 400_000
    file = put_file(tiered, [data])
    tiered.write(WriteBatch(raw={hash_raw(b"small"): b"small"}))
    assert backing.newest_commits() == []
    tiered.set_retention(
        {name: RetentionPolicy("replicate") for name in (tip, file, hash_raw(b"small"))}
    )
    assert materialize(backing, tip).messages == materialize(tiered, tip).messages
    assert backing.raw(file) == data
    assert backing.raw(hash_raw(b"small")) == b"small"
    assert fsck(backing) == []


def test_files_are_evicted_by_chunk_and_read_again(
    tiered: TieredStore, backing: BackingStore
) -> None:
    data = Random(3).randbytes(2_000_000)
    file = put_file(tiered, [data])
    tiered.set_retention({file: RetentionPolicy("replicate")})
    tiered.set_retention({file: None})
    assert tiered.evict(0).objects > 2
    assert b"".join(tiered.read_chunks(file)) == data
    backing.is_away = True
    assert tiered.raw(file) == data


def test_commit_only_in_the_backing_store_can_be_extended(
    tiered: TieredStore, backing: BackingStore
) -> None:
    """This is the state after a move to another machine."""
    tip = conversation(backing, 40)
    file = put_file(backing, [b"line\n" * 600_000])
    backing.update_notes(tip, CommitNotes(labels=("x",)))
    before = materialize(backing, tip)
    backing.asked.clear()
    assert materialize(tiered, tip).messages == before.messages
    assert len(backing.asked) < 12, backing.asked
    assert tiered.newest_commits(1) == backing.newest_commits(1)
    assert tiered.commits_by_label() == {"x": [tip]}
    assert tiered.raw(file) == backing.raw(file)
    newer = batch_of("go on", parent=tip)
    tiered.write(newer)
    backing.is_away = True
    assert len(tiered.local.chain(commit_in(newer))) == 41
    assert materialize(tiered, commit_in(newer)).messages[:-1] == before.messages
    assert tiered.raw(file) == b"line\n" * 600_000
    assert fsck(tiered.local) == []


def test_fetched_object_that_does_not_match_its_name_is_refused(
    tiered: TieredStore, backing: BackingStore
) -> None:
    batch = batch_of("honest", "other")
    backing.write(batch)
    first, second = bodies(backing, ObjectKind.PART)
    backing._objects[first] = backing._objects[second]
    with pytest.raises(ObjectCorrupted, match=first):
        tiered.objects([Hash(first)])
    assert tiered.local.objects([Hash(first)]) == {}


def test_object_purged_in_the_backing_store_arrives_as_its_replacement(
    tiered: TieredStore, backing: BackingStore
) -> None:
    tip = write_secret(backing)
    purge_text(backing, [], PURGE)
    messages = materialize(tiered, tip).messages
    assert messages == materialize(backing, tip).messages
    tiered.write(batch_of("go on", parent=tip))
    assert find_text(tiered, [], SECRET) == []
    assert fsck(tiered.local) == []


def test_purge_reaches_both_tiers_and_evicted_objects(
    tiered: TieredStore, backing: BackingStore
) -> None:
    tip = write_secret(tiered)
    evict_all(tiered)
    assert find_text(tiered, [], SECRET)
    purge_text(tiered, [], PURGE)
    for store in (tiered.local, backing, tiered):
        assert find_text(store, [], SECRET) == []
        assert fsck(store) == []
    assert "[purged]" in str(materialize(tiered, tip).messages)


def test_stand_ins_are_not_evicted(tiered: TieredStore, backing: BackingStore) -> None:
    """Content may be purged, written and pinned again after an eviction, also offline."""
    names = [hash_raw(data) for data in (b"", b"secret")]
    tombstone = Tombstone(when=NOON, by="jill", why="a test")
    tiered.write(WriteBatch(raw={names[0]: b"", names[1]: b"secret"}))
    tiered.set_retention(dict.fromkeys(names, RetentionPolicy("replicate")))
    tiered.set_retention(dict.fromkeys(names))
    assert backing.raw(names[0]) == b"", "a file of no bytes is sent"
    for name, data in zip(names, (b"", b"secret"), strict=True):
        tiered.purge({name: b"gone"}, tombstone)
        tiered.evict(0)
        assert fsck(tiered.local) == []
        tiered.write(WriteBatch(raw={name: data}))
        tiered.set_retention({name: RetentionPolicy("pin")})
    backing.is_away = True
    assert [tiered.raw(name) for name in names] == [b"gone", b"gone"]


def test_local_gc_keeps_objects_needed_by_the_backing_store(tiered: TieredStore) -> None:
    tip = conversation(tiered)
    before = materialize(tiered, tip).messages
    evict_all(tiered)
    loose = batch_of("loose")
    tiered.write(WriteBatch(objects=loose.objects))
    tiered.collect([], now=LATER, grace_s=0)
    assert fsck(tiered.local) == []
    assert materialize(tiered, tip).messages == before


def test_push_sends_new_and_changed_objects(tiered: TieredStore, backing: BackingStore) -> None:
    tip = conversation(tiered, 5)
    assert tiered.push().commits == 5
    assert tiered.push().commits == 0
    backing.is_away = True
    tiered.update_notes(tip, CommitNotes(summary="said offline", labels=("y",)))
    backing.is_away = False
    tiered.push()
    assert backing.commits([tip])[tip].notes.summary == "said offline"


def test_unknown_name_is_missing(tiered: TieredStore) -> None:
    nothing = ArtifactRef("art-" + "f" * 64)
    asks: list[Callable[[], object]] = [
        lambda: tiered.raw(nothing),
        lambda: tiered.write(WriteBatch(sequences={nothing: []})),
    ]
    for ask in asks:
        with pytest.raises((ObjectNotFound, ObjectCorrupted)):
            ask()
    assert tiered.deltas([nothing]) == {}


def test_file_purged_in_the_backing_store_arrives_as_its_replacement(
    tiered: TieredStore, backing: BackingStore
) -> None:
    key = b"sk-live-0123456789"
    pieces = {hash_raw(data): data for data in (b"a" * 10 + key, b"b" * 10)}
    file = hash_raw(b"".join(pieces.values()))
    single = hash_raw(key)
    backing.write(WriteBatch(raw={**pieces, single: key}, files={file: [*pieces]}))
    purge_text(backing, [], PurgeRequest(secret=Secret(key.decode()), by="ann", why="leaked"))
    assert tiered.raw(file) == b"a" * 10 + b"[purged]" + b"b" * 10
    assert tiered.raw(single) == b"[purged]"
    backing.is_away = True
    assert tiered.raw(file) == b"a" * 10 + b"[purged]" + b"b" * 10
    assert tiered.local.raw(single) == b"[purged]"
    assert fsck(tiered.local) == []


def test_sequences_are_pushed_with_their_items(tiered: TieredStore, backing: BackingStore) -> None:
    tip = conversation(tiered, 3)
    ref = materialize(tiered, tip).ref
    tiered.set_retention({ref: RetentionPolicy("replicate")})
    members = tiered.sequences([ref])[ref]
    assert backing.sequences([ref]) == {ref: members}
    assert backing.deltas(members).keys() == {*members}
    second_store = TieredStore(SqliteStore(tiered.local.path.with_name("other.db")), backing)
    assert second_store.sequences([ref]) == {ref: members}
    second_store.set_retention({ref: RetentionPolicy("pin")})
    second_store.local.close()


def test_commit_only_in_the_backing_store_is_annotated_there(
    tiered: TieredStore, backing: BackingStore
) -> None:
    tip = conversation(backing, 1)
    tiered.update_notes(tip, CommitNotes(summary="from afar"))
    assert backing.commits([tip])[tip].notes.summary == "from afar"
    backing.is_away = True
    with pytest.raises(StoreError, match="the backing store failed"):
        tiered.update_notes(tip, CommitNotes(summary="nobody there"))


class CountingStore(SqliteStore):
    """A store that counts the commits which its chains return."""

    count = 0

    def chain(self, name: CommitId, depth: int | None = None) -> list[StoredCommit]:
        commits = super().chain(name, depth)
        self.count += len(commits)
        return commits


def test_latest_commit_and_push_do_not_read_the_history(
    tmp_path: Path, backing: BackingStore
) -> None:
    with closing(CountingStore(tmp_path / "local.db")) as local:
        store = TieredStore(local, backing)
        parent = None
        for second in range(30):
            batch = batch_of(f"text {second}", parent=parent, second=second, principal="ann")
            store.write(batch)
            parent = commit_in(batch)
            if second == 20:
                store.move_branch("main", parent, expected=None)
                store.push()
        store.move_branch("main", parent, expected=store.branches()["main"])
        local.count = 0
        assert store.latest_commit("ann", LATER) == parent
        assert local.count == 0
        store.push()
        pushed = local.count
        store.push()
        assert backing.branches() == {"main": parent}
        assert local.count == pushed


def test_latest_commit_follows_the_parents_if_the_clock_stepped_back(
    tiered: TieredStore,
) -> None:
    """A child may be older than its parent by the clock; it was written after it."""
    parent = batch_of("before", second=9, principal="ann")
    tiered.write(parent)
    tiered.push()
    tiered.local.close()
    local = SqliteStore(Path(tiered.local.path).with_name("other.db"))
    store = TieredStore(local, tiered.backing)
    with closing(local):
        child = batch_of("after", parent=commit_in(parent), second=3, principal="ann")
        store.write(child)
        assert store.latest_commit("ann", LATER) == commit_in(child)


def test_push_moves_only_branches_that_differ(tiered: TieredStore, backing: BackingStore) -> None:
    batch = batch_of("one")
    tiered.write(batch)
    tiered.move_branch("main", commit_in(batch), expected=None)
    tiered.push()
    backing.asked.clear()
    tiered.push()
    assert "move_branch" not in backing.asked


def test_branch_name_is_checked_before_anything_is_read(
    tiered: TieredStore, backing: BackingStore
) -> None:
    with pytest.raises(ValueError, match="branch"):
        tiered.move_branch("two words\n", CommitId("ctx-" + "1" * 64), expected=None)
    assert backing.asked == []


def test_push_does_not_move_a_branch_that_diverged(
    tiered: TieredStore, backing: BackingStore
) -> None:
    local, remote = batch_of("here"), batch_of("there")
    tiered.write(local)
    backing.write(remote)
    tiered.local.move_branch("main", commit_in(local), expected=None)
    backing.move_branch("main", commit_in(remote), expected=None)
    tiered.write(WriteBatch(raw={hash_raw(b"x"): b"x"}))
    tiered.local.set_heads({HeadName("src-" + "1" * 64): hash_raw(b"x")})
    [head] = tiered.push().different
    assert head == DifferentHead("branch", "main", commit_in(local), commit_in(remote))
    assert backing.branches() == {"main": commit_in(remote)}
    assert len(backing.heads()) == 1, "the other names are moved"


def test_push_reports_a_branch_that_the_backing_store_continues(
    tiered: TieredStore, backing: BackingStore
) -> None:
    root = batch_of("root")
    after = batch_of("after", parent=commit_in(root))
    for store in (tiered, backing):
        store.write(root)
    backing.write(after)
    tiered.local.move_branch("main", commit_in(root), expected=None)
    backing.move_branch("main", commit_in(after), expected=None)
    [head] = tiered.push().different
    assert (head.name, head.remote, head.is_behind) == ("main", commit_in(after), True)
    tiered.move_branch("main", commit_in(after), expected=commit_in(root))
    assert tiered.push().different == ()
