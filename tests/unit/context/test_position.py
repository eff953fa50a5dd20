"""What had been read when a message was said: by its number, or its native id."""

from __future__ import annotations

import pytest

from harken.context.checkpoint import CommitDraft, checkpoint
from harken.context.position import (
    ConversationPosition,
    find_position,
    get_or_create_commit,
    number_commits,
)
from harken.core.commits import CommitId
from harken.core.messages import Message, text_of
from harken.errors import AmbiguousName, NameNotFound
from harken.formats.base import ConversationEntry
from harken.store.memory import MemoryStore
from tests.unit.context.kit import NOON, commit, texts


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def compacted(store: MemoryStore) -> CommitId:
    """1 a, 2 b; 3 c, 4 d; a compaction to 5 "sum", 6 d; then 7 e, 8 f."""
    first = commit(store, None, "a", "b")
    second = commit(store, first, "c", "d")
    whole = commit(store, second, "sum", "d", type="compaction")
    return commit(store, whole, "e", "f")


def said(found: ConversationPosition) -> list[str]:
    return [text_of(entry.message.content) for entry in found.entries]


@pytest.mark.parametrize(
    ("at", "number", "read"),
    [
        (None, 8, ["sum", "d", "e", "f"]),
        ("8", 8, ["sum", "d", "e", "f"]),
        ("-1", 8, ["sum", "d", "e", "f"]),
        ("7", 7, ["sum", "d", "e"]),
        ("-2", 7, ["sum", "d", "e"]),
        ("6", 6, ["sum", "d"]),
        ("5", 5, ["sum"]),
        ("4", 4, ["a", "b", "c", "d"]),
        ("3", 3, ["a", "b", "c"]),
        ("1", 1, ["a"]),
    ],
)
def test_what_was_read_at_a_message_is_what_stood_there_then(
    store: MemoryStore, compacted: CommitId, at: str | None, number: int, read: list[str]
) -> None:
    """Before a compaction too."""
    found = find_position(store, compacted, at)
    assert (found.number, said(found)) == (number, read)


def test_a_message_keeps_its_number_whatever_comes_after_it(
    store: MemoryStore, compacted: CommitId
) -> None:
    longer = commit(store, compacted, "g")
    assert said(find_position(store, longer, "3")) == said(find_position(store, compacted, "3"))
    assert [*number_commits(store, longer).values()] == [1, 3, 5, 7, 9]


@pytest.mark.parametrize("at", ["0", "9", "-9", "-0", "x", "", "--1", "1.0", "٣", "9" * 5000])
def test_a_message_that_is_not_there_is_refused_with_what_there_is(
    store: MemoryStore, compacted: CommitId, at: str
) -> None:
    with pytest.raises(NameNotFound, match="existing messages: 1 to 8, -1 to -8, their native ids"):
        find_position(store, compacted, at)


def test_a_commit_of_a_moment_stands_for_what_was_read_then(
    store: MemoryStore, compacted: CommitId
) -> None:
    for at in range(1, 9):
        found = find_position(store, compacted, str(at))
        made = get_or_create_commit(store, found)
        assert texts(store, made) == said(found)
        assert get_or_create_commit(store, found) == made
    assert get_or_create_commit(store, find_position(store, compacted)) == compacted
    before = store.newest_commits(1)
    get_or_create_commit(store, find_position(store, compacted, "-1"))
    assert store.newest_commits(1) == before


def test_a_subagents_messages_are_numbered_from_its_beginning_on(
    store: MemoryStore, compacted: CommitId
) -> None:
    begins = commit(store, compacted, "be quick", "yes", type="snapshot", trigger="spawn")
    tip = commit(store, begins, "go", "gone")
    assert said(find_position(store, tip, "3")) == ["be quick", "yes", "go"]
    assert said(find_position(store, tip, "1")) == ["be quick"]
    cut = get_or_create_commit(store, find_position(store, tip, "1"))
    assert texts(store, cut) == ["be quick"]
    assert texts(store, cut, "root") == ["be quick"]


def entry(text: str, role: str = "user", **source: object) -> ConversationEntry:
    id_ = source.pop("call", None)
    message = Message(role, text, tool_call_id=id_)  # type: ignore[arg-type]
    return ConversationEntry(message, NOON, source or None)


@pytest.fixture
def native(store: MemoryStore) -> CommitId:
    first = [
        entry("a", uuid="5e55-01"),
        entry("b", "assistant", id="msg_1", uuids=["5e55-02", "5e55-03"]),
        entry("c", "tool", call="call_9"),
    ]
    one = checkpoint(store, CommitDraft(entries=first, created_at=NOON))
    again = [entry("sum", uuid="5e55-04"), entry("a", uuid="5e55-01")]
    two = checkpoint(
        store, CommitDraft(entries=again, parent=one, type="compaction", created_at=NOON)
    )
    last = [entry("d", codex={"item": {"id": "rs_1"}}), entry("e", message_id="7" * 30)]
    return checkpoint(store, CommitDraft(entries=last, parent=two, created_at=NOON))


@pytest.mark.parametrize(
    ("id_", "number"),
    [
        ("5e55-01", 1),
        ("msg_1", 2),
        ("msg_", 2),
        ("5e55-02", 2),
        ("5e55-03", 2),
        ("call_9", 3),
        ("5e55-04", 4),
        ("rs_1", 6),
        ("7" * 30, 7),
    ],
)
def test_a_message_is_known_by_its_native_ids_and_their_beginnings(
    store: MemoryStore, native: CommitId, id_: str, number: int
) -> None:
    """Where a compaction repeats it, the first time counts."""
    assert find_position(store, native, id_).number == number


def test_a_number_that_is_too_large_is_nobodys_id() -> None:
    store = MemoryStore()
    ctx = checkpoint(store, CommitDraft(entries=[entry("Tea?", uuid="5e551011-0000")]))
    assert find_position(store, ctx, "5e").number == 1
    with pytest.raises(NameNotFound, match="message '5' not found"):
        find_position(store, ctx, "5")


def test_a_beginning_of_several_is_refused_with_all_of_them(
    store: MemoryStore, native: CommitId
) -> None:
    with pytest.raises(AmbiguousName, match="5e55-01, 5e55-02, 5e55-03, 5e55-04"):
        find_position(store, native, "5e55")
    assert find_position(store, native, "5e55-0" + "2").number == 2
