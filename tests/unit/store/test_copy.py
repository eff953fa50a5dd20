"""Copies of commits: all missing objects and no existing one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from harken.context.checkpoint import CommitDraft, checkpoint
from harken.context.materialize import materialize
from harken.core.commits import (
    ArtifactRef,
    Commit,
    CommitId,
    CommitNotes,
    Hash,
    commit_bytes,
    encode_delta,
    encode_sequence,
    hash_raw,
)
from harken.core.messages import Message
from harken.errors import NameNotFound, ObjectNotFound, StoreWriteError
from harken.store.base import Store, Tombstone, WriteBatch
from harken.store.copying.commits import copy_artifacts, copy_commits, find_missing_commits
from harken.store.fsck import fsck
from harken.store.memory import MemoryStore
from harken.store.sqlite.store import SqliteStore
from harken.testing.store import batch_of, commit_in

NOON = "2026-01-31T12:00:00.000000Z"


class BatchSizeStore(MemoryStore):
    """A store that keeps the size of each batch; the batch number `fails_at` is refused."""

    def __init__(self, fails_at: int | None = None) -> None:
        super().__init__()
        self.batches: list[WriteBatch] = []
        self.fails_at = fails_at

    def write(self, batch: WriteBatch) -> None:
        if len(self.batches) == self.fails_at:
            raise StoreWriteError("here", reason="the disk is full")
        self.batches.append(batch)
        super().write(batch)

    @property
    def sent_names(self) -> set[str]:
        return {
            name
            for batch in self.batches
            for group in (batch.objects, batch.deltas, batch.raw, batch.sequences, batch.files)
            for name in group
        }


def grow(store: Store, parent: CommitId | None, steps: int, name: str = "") -> list[CommitId]:
    created: list[CommitId] = []
    for index in range(steps):
        before = created[-1] if created else parent
        batch = batch_of(f"{name} {index}", "the same for all", parent=before, second=index)
        store.write(batch)
        created.append(commit_in(batch))
    return created


def same(source: Store, target: Store, tip: CommitId) -> None:
    assert target.chain(tip) == source.chain(tip)
    assert materialize(target, tip, "root").messages == materialize(source, tip, "root").messages
    assert fsck(target) == []


@pytest.fixture(params=["memory", "sqlite"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    store = MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "target.db")
    yield store
    store.close()


def test_copy_includes_only_the_ancestors_of_a_commit(target: Store) -> None:
    source = MemoryStore()
    trunk = grow(source, None, 40)
    branch = grow(source, trunk[9], 3, "branch")
    other_chain = grow(source, trunk[30], 3, "other")
    source.update_notes(trunk[3], CommitNotes(summary="third", labels=("good",)))
    copied = copy_commits(source, target, [branch[-1]])
    assert copied.commits == 13
    same(source, target, branch[-1])
    assert target.commits_by_label() == {"good": [trunk[3]]}
    assert target.commits([trunk[10], other_chain[0]]) == {}


def test_second_copy_writes_nothing() -> None:
    source, target = MemoryStore(), BatchSizeStore()
    tips = [grow(source, None, 5)[-1], grow(source, None, 5, "b")[-1]]
    copy_commits(source, target, tips)
    assert len(target.batches) == 1
    assert copy_commits(source, target, tips).objects == 0
    assert len(target.batches) == 1


def test_only_new_objects_are_sent() -> None:
    source, target = MemoryStore(), BatchSizeStore()
    trunk = grow(source, None, 5)
    copy_commits(source, target, [trunk[-1]])
    target.batches.clear()
    [message] = [Message("user", "new")]
    full_messages = [*materialize(source, trunk[-1]).messages, message]
    tip = checkpoint(
        source,
        CommitDraft(parent=trunk[-1], type="snapshot", messages=full_messages, created_at=NOON),
    )
    assert copy_commits(source, target, [tip]).objects == 3  # a part, a message, the delta
    same(source, target, tip)


def test_existing_commits_keep_their_metadata() -> None:
    source, target = MemoryStore(), MemoryStore()
    [root] = grow(source, None, 1)
    copy_commits(source, target, [root])
    target.update_notes(root, CommitNotes(summary="mine"))
    source.update_notes(root, CommitNotes(summary="theirs"))
    tips = grow(source, root, 1, "next")
    copy_commits(source, target, tips)
    assert [stored.notes.summary for stored in target.chain(tips[0])] == ["", "mine"]


def test_large_objects_are_copied_in_bounded_batches() -> None:
    source, target = MemoryStore(), BatchSizeStore()
    messages = [Message("user", f"{n}" * 10_000) for n in range(10, 99)]
    tip = checkpoint(source, CommitDraft(messages=messages, created_at=NOON))
    copied = copy_commits(source, target, [tip], at_once_bytes=100_000)
    assert len(target.batches) >= 10
    assert max(sum(map(len, batch.objects.values())) for batch in target.batches) <= 130_000
    assert copied.size_bytes > 89 * 20_000
    same(source, target, tip)


@pytest.mark.parametrize("fails_at", range(6))
def test_interrupted_copy_leaves_a_consistent_store_and_resumes(fails_at: int) -> None:
    source, target = MemoryStore(), BatchSizeStore(fails_at)
    tip = grow(source, None, 100)[-1]
    with pytest.raises(StoreWriteError):
        copy_commits(source, target, [tip], at_once_bytes=4_000)
    assert fsck(target) == []
    before = len(target.names_with_prefix("ctx-", 1000))
    target.fails_at = None
    assert copy_commits(source, target, [tip]).commits == 100 - before
    same(source, target, tip)


def test_artifacts_of_every_kind_are_copied(target: Store) -> None:
    source = MemoryStore()
    tips: list[CommitId] = []
    grown = [
        source.commits([commit_id])[commit_id].commit.artifact
        for commit_id in grow(source, None, 3)
    ]
    sequence, _ = encode_sequence(grown)
    repeated, _ = encode_sequence([sequence, grown[0]])
    raw = {hash_raw(data): data for data in (b"", b"\0\xff" * 100)}
    source.write(WriteBatch(raw=raw, sequences={sequence: grown, repeated: [sequence, grown[0]]}))
    for ref in (*raw, sequence, repeated):
        draft = CommitDraft(
            artifact=ref, format="x", message_count=1, token_count=0, created_at=NOON
        )
        tips.append(checkpoint(source, draft))
    for _ in range(2):
        copy_commits(source, target, tips)
    assert {ref: target.raw(ref) for ref in raw} == raw
    assert target.sequences([repeated]) == {repeated: [sequence, grown[0]]}
    assert fsck(target) == []


@pytest.mark.parametrize("is_wide", [True, False])
def test_nested_sequences_are_copied_once_each(*, is_wide: bool) -> None:
    source, target = MemoryStore(), BatchSizeStore()
    first = grow(source, None, 1)[0]
    artifact_ref = source.commits([first])[first].commit.artifact
    pair = (artifact_ref, encode_sequence([artifact_ref])[0])
    sequences = {pair[1]: [artifact_ref]}
    for _ in range(60 if is_wide else 2000):  # two references each: 2 ** 60 paths; or one, deep
        rows = [[*pair], [*pair[::-1]]] if is_wide else [[pair[1]]]
        encoded_rows = [encode_sequence(row)[0] for row in rows]
        sequences |= dict(zip(encoded_rows, rows, strict=True))
        pair = (encoded_rows[0], encoded_rows[-1])
    commit = Commit(artifact=pair[0], created_at=NOON)
    source.write(WriteBatch(sequences=sequences, commits=[(commit, CommitNotes(summary="nested"))]))
    copy_commits(source, target, [commit.id], at_once_bytes=1000)
    assert fsck(target) == []
    assert target.sequences([pair[0]]) == source.sequences([pair[0]])
    sent_sequences = [name for batch in target.batches for name in batch.sequences]
    assert len(sent_sequences) == len(set(sent_sequences)) > 60


def test_chunked_file_is_copied_by_new_chunks() -> None:
    source, target = MemoryStore(), BatchSizeStore()
    pieces = [bytes([n]) * 1000 for n in range(50)]

    def keep(data: list[bytes]) -> tuple[ArtifactRef, CommitId]:
        refs = [hash_raw(piece) for piece in data]
        file_ref = hash_raw(b"".join(data))
        source.write(WriteBatch(raw=dict(zip(refs, data, strict=True)), files={file_ref: refs}))
        draft = CommitDraft(
            artifact=file_ref, format="x", message_count=1, token_count=0, created_at=NOON
        )
        return file_ref, checkpoint(source, draft)

    file_ref, tip = keep(pieces)
    copy_commits(source, target, [tip], at_once_bytes=10_000)
    assert target.raw(file_ref) == b"".join(pieces)
    assert max(len(batch.raw) for batch in target.batches) <= 10
    target.batches.clear()
    longer, tip = keep([*pieces, b"more"])
    copy_commits(source, target, [tip])
    assert target.sent_names == {longer, hash_raw(b"more")}
    assert target.raw(longer) == b"".join(pieces) + b"more"
    assert fsck(target) == []


SECRET, STONE = "the secret word", Tombstone(when=NOON, by="ann", why="it leaked")


def purged(source: Store) -> CommitId:
    """Return a commit of which a part, the delta and the commit itself were purged."""
    batch = batch_of("before", f"{SECRET} is out", principal=SECRET)
    source.write(batch)
    [delta], commit = batch.deltas, batch.commits[0][0]
    tip = commit_in(batch)
    part = next(name for name, body in batch.objects.items() if SECRET.encode() in body)
    entries = [msgspec.structs.replace(e, source={"was": 1}) for e in batch.deltas[delta]]
    purged_names = {
        part: b'{"text":"[purged] is out","type":"text"}',
        delta: encode_delta(entries)[1],
        tip: commit_bytes(msgspec.structs.replace(commit, principal="[purged]")),
    }
    source.purge(purged_names, STONE)
    return tip


def test_purged_object_is_copied_as_purged_under_its_old_name(target: Store) -> None:
    source = MemoryStore()
    after = grow(source, purged(source), 2)
    for _ in range(2):
        copy_commits(source, target, [after[-1]], at_once_bytes=1)
    same(source, target, after[-1])
    texts = [message.content for message in materialize(target, after[-1]).messages]
    assert texts[1] == "[purged] is out"
    assert target.tombstones().keys() == source.tombstones().keys()
    assert {stone.why for stone in target.tombstones().values()} == {"it leaked"}


def test_copy_does_not_purge_the_target(target: Store) -> None:
    source = MemoryStore()
    original = batch_of("before", f"{SECRET} is out", principal=SECRET)
    target.write(original)
    tip = purged(source)
    after = grow(source, tip, 2)
    copy_commits(source, target, [after[-1]])
    assert [m.content for m in materialize(target, tip).messages] == ["before", f"{SECRET} is out"]
    assert target.chain(after[-1])[-1].commit.principal == SECRET
    assert target.tombstones() == {}
    assert fsck(target) == []


def test_long_history_is_read_in_few_steps() -> None:
    requested: list[str] = []

    class CountingStore(MemoryStore):
        def __getattribute__(self, name: str) -> object:
            if not name.startswith("_"):
                requested.append(name)
            return super().__getattribute__(name)

    source, target = MemoryStore(), CountingStore()
    trunk = grow(source, None, 1200)
    assert len(find_missing_commits(source, target, [trunk[-1]])) == 1200
    assert len(requested) < 15
    copy_commits(source, target, [trunk[-2]])
    requested.clear()
    assert find_missing_commits(source, target, [trunk[-1], trunk[5]]) == [trunk[-1]]
    assert requested == ["commits", "commits"]


def test_progress_is_reported() -> None:
    source, progress = MemoryStore(), list[tuple[int, int]]()
    tip = grow(source, None, 150)[-1]
    copy_commits(
        source, MemoryStore(), [tip], on_progress=lambda *amounts: progress.append(amounts)
    )
    assert progress == [(64, 150), (128, 150), (150, 150)]


class LossyStore(MemoryStore):
    """A store that has lost an object."""

    lost: str = ""

    def objects(self, names: object) -> dict[Hash, bytes]:
        objects_found = super().objects(names)  # type: ignore[arg-type]
        return {name: body for name, body in objects_found.items() if name != self.lost}

    def raw(self, name: ArtifactRef) -> bytes:
        if name == self.lost:
            raise ObjectNotFound("here", name)
        return super().raw(name)


@pytest.mark.parametrize("which", [0, 1])
def test_object_missing_in_the_source_is_named(which: int) -> None:
    source, target = LossyStore(), MemoryStore()
    batch = batch_of("Hi")
    source.write(batch)
    source.lost = list(batch.objects)[which]
    with pytest.raises(ObjectNotFound, match=source.lost):
        copy_commits(source, target, [commit_in(batch)])
    assert target.names_with_prefix("") == []


def test_missing_tip_is_refused() -> None:
    with pytest.raises(NameNotFound):
        copy_commits(MemoryStore(), MemoryStore(), [CommitId("ctx-" + "0" * 64)])


def test_artifacts_are_copied_up_to_existing_ones(target: Store) -> None:
    """A version of a ticket contains the name of the version before it."""
    source = MemoryStore()
    versions: list[ArtifactRef] = []
    raw: list[ArtifactRef] = []
    for number in range(6):
        data = b"version %d" % number
        raw.append(hash_raw(data))
        members = [raw[-1], *versions[-1:]]
        versions.append(encode_sequence(members)[0])
        source.write(WriteBatch(raw={raw[-1]: data}, sequences={versions[-1]: members}))
    first = copy_artifacts(source, target, [versions[3]], existing=())
    assert (first.commits, first.objects) == (0, 8)
    later = copy_artifacts(source, target, [versions[5]], existing=[versions[3]])
    assert later.objects == 4, "two versions, and nothing of those before"
    assert later.size_bytes == 2 * len(b"version 0") + 2 * 75 * 2
    assert target.sequences(versions).keys() == {*versions}
    assert target.raws(raw).keys() == {*raw}
    assert fsck(target) == []
    assert copy_artifacts(source, target, [versions[5]], existing=[versions[5]]).objects == 0
