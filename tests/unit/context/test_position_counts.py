"""Messages up to a position, without summaries and repeated messages; commits inside of a delta."""

from __future__ import annotations

import pytest

from harken.context.checkpoint import CommitDraft, CommitOrigin, checkpoint
from harken.context.history import get_commit
from harken.context.position import (
    count_messages,
    find_position,
    get_or_create_commit,
    number_commits,
)
from harken.core.commits import Commit, CommitId, CommitNotes, hash_raw
from harken.core.messages import Message
from harken.formats.base import ConversationEntry
from harken.store.base import WriteBatch
from harken.store.memory import MemoryStore
from tests.unit.context.kit import NOON, commit, texts


def write_twice_compacted(store: MemoryStore) -> CommitId:
    """1 a, 2 b; 3 c, 4 a; a compaction to 5 S, 6 a, 7 a; 8 d; another to 9 T, 10 a; 11 e."""
    first = commit(store, None, "a", "b")
    second = commit(store, first, "c", "a")
    once = commit(store, second, "S", "a", "a", type="compaction")
    delta = commit(store, once, "d")
    twice = commit(store, delta, "T", "a", type="compaction")
    return commit(store, twice, "e")


@pytest.mark.parametrize(
    ("at", "messages", "replaced", "summaries"),
    [
        ("1", 1, 0, set()),
        ("4", 4, 0, set()),
        ("5", 4, 4, {0}),
        ("6", 4, 3, {0}),
        ("7", 4, 2, {0}),
        ("8", 5, 2, {0}),
        ("9", 5, 5, {0}),
        ("10", 5, 4, {0}),
        ("11", 6, 4, {0}),
        (None, 6, 4, {0}),
    ],
)
def test_messages_are_counted_where_they_first_occur(
    store: MemoryStore, at: str | None, messages: int, replaced: int, summaries: set[int]
) -> None:
    position = find_position(store, write_twice_compacted(store), at)
    counts = count_messages(store, position)
    assert counts.messages == messages
    assert (counts.summarized, {*counts.summaries}) == (replaced, summaries)


def test_repeated_message_is_repeated_as_often_as_it_occurred(store: MemoryStore) -> None:
    first = commit(store, None, "a")
    compacted = commit(store, first, "a", "a", "b", type="compaction")
    counts = count_messages(store, find_position(store, compacted))
    assert (counts.messages, counts.summarized, {*counts.summaries}) == (1, 0, {1, 2})


def test_bytes_are_counted_by_the_number_in_their_commit(store: MemoryStore) -> None:
    raw = hash_raw(b"x")
    value = Commit(artifact=raw, created_at=NOON, message_count=3, format="x")
    store.write(WriteBatch(raw={raw: b"x"}, commits=[(value, CommitNotes())]))
    compacted = commit(store, value.id, "S", type="compaction")
    counts = count_messages(store, find_position(store, compacted))
    assert (counts.messages, counts.summarized, {*counts.summaries}) == (3, 3, {0})


def test_commits_are_numbered_by_their_first_messages(store: MemoryStore) -> None:
    tip = write_twice_compacted(store)
    assert [*number_commits(store, tip).values()] == [1, 3, 5, 8, 9, 11]


@pytest.mark.parametrize("kind", ["delta", "compaction"])
def test_commit_inside_of_another_has_its_origin(store: MemoryStore, kind: str) -> None:
    times = [f"2026-01-31T12:00:0{second}.000000Z" for second in range(3)]
    entries = [ConversationEntry(Message("user", time), time) for time in times]
    entries.append(ConversationEntry(Message("user", "no time")))
    origin = CommitOrigin(template="t", principal="ann", session_id="s", machine="m")
    parent = commit(store, None, "before")
    draft = CommitDraft(
        entries=entries,
        parent=parent,
        type=kind,  # type: ignore[arg-type]
        trigger="turn_boundary",
        origin=origin,
        summary="all of it",
        created_at=NOON,
    )
    name = checkpoint(store, draft)
    position = find_position(store, name, "3")
    created = get_or_create_commit(store, position)
    stored = get_commit(store, created)
    commit_ = stored.commit
    assert texts(store, created)[-2:] == times[:2]
    assert (commit_.parent, commit_.type, commit_.message_count) == (parent, kind, 2)
    assert commit_.checkpoint == ("explicit" if kind == "delta" else "turn_boundary")
    assert (commit_.template, commit_.principal, commit_.session_id) == ("t", "ann", "s")
    assert commit_.created_at == times[1]
    assert stored.notes.summary != "all of it"
    assert get_or_create_commit(store, find_position(store, name, "3")) == created
    assert get_or_create_commit(store, find_position(store, name)) == name
    assert get_or_create_commit(store, find_position(store, name, "5")) == name


def test_commit_of_entries_without_a_time_has_the_time_of_its_source(store: MemoryStore) -> None:
    name = commit(store, None, "a", "b")
    created = get_or_create_commit(store, find_position(store, name, "1"))
    assert get_commit(store, created).commit.created_at == get_commit(store, name).commit.created_at
