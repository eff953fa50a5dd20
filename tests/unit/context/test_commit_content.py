"""Commits of raw bytes in a format, as part of a conversation."""

from __future__ import annotations

import pytest

from harken.context.checkpoint import CommitDraft, checkpoint
from harken.context.commit_content import MAX_PREVIEW_BYTES, read_content, read_contents
from harken.context.compaction import compact, snapshot
from harken.context.history import diff, get_commit
from harken.context.materialize import Cache, materialize
from harken.context.render import render
from harken.core.commits import CommitId, hash_raw
from harken.core.messages import FunctionCall, Message, ToolCall, text_of
from harken.errors import NameNotFound, ObjectNotFound
from harken.formats import events_v1
from harken.formats.base import ConversationEntry
from harken.store.base import Store, WriteBatch
from tests.unit.context.kit import NOON, commit, texts
from tests.unit.context.watched_store import WatchedStore

CALL = ToolCall("c1", FunctionCall("look", "{}"))
ANSWER = [
    ConversationEntry(Message("assistant", "I look.", [CALL]), NOON),
    ConversationEntry(Message("tool", "Nobody.", tool_call_id="c1"), "2026-01-31T12:00:09.000000Z"),
]


def events(*entries: ConversationEntry) -> bytes:
    assert events_v1.FORMAT.writes
    return events_v1.FORMAT.writes(entries) or b""


def commit_bytes(store: Store, parent: CommitId | None, data: bytes, **members: object) -> CommitId:
    store.write(WriteBatch(raw={hash_raw(data): data}))
    draft = CommitDraft(parent=parent, artifact=hash_raw(data), **members)  # type: ignore[arg-type]
    return checkpoint(store, draft)


@pytest.mark.req("S2-12", "S2-55")
def test_raw_bytes_in_a_chain_are_part_of_its_conversation(store: WatchedStore) -> None:
    tip = commit_bytes(store, commit(store, None, "Hi"), events(*ANSWER))
    tip = commit(store, tip, "And now?")
    cache: Cache = {}
    for _ in range(2):
        materialized = materialize(store, tip, cache=cache)
        assert materialized.messages[1:3] == [entry.message for entry in ANSWER]
        assert [text_of(message.content) for message in materialized.messages] == [
            "Hi",
            "I look.",
            "Nobody.",
            "And now?",
        ]
        assert materialized.message_count == 4


@pytest.mark.req("S2-07", "S2-10")
def test_parsed_content_of_raw_bytes_describes_their_commit(store: WatchedStore) -> None:
    stored = get_commit(store, commit_bytes(store, None, events(*ANSWER)))
    assert stored.commit.message_count == 2
    assert stored.commit.token_count > 0
    assert stored.commit.created_at == ANSWER[-1].time
    assert stored.notes.summary == "I look."


@pytest.mark.req("S2-60")
def test_unreadable_bytes_appear_in_the_conversation(store: WatchedStore) -> None:
    data = b'{"a": "transcript"}\xff'
    tip = commit_bytes(store, commit(store, None, "Hi"), data, format="codex-v9", created_at=NOON)
    [_, note] = texts(store, tip)
    assert note == (
        f"[20 bytes in the format 'codex-v9', which cannot be read here; all of them: "
        f'`harken cat {hash_raw(data)}`]\n\n{{"a": "transcript"}}\\xff'
    )
    with pytest.raises(NameNotFound, match="codex-v9"):
        read_content(read_contents(store, [get_commit(store, tip)])[0])


def test_large_unreadable_bytes_are_truncated(store: WatchedStore) -> None:
    data = b"x" * MAX_PREVIEW_BYTES + b"yyy"
    [note] = texts(store, commit_bytes(store, None, data, format="codex-v9", created_at=NOON))
    assert f"of which the first {MAX_PREVIEW_BYTES} follow" in note
    assert note.endswith("x")


def test_unknown_format_is_committed_without_parsing(store: WatchedStore) -> None:
    tip = commit_bytes(store, None, b"?", format="codex-v9", created_at=NOON)
    assert get_commit(store, tip).commit.message_count == 0
    assert get_commit(store, tip).notes.summary == "0 messages as codex-v9"


@pytest.mark.req("S2-25", "S2-27")
def test_raw_bytes_can_be_compacted_compared_and_copied(store: WatchedStore) -> None:
    root = commit(store, None, "Hi")
    tip = commit_bytes(store, root, events(*ANSWER))
    assert texts(store, snapshot(store, tip)) == texts(store, tip)
    assert texts(store, compact(store, CommitDraft(parent=tip), "in short")) == ["in short"]
    assert [text_of(message.content) for message in diff(store, root, tip).theirs] == [
        "I look.",
        "Nobody.",
    ]


def test_conversation_materialized_from_bytes_can_be_committed(store: WatchedStore) -> None:
    materialized_ref = materialize(
        store, commit_bytes(store, commit(store, None, "a"), events(*ANSWER))
    ).ref
    repeated = checkpoint(store, CommitDraft(artifact=materialized_ref, type="snapshot"))
    assert texts(store, repeated) == ["a", "I look.", "Nobody."]
    assert get_commit(store, repeated).commit.message_count == 3
    assert texts(store, snapshot(store, repeated)) == texts(store, repeated)
    rendered = render(store, repeated, "events-v1")
    assert (rendered.tier, rendered.message_count) == (1, 3)


@pytest.mark.req("S2-68")
def test_missing_raw_bytes_are_named(store: WatchedStore) -> None:
    data = events(*ANSWER)
    tip = commit(store, commit_bytes(store, None, data), "b")
    del store._objects[hash_raw(data)]
    with pytest.raises(ObjectNotFound, match=hash_raw(data)):
        materialize(store, tip)
