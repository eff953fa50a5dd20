"""A store on a disk that is really full: a small tmpfs. Needs Linux and root; skipped elsewhere."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from harken.context.checkpoint import CommitDraft, checkpoint
from harken.context.compaction import compact
from harken.context.materialize import materialize
from harken.core.commits import CommitId, hash_raw
from harken.core.messages import Message
from harken.errors import StoreWriteError
from harken.store.base import WriteBatch
from harken.store.fsck import fsck
from harken.store.sqlite.store import SqliteStore
from harken.testing.store import batch_of, commit_in
from tests.crash.harm import small_file_system

NOON = "2026-01-01T12:00:00Z"
LATER = "2100-01-01T00:00:00Z"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MB."""
    with small_file_system(tmp_path / "small", "1m") as at:
        yield at


@pytest.mark.req("D-01", "S2-11")
def test_a_full_disk_refuses_whole_batches_and_takes_them_when_there_is_room(
    small_disk: Path,
) -> None:
    path, ballast = small_disk / "s.db", small_disk / "ballast"
    ballast.write_bytes(b"x" * 300_000)
    store, names, noise = SqliteStore(path), list[CommitId](), random.Random(1)
    batch = batch_of("before")
    with pytest.raises(StoreWriteError, match="free disk space"):
        while True:
            text = noise.randbytes(3000).hex()
            parent = names[-1] if names else None
            batch = batch_of(text, parent=parent, second=len(names))
            store.write(batch)
            names.append(commit_in(batch))
    assert len(names) > 5
    for reader in (store, SqliteStore(path)):
        assert [stored.id for stored in reader.chain(names[-1])] == names[::-1]
        assert reader.objects(batch.objects) == {}
        assert fsck(reader) == []
        if reader is not store:
            reader.close()
    ballast.unlink()
    store.write(batch)
    assert store.objects(batch.objects) == batch.objects
    assert fsck(store) == []
    store.close()


def filled(path: Path, ballast: Path) -> tuple[SqliteStore, CommitId, CommitDraft]:
    """Compact a conversation again and again until the disk is full.

    Returns the store, the last commit that was acknowledged, and the draft that was refused.
    """
    ballast.write_bytes(b"x" * 200_000)
    store, noise = SqliteStore(path), random.Random(2)
    last = checkpoint(store, CommitDraft(messages=[Message("user", "first")], created_at=NOON))
    while True:
        said = [Message("user", noise.randbytes(3000).hex())]
        draft = CommitDraft(messages=said, parent=last, created_at=NOON)
        try:
            last = compact(store, draft, "the story so far")
        except StoreWriteError:
            return store, last, draft


@pytest.mark.req("D-01", "S2-25")
def test_a_compaction_that_a_full_disk_refused_is_not_there_until_it_is_tried_again_with_room(
    small_disk: Path,
) -> None:
    """A batch of two commits that failed once counted as there: the retry wrote nothing."""
    store, last, draft = filled(small_disk / "s.db", small_disk / "ballast")
    for _ in range(2):
        with pytest.raises(StoreWriteError):
            compact(store, draft, "the story so far")
    assert store.children(last) == []
    (small_disk / "ballast").unlink()
    made = compact(store, draft, "the story so far")
    store.close()
    again = SqliteStore(small_disk / "s.db")
    assert [m.content for m in materialize(again, made).messages] == ["the story so far"]
    assert materialize(again, made, "root").messages[-1].content == draft.messages[0].content
    assert fsck(again) == []
    again.close()


@pytest.mark.req("D-01", "S2-69")
def test_a_collection_on_a_full_disk_takes_nothing_that_is_needed_and_can_be_tried_again(
    small_disk: Path,
) -> None:
    path, ballast = small_disk / "s.db", small_disk / "ballast"
    store = SqliteStore(path)
    loose = random.Random(3).randbytes(100_000)
    store.write(WriteBatch(raw={hash_raw(loose): loose}))
    store.close()
    store, last, _ = filled(path, ballast)
    before = materialize(store, last, "root").messages
    with suppress(StoreWriteError):  # it may find room in what it gives back itself
        store.collect([], now=LATER, grace_s=0)
    assert fsck(store) == []
    assert materialize(store, last, "root").messages == before
    ballast.unlink()
    store.collect([], now=LATER, grace_s=0)
    assert hash_raw(loose) not in store.names_with_prefix("art-", 999)
    assert materialize(store, last, "root").messages == before
    assert fsck(store) == []
    store.close()
