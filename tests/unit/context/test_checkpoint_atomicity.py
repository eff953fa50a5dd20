"""Data, artifact and commit are stored together, or not at all."""

from __future__ import annotations

import threading
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from harken.context.checkpoint import CommitDraft, checkpoint, checkpoint_all
from harken.context.history import get_commit
from harken.context.materialize import materialize
from harken.core.commits import ArtifactRef, CommitId, hash_raw
from harken.core.messages import Message
from harken.errors import ObjectNotFound
from harken.formats.events import Event, PromptEvent
from harken.formats.events_v1 import encode_events
from harken.store.base import WriteBatch
from harken.store.memory import MemoryStore
from harken.store.sqlite.store import SqliteStore
from tests.unit.context.kit import NOON, texts

MISSING = "0" * 64
DATA = encode_events([Event(PromptEvent("Hi", "user"), NOON)])
DRAFT = CommitDraft(messages=[Message("user", "Hi")], created_at=NOON)
DRAFTS = {
    "messages": DRAFT,
    "data": replace(DRAFT, messages=(), data=DATA),
    "data of an unknown format": replace(DRAFT, messages=(), data=b"\0", format="of-tomorrow"),
}
drafts = pytest.mark.parametrize("draft", DRAFTS.values(), ids=DRAFTS)


class ListeningStore(MemoryStore):
    """A store that keeps its batches."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[WriteBatch] = []

    def write(self, batch: WriteBatch) -> None:
        self.batches.append(batch)
        super().write(batch)


@pytest.mark.req("S2-11")
@drafts
def test_data_and_commit_are_written_in_one_batch(draft: CommitDraft) -> None:
    store = ListeningStore()
    ctx = checkpoint(store, draft)
    [batch] = store.batches
    [(commit, _)] = batch.commits
    assert commit.id == ctx
    assert {*batch.deltas, *batch.raw} == {commit.artifact}


@pytest.mark.req("S2-10", "S2-11")
def test_given_bytes_are_the_artifact_of_the_commit() -> None:
    store = ListeningStore()
    ctx = checkpoint(store, DRAFTS["data"])
    stored = get_commit(store, ctx)
    assert (stored.commit.artifact, stored.commit.format) == (hash_raw(DATA), "events-v1")
    assert store.raw(stored.commit.artifact) == DATA
    assert (stored.commit.message_count, stored.commit.token_count) == (1, 1)
    assert (stored.notes.summary, stored.notes.derived) == ("user: Hi", True)
    assert texts(store, ctx) == ["Hi"]
    unknown = get_commit(store, checkpoint(store, DRAFTS["data of an unknown format"]))
    assert store.raw(unknown.commit.artifact) == b"\0"
    assert unknown.notes.summary == "0 messages as of-tomorrow"


@pytest.mark.parametrize(
    "draft",
    [
        replace(DRAFTS["data"], messages=DRAFT.messages),
        replace(DRAFTS["data"], artifact=hash_raw(DATA)),
    ],
    ids=["messages", "artifact"],
)
def test_content_is_given_once(draft: CommitDraft) -> None:
    store = ListeningStore()
    with pytest.raises(ValueError, match="never both"):
        checkpoint(store, draft)
    assert not store.batches


@pytest.mark.req("S2-11")
@drafts
@pytest.mark.parametrize("is_file", [False, True], ids=["memory", "file"])
def test_unknown_parent_leaves_neither_data_nor_commit(
    tmp_path: Path, draft: CommitDraft, *, is_file: bool
) -> None:
    with closing(SqliteStore(tmp_path / "s.db") if is_file else MemoryStore()) as store:
        orphan = replace(draft, parent=CommitId(f"ctx-{MISSING}"))
        for orphans in ([orphan], [orphan, DRAFT]):
            with pytest.raises(ObjectNotFound):
                checkpoint_all(store, orphans)
        with pytest.raises(ObjectNotFound):
            checkpoint(store, CommitDraft(artifact=ArtifactRef(f"art-{MISSING}"), created_at=NOON))
        with pytest.raises(ObjectNotFound):
            checkpoint_all(
                store,
                [draft, CommitDraft(artifact=ArtifactRef(f"art-{MISSING}"), created_at=NOON)],
            )
        assert store.names_with_prefix("") == []
        assert [*store.iter_objects()] == []


@pytest.mark.req("S2-11")
def test_readers_see_no_commit_without_its_messages(tmp_path: Path) -> None:
    """Each message fills several pages, so a commit that is written in parts would show."""
    path, count, faults = tmp_path / "s.db", 60, list[Exception]()
    with closing(SqliteStore(path)) as writer, closing(SqliteStore(path)) as reader:
        is_written = threading.Event()

        def read() -> None:
            try:
                while not is_written.is_set():
                    for name in reader.newest_commits(3):
                        assert materialize(reader, name, name).message_count == 2
            except Exception as error:  # noqa: BLE001 - raised below, in the thread of the test
                faults.append(error)

        thread = threading.Thread(target=read)
        thread.start()
        tip: CommitId | None = None
        for number in range(count):
            content = [Message("user", f"{number} " * 9_000), Message("assistant", f"{number}.")]
            draft = CommitDraft(parent=tip, messages=content, created_at=NOON)
            tip = checkpoint(writer, draft)
        is_written.set()
        thread.join()
        assert not faults, faults
        assert len(reader.newest_commits(2 * count)) == count
