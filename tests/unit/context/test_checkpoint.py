"""A commit depends only on its draft, is stored at once and round-trips."""

from typing import Any

import pytest

from harken.context.checkpoint import (
    CommitDraft,
    CommitOrigin,
    build_batch,
    checkpoint,
    checkpoint_all,
    derive_summary,
    estimate_message_tokens,
    normalize_time,
    prepare,
)
from harken.context.commit_content import read_commit_messages
from harken.context.history import get_commit
from harken.context.materialize import materialize
from harken.core.commits import ArtifactRef, CommitId, hash_raw
from harken.core.events import TranscriptEntry
from harken.core.ids import AgentId
from harken.core.messages import FunctionCall, Message, TextPart, ToolCall
from harken.errors import ObjectNotFound
from harken.formats.base import ConversationEntry
from harken.formats.client_messages import messages_in
from harken.store.base import WriteBatch
from tests.unit.context.kit import NOON, alternating_messages, commit, texts
from tests.unit.context.watched_store import WatchedStore


@pytest.mark.req("S2-02", "S2-10")
def test_commit_has_all_checkpoint_fields(store: WatchedStore) -> None:
    origin = CommitOrigin(
        template="reviewer",
        principal="ann",
        machine="m1",
        session_id="s1",
        ticket_id="tkt-1",
        thread_id="!thread",
    )
    root = commit(store)
    draft = CommitDraft(
        parent=root,
        type="compaction",
        trigger="compaction",
        messages=alternating_messages("summary"),
        format="events-v1",
        origin=origin,
        summary="so far",
        labels=("keep",),
        message_count=1,
        token_count=7,
        created_at=NOON,
    )
    stored = get_commit(store, checkpoint(store, draft))
    created = stored.commit
    assert (created.parent, created.type, created.checkpoint) == (root, "compaction", "compaction")
    assert (created.template, created.principal, created.machine) == ("reviewer", "ann", "m1")
    assert (created.session_id, created.ticket_id, created.thread_id) == ("s1", "tkt-1", "!thread")
    assert (created.format, created.message_count, created.token_count) == ("events-v1", 1, 7)
    assert (created.created_at, stored.notes.summary, stored.notes.labels) == (
        NOON,
        "so far",
        ("keep",),
    )
    assert not stored.notes.derived
    assert created.artifact in store.deltas([created.artifact])


@pytest.mark.req("S2-04")
def test_repeated_checkpoint_is_the_same_commit(store: WatchedStore) -> None:
    first = commit(store, None, "hi", "hello")
    assert commit(store, None, "hi", "hello") == first
    assert len(store.made) == 1
    assert first.startswith("ctx-")


@pytest.mark.req("S2-04")
def test_every_immutable_field_changes_the_commit_name(store: WatchedStore) -> None:
    root = commit(store)
    names = {
        commit(store, None, "hi"),
        commit(store, root, "hi"),
        commit(store, None, "ho"),
        commit(store, None, "hi", type="snapshot"),
        commit(store, None, "hi", trigger="import"),
        commit(store, None, "hi", format="other-v1"),
        commit(store, None, "hi", token_count=99),
        commit(store, None, "hi", message_count=99),
        commit(store, None, "hi", created_at="2026-01-31T12:00:00.000001Z"),
        commit(store, None, "hi", origin=CommitOrigin(principal="ann", template="t")),
        commit(store, None, "hi", origin=CommitOrigin(principal="bob")),
        commit(store, None, "hi", origin=CommitOrigin(principal="ann", machine="m")),
        commit(store, None, "hi", origin=CommitOrigin(principal="ann", session_id="s")),
        commit(store, None, "hi", origin=CommitOrigin(principal="ann", ticket_id="t")),
        commit(store, None, "hi", origin=CommitOrigin(principal="ann", thread_id="t")),
    }
    assert len(names) == 15
    assert commit(store, None, "hi", summary="x", labels=("y",)) in names


@pytest.mark.req("S2-03")
@pytest.mark.parametrize("field_name", [{"type": "merge"}, {"trigger": "whim"}])
def test_unknown_types_and_triggers_are_refused(
    store: WatchedStore, field_name: dict[str, str]
) -> None:
    with pytest.raises(ValueError, match=r"'merge'|'whim'"):
        commit(store, None, "hi", **field_name)
    assert not store.made


@pytest.mark.req("S2-07")
def test_default_summary_is_the_last_answer_and_marked(store: WatchedStore) -> None:
    notes = get_commit(store, commit(store, None, "why?", "Because\n  it broke.", "ok")).notes
    assert (notes.summary, notes.derived) == ("Because it broke.", True)


@pytest.mark.req("S2-07")
def test_summary_is_derived_from_any_available_text() -> None:
    call = ToolCall("c1", FunctionCall("read_file", "{}"))
    assert derive_summary([]) == "nothing new"
    assert derive_summary([Message("assistant", None, [call])]) == "called read_file"
    assert derive_summary([Message("user", "hi")]) == "user: hi"


@pytest.mark.parametrize(
    ("text", "summary"),
    [
        ("x" * 200, "x" * 200),
        ("x" * 201, "x" * 199 + "…"),
        ("x" * 5000, "x" * 199 + "…"),
        ("a" + " " * 2000 + "b", "a b"),
        (" " * 2000 + "x" * 201, "x" * 199 + "…"),
    ],
)
def test_derived_summary_has_at_most_200_characters(text: str, summary: str) -> None:
    assert derive_summary([Message("assistant", text)]) == summary


@pytest.mark.req("S2-11")
def test_unknown_parent_is_an_error_and_writes_nothing(store: WatchedStore) -> None:
    with pytest.raises(ObjectNotFound):
        commit(store, CommitId("ctx-" + "0" * 64), "hi")
    assert not store.made
    assert not store.names_with_prefix("")


@pytest.mark.req("S2-11")
def test_missing_object_is_an_error(store: WatchedStore) -> None:
    with pytest.raises(ObjectNotFound):
        checkpoint(store, CommitDraft(artifact=ArtifactRef("art-" + "0" * 64), created_at=NOON))


@pytest.mark.req("S2-10")
def test_stored_delta_can_be_committed_again(store: WatchedStore) -> None:
    first = get_commit(store, commit(store, None, "hi", "hello"))
    repeated = get_commit(
        store, checkpoint(store, CommitDraft(artifact=first.commit.artifact, created_at=NOON))
    )
    assert texts(store, repeated.id) == ["hi", "hello"]
    assert (repeated.commit.message_count, repeated.notes.summary) == (2, "hello")
    assert repeated.commit.token_count == first.commit.token_count


@pytest.mark.req("S2-10", "S2-30")
def test_raw_bytes_can_be_committed(store: WatchedStore) -> None:
    ref = hash_raw(b"{}\n")
    store.write(WriteBatch(raw={ref: b"{}\n"}))
    draft = CommitDraft(artifact=ref, format="claude-code-v1", message_count=1, created_at=NOON)
    stored = get_commit(store, checkpoint(store, draft))
    assert stored.commit.message_count == 1
    assert stored.notes.summary == "1 messages as claude-code-v1"


@pytest.mark.req("S2-10", "S2-12")
def test_materialized_conversation_can_be_committed(store: WatchedStore) -> None:
    materialized = materialize(store, commit(store, commit(store, None, "a", "b"), "c"))
    repeated = checkpoint(store, CommitDraft(artifact=materialized.ref, created_at=NOON))
    assert materialize(store, repeated).messages == materialized.messages
    assert get_commit(store, repeated).commit.message_count == 3


def test_draft_needs_messages_or_an_artifact(store: WatchedStore) -> None:
    draft = CommitDraft(
        artifact=ArtifactRef("art-1"), messages=alternating_messages("hi"), created_at=NOON
    )
    with pytest.raises(ValueError, match="never both"):
        checkpoint(store, draft)


def test_commit_time_is_that_of_the_last_message(store: WatchedStore) -> None:
    entries = [
        TranscriptEntry(role="user", content="a", time="2026-01-31T12:00:01.000000Z"),
        TranscriptEntry(role="user", content="b", time="2026-01-31T12:00:02.000000Z"),
    ]
    created = get_commit(store, checkpoint(store, CommitDraft(messages=entries))).commit
    assert created.created_at == "2026-01-31T12:00:02.000000Z"
    with pytest.raises(ValueError, match="created_at"):
        checkpoint(store, CommitDraft(messages=alternating_messages("timeless")))


@pytest.mark.parametrize("bad_time", ["", "yesterday", "2026-01-31", "2026-01-31T12:00:00", "\0"])
def test_invalid_time_is_refused(bad_time: str) -> None:
    with pytest.raises(ValueError, match="not a time such as"):
        normalize_time(bad_time)


def test_own_messages_beside_those_of_a_client_keep_their_time(store: WatchedStore) -> None:
    own = TranscriptEntry(agent_id=AgentId("main"), role="user", content="Tea?", time=NOON)
    answer = {"role": "assistant", "content": "Yes."}
    name = checkpoint(store, CommitDraft(messages=[own, answer], created_at=NOON))
    artifact = get_commit(store, name).commit.artifact
    assert [entry.time for entry in store.deltas([artifact])[artifact]] == [own.time, None]
    messages = read_commit_messages(store, store.chain(name))
    assert [message.content for message in messages] == ["Tea?", "Yes."]


@pytest.mark.parametrize("counts", [{"message_count": -1}, {"token_count": -1}])
def test_negative_counts_are_refused(store: WatchedStore, counts: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="neither"):
        commit(store, None, "hi", **counts)


def test_tokens_are_estimated_from_texts_and_calls() -> None:
    call = ToolCall("c1", FunctionCall("f", "{}"))
    assert estimate_message_tokens([Message("user", "12345678")]) == 2
    assert estimate_message_tokens([Message("assistant", [TextPart("1")], [call])]) == 1
    assert estimate_message_tokens([Message("user", "\ud800")]) == 1


@pytest.mark.req("S2-11")
def test_several_commits_are_written_as_one_chain(
    store: WatchedStore,
) -> None:
    first, two = checkpoint_all(
        store,
        [
            CommitDraft(messages=alternating_messages("a"), created_at=NOON),
            CommitDraft(messages=alternating_messages("b"), created_at=NOON),
        ],
    )
    assert get_commit(store, two).commit.parent == first
    assert texts(store, two) == ["a", "b"]


@pytest.mark.req("D-05")
def test_checkpoint_writes_only_new_objects(store: WatchedStore) -> None:
    tip = commit(store, None, *(f"message {number}" for number in range(100)))
    store.asked.clear()
    commit(store, tip, "one more")
    assert store.asked["objects written"] == 2
    assert store.asked["entries written"] == 1
    assert store.asked["commits walked"] == store.asked["objects read"] == 0


def test_prepared_commit_equals_the_checkpoint(store: WatchedStore) -> None:
    entries = [ConversationEntry(Message("user", "hi"), "2026-01-31T12:00:00Z", {"uuid": "u1"})]
    first = prepare(CommitDraft(entries=entries))
    second = prepare(CommitDraft(entries=entries, parent=first.id))
    store.write(build_batch([first, second]))
    assert store.chain(second.id)[-1].id == first.id
    assert checkpoint(store, CommitDraft(entries=entries)) == first.id
    (delta,) = store.deltas([first.commit.artifact]).values()
    assert (delta[0].time, delta[0].source) == ("2026-01-31T12:00:00Z", {"uuid": "u1"})


def test_stored_or_repeated_messages_cannot_be_prepared() -> None:
    entries = [ConversationEntry(Message("user", "hi"), "2026-01-31T12:00:00Z")]
    with pytest.raises(ValueError, match="never both"):
        prepare(CommitDraft(entries=entries, messages=[Message("user", "hi")]))
    with pytest.raises(ValueError, match="is stored"):
        prepare(CommitDraft(artifact=ArtifactRef("art-" + "0" * 64)))


@pytest.mark.parametrize(
    ("message", "error"),
    [
        (Message("usr", "Tea?"), "role must be one of user, assistant, tool, system, not 'usr'"),  # type: ignore[arg-type]
        (Message("user", 3), "content must be a str, a list of parts, or None, not of type int"),  # type: ignore[arg-type]
        (Message("user", ["Tea?"]), "content must be a str, a list of parts"),  # type: ignore[list-item]
        (Message("assistant", "", ["call"]), "tool_calls must be a list of ToolCall, or None"),  # type: ignore[list-item]
    ],
)
def test_draft_with_an_invalid_message_is_rejected(message: Message, error: str) -> None:
    with pytest.raises((TypeError, ValueError), match=f"^{error}"):
        CommitDraft(messages=[message])


@pytest.mark.parametrize(
    "messages",
    [
        [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
        [{"role": "assistant", "content": "I look.", "refusal": "no"}],
        [{"role": "model", "parts": [{"text": "hi"}, {"inlineData": {"data": "aGk="}}]}],
        [Message("user", "hi"), {"role": "assistant", "content": "ho"}],
        [{"mood": "kind"}],
    ],
    ids=["anthropic", "openai", "gemini", "mixed", "unknown"],
)
def test_messages_of_any_client_are_committed_without_loss(
    store: WatchedStore, messages: list[Any]
) -> None:
    ctx = checkpoint(store, CommitDraft(messages=messages, created_at=NOON))
    assert read_commit_messages(store, [*store.commits([ctx]).values()]) == messages_in(messages)
