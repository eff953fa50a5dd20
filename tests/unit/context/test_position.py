"""The context at a message, by message number or native id."""

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
def compacted(store: MemoryStore) -> CommitId:
    """1 a, 2 b; 3 c, 4 d; a compaction to 5 "sum", 6 d; then 7 e, 8 f."""
    first = commit(store, None, "a", "b")
    second = commit(store, first, "c", "d")
    compacted_tip = commit(store, second, "sum", "d", type="compaction")
    return commit(store, compacted_tip, "e", "f")


def position_texts(position: ConversationPosition) -> list[str]:
    return [text_of(entry.message.content) for entry in position.entries]


@pytest.mark.parametrize(
    ("reference", "number", "expected"),
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
def test_position_gives_the_context_at_that_message(
    store: MemoryStore, compacted: CommitId, reference: str | None, number: int, expected: list[str]
) -> None:
    """This holds before a compaction, too."""
    position = find_position(store, compacted, reference)
    assert (position.number, position_texts(position)) == (number, expected)


def test_message_number_is_stable(store: MemoryStore, compacted: CommitId) -> None:
    longer = commit(store, compacted, "g")
    assert position_texts(find_position(store, longer, "3")) == position_texts(
        find_position(store, compacted, "3")
    )
    assert [*number_commits(store, longer).values()] == [1, 3, 5, 7, 9]


@pytest.mark.parametrize(
    "reference", ["0", "9", "-9", "-0", "x", "", "--1", "1.0", "٣", "9" * 5000]
)
def test_missing_message_error_gives_the_valid_range(
    store: MemoryStore, compacted: CommitId, reference: str
) -> None:
    with pytest.raises(NameNotFound, match="existing messages: 1 to 8, -1 to -8, their native ids"):
        find_position(store, compacted, reference)


def test_commit_at_a_position_gives_its_context(store: MemoryStore, compacted: CommitId) -> None:
    for number in range(1, 9):
        position = find_position(store, compacted, str(number))
        created = get_or_create_commit(store, position)
        assert texts(store, created) == position_texts(position)
        assert get_or_create_commit(store, position) == created
    assert get_or_create_commit(store, find_position(store, compacted)) == compacted
    before = store.newest_commits(1)
    get_or_create_commit(store, find_position(store, compacted, "-1"))
    assert store.newest_commits(1) == before


def test_subagent_messages_are_numbered_from_its_start(
    store: MemoryStore, compacted: CommitId
) -> None:
    begins = commit(store, compacted, "be quick", "yes", type="snapshot", trigger="spawn")
    tip = commit(store, begins, "go", "gone")
    assert position_texts(find_position(store, tip, "3")) == ["be quick", "yes", "go"]
    assert position_texts(find_position(store, tip, "1")) == ["be quick"]
    cut_commit = get_or_create_commit(store, find_position(store, tip, "1"))
    assert texts(store, cut_commit) == ["be quick"]
    assert texts(store, cut_commit, "root") == ["be quick"]


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
    first_commit = checkpoint(store, CommitDraft(entries=first, created_at=NOON))
    repeated = [entry("sum", uuid="5e55-04"), entry("a", uuid="5e55-01")]
    two = checkpoint(
        store,
        CommitDraft(entries=repeated, parent=first_commit, type="compaction", created_at=NOON),
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
def test_message_is_resolved_by_native_id_or_prefix(
    store: MemoryStore, native: CommitId, id_: str, number: int
) -> None:
    """If a compaction repeats the message, the first position counts."""
    assert find_position(store, native, id_).number == number


def test_too_large_number_matches_no_id() -> None:
    store = MemoryStore()
    ctx = checkpoint(store, CommitDraft(entries=[entry("Tea?", uuid="5e551011-0000")]))
    assert find_position(store, ctx, "5e").number == 1
    with pytest.raises(NameNotFound, match="message '5' not found"):
        find_position(store, ctx, "5")


def test_prefix_of_digits_needs_eight_of_them() -> None:
    store = MemoryStore()
    ctx = checkpoint(store, CommitDraft(entries=[entry("Tea?", uuid="123456789")]))
    for id_ in ("12345678", "123456789"):
        assert find_position(store, ctx, id_).number == 1
    with pytest.raises(NameNotFound):
        find_position(store, ctx, "1234567")


def test_ambiguous_prefix_error_lists_all_matches(store: MemoryStore, native: CommitId) -> None:
    with pytest.raises(AmbiguousName, match="5e55-01, 5e55-02, 5e55-03, 5e55-04"):
        find_position(store, native, "5e55")
    assert find_position(store, native, "5e55-0" + "2").number == 2
