"""The materialized context of a commit for each stop."""

from contextlib import closing
from pathlib import Path

import pytest

from harken.context.checkpoint import CommitDraft, CommitOrigin
from harken.context.compaction import snapshot
from harken.context.materialize import Cache, make_resolver, materialize
from harken.core.commits import CommitId, encode_sequence
from harken.core.events import ContextLoaded
from harken.core.messages import FunctionCall, Message, TextPart, ThinkingPart, ToolCall, text_of
from harken.errors import NameNotFound, ObjectCorrupted, ObjectNotFound
from harken.store.base import ObjectKind
from harken.store.sequence_tree import BLOCK_LENGTH
from harken.store.sqlite.store import SqliteStore
from tests.unit.context.kit import NOON, commit, texts
from tests.unit.context.watched_store import WatchedStore


@pytest.fixture
def history(store: WatchedStore) -> list[CommitId]:
    """Two deltas, a compaction, two deltas."""
    first = commit(store, None, "a", "b")
    two = commit(store, first, "c")
    three = commit(store, two, "sum", type="compaction", trigger="compaction")
    four = commit(store, three, "d")
    return [first, two, three, four, commit(store, four, "e")]


@pytest.mark.req("S2-13")
def test_no_commit_is_the_empty_conversation(store: WatchedStore) -> None:
    nothing = materialize(store, None)
    assert (nothing.messages, nothing.message_count, nothing.token_count) == ([], 0, 0)
    assert nothing.ref == encode_sequence([])[0]
    assert materialize(store, None, "root") == nothing


@pytest.mark.req("S2-12")
def test_full_conversation_is_in_chain_order(store: WatchedStore) -> None:
    first = commit(store, None, "a", "b", token_count=3)
    two = commit(store, first, "c", token_count=4)
    materialized = materialize(store, two)
    assert texts(store, two) == ["a", "b", "c"]
    assert (materialized.message_count, materialized.token_count) == (3, 7)
    deltas = [store.artifact(first), store.artifact(two)]
    assert store.sequences([materialized.ref]) == {materialized.ref: deltas}


@pytest.mark.req("S2-12")
def test_messages_round_trip_exactly(store: WatchedStore) -> None:
    messages = [
        Message("system", "be brief"),
        Message(
            "assistant",
            [ThinkingPart("hm", {"signature": "x"}), TextPart("hi")],
            [
                ToolCall("c1", FunctionCall("f", '{"a": 1}')),
            ],
        ),
        Message("tool", "42", tool_call_id="c1", name="f", is_error=True),
        Message("assistant", None, [ToolCall("c2", FunctionCall("f", '{"a": 1}'))]),
        Message("tool", "42", tool_call_id="c2", name="f", is_error=True),
    ]
    from harken.context.checkpoint import checkpoint

    ctx = checkpoint(store, CommitDraft(messages=messages, created_at=NOON))
    assert materialize(store, ctx).messages == messages


@pytest.mark.req("S2-14")
def test_nearest_compaction_replaces_earlier_messages_by_default(
    store: WatchedStore, history: list[CommitId]
) -> None:
    assert texts(store, history[4]) == ["sum", "d", "e"]
    assert texts(store, history[2]) == ["sum"]
    assert texts(store, history[1]) == ["a", "b", "c"]


@pytest.mark.req("S2-15")
def test_stop_at_root_returns_every_message_once(
    store: WatchedStore, history: list[CommitId]
) -> None:
    with_snapshot = commit(store, snapshot(store, history[4]), "f")
    assert texts(store, with_snapshot, "root") == ["a", "b", "c", "d", "e", "f"]
    assert texts(store, history[2], "root") == ["a", "b", "c"]


@pytest.mark.req("S2-15")
@pytest.mark.parametrize("type_", ["snapshot", "compaction"])
def test_compaction_of_unavailable_messages_is_kept(store: WatchedStore, type_: str) -> None:
    first = commit(store, None, "imported", type=type_, trigger="import")
    assert texts(store, commit(store, first, "a"), "root") == ["imported", "a"]


@pytest.mark.req("S2-16")
def test_stop_at_a_commit_includes_it_and_skips_compactions(
    store: WatchedStore, history: list[CommitId]
) -> None:
    assert texts(store, history[4], history[1]) == ["c", "d", "e"]
    assert texts(store, history[4], history[4]) == ["e"]
    assert texts(store, history[4], history[2]) == ["sum", "d", "e"]


@pytest.mark.req("S2-16")
def test_stop_at_a_commit_outside_the_chain_is_an_error(
    store: WatchedStore, history: list[CommitId]
) -> None:
    unrelated = commit(store, history[0], "elsewhere")
    for stop in (unrelated, history[4], "ctx-" + "0" * 64, "whatever"):
        with pytest.raises(NameNotFound, match="ancestor commit"):
            materialize(store, history[3], stop)


@pytest.mark.req("S2-24")
def test_spawn_snapshot_ends_every_walk(store: WatchedStore, history: list[CommitId]) -> None:
    spawned = commit(store, history[4], "task", type="snapshot", trigger="spawn")
    tip = commit(store, spawned, "done")
    assert texts(store, tip) == texts(store, tip, "root") == ["task", "done"]
    assert texts(store, tip, spawned) == ["task", "done"]
    with pytest.raises(NameNotFound):
        materialize(store, tip, history[4])
    assert [stored.id for stored in store.chain(tip)][2:] == history[::-1]


@pytest.mark.req("S2-09")
def test_metadata_does_not_change_the_result(store: WatchedStore) -> None:
    origin = CommitOrigin(principal="\0", machine="m", ticket_id="art-1", thread_id="{}")
    first, two = commit(store, None, "a"), commit(store, None, "a", origin=origin)
    assert first != two
    assert materialize(store, first) == materialize(store, two)


@pytest.mark.req("S2-17")
def test_second_call_uses_the_cached_result(store: WatchedStore, history: list[CommitId]) -> None:
    cache: Cache = {}
    first = materialize(store, history[4], cache=cache)
    store.asked.clear()
    assert materialize(store, history[4], cache=cache) == first
    assert store.asked["commits walked"] == store.asked["sequences written"] == 0
    assert materialize(store, history[4], "root", cache) != first


@pytest.mark.req("S2-17")
def test_same_commit_gives_the_same_artifact_written_once(
    store: WatchedStore, history: list[CommitId]
) -> None:
    first = materialize(store, history[4])
    commit(store, history[4], "later")
    store.asked.clear()
    assert materialize(store, history[4]).ref == first.ref
    assert store.asked["sequences written"] == 0


@pytest.mark.req("D-05", "S2-27")
def test_walk_ends_at_a_snapshot_and_reads_one_delta(store: WatchedStore) -> None:
    tip = None
    for number in range(200):
        tip = commit(store, tip, str(number))
    assert tip is not None
    snapshotted = snapshot(store, tip)
    store.asked.clear()
    assert texts(store, snapshotted) == [str(number) for number in range(200)]
    assert store.asked["deltas read"] == 1
    assert store.asked["commits walked"] <= 32


def test_unknown_commit_is_an_error(store: WatchedStore) -> None:
    with pytest.raises(NameNotFound):
        materialize(store, CommitId("ctx-" + "0" * 64))


def test_evicted_object_is_missing(store: WatchedStore, history: list[CommitId]) -> None:
    (delta,) = store.deltas([store.artifact(history[4])]).values()
    store.lost.add(delta[0].message)
    with pytest.raises(ObjectNotFound):
        _ = materialize(store, history[4]).messages


def test_invalid_remote_content_is_damage_and_no_crash(store: WatchedStore) -> None:
    ctx = commit(store, None, "hi")
    ((entry,),) = store.deltas([store.artifact(ctx)]).values()
    for body in (b"[]", b"{}", b'{"parts":[],"role":"user"}', b'{"parts":3}', b"\xff"):
        store.instead[entry.message] = body
        with pytest.raises(ObjectCorrupted):
            _ = materialize(store, ctx).messages


@pytest.mark.req("S2-22")
def test_resolver_loads_the_starting_context_of_a_session(
    store: WatchedStore, history: list[CommitId]
) -> None:
    resolve = make_resolver(store)
    event = ContextLoaded(ctx=history[4], count=5, context_hash="", stop="root")
    assert [message.content for message in resolve(event)] == ["a", "b", "c", "d", "e"]


@pytest.mark.req("S2-66", "D-05")
def test_messages_before_a_compaction_are_not_read(store: WatchedStore) -> None:
    tip = commit(store, None, "0")
    for number in range(1, 200):
        tip = commit(store, tip, str(number))
    tip = commit(store, tip, "sum", type="compaction", trigger="compaction")
    for text in ("d", "e", "f"):
        tip = commit(store, tip, text)
    store.asked.clear()
    assert texts(store, tip) == ["sum", "d", "e", "f"]
    assert store.asked["deltas read"] == 4
    assert store.asked["objects read"] == 8, "four messages and their parts"
    assert store.asked["commits walked"] <= 16


@pytest.mark.req("S2-17", "D-05")
@pytest.mark.parametrize("stop", ["root", "compaction"])
def test_next_commit_of_a_chain_costs_the_same_at_any_length(
    store: WatchedStore, stop: str
) -> None:
    tip, costs = commit(store, None, "0"), []
    for number in range(1, 1_024):
        tip = commit(store, tip, str(number))
        if number + 16 not in (128, 256, 512, 1_024):
            continue
        materialize(store, tip, stop)
        store.asked.clear()
        for later in range(16):
            tip = commit(store, tip, f"{number} {later}")
            materialize(store, tip, stop)
        costs.append((store.asked["commits walked"], store.asked["names written"]))
    assert max(walked for walked, _ in costs) <= 16 * 16
    assert max(names for _, names in costs) <= 16 * 17 + BLOCK_LENGTH + 3 + 2
    assert len(costs) == 4


def test_result_of_a_fork_shares_the_sequences_of_the_trunk(store: WatchedStore) -> None:
    trunk = [commit(store, None, "0")]
    for number in range(1, 400):
        trunk.append(commit(store, trunk[-1], str(number)))
    materialize(store, trunk[-1], "root")
    fork = commit(store, trunk[390], "fork")
    before = {obj.name for obj in store.iter_objects() if obj.kind is ObjectKind.SEQUENCE}
    assert texts(store, fork, "root") == [*map(str, range(391)), "fork"]
    after = {obj.name for obj in store.iter_objects() if obj.kind is ObjectKind.SEQUENCE}
    assert len(after - before) <= 4


def test_result_that_was_collected_is_computed_again(tmp_path: Path) -> None:
    with closing(SqliteStore(tmp_path / "store.db")) as store:
        tip = None
        for number in range(60):
            tip = commit(store, tip, str(number))
        assert tip is not None
        cache: Cache = {}
        before = materialize(store, tip, "root", cache)
        store.collect([], now="2100-01-01T00:00:00Z", grace_s=0)
        assert store.sequences([before.ref]) == {}
        expected = [str(number) for number in range(60)]
        stale = materialize(store, tip, "root", cache)
        assert [text_of(message.content) for message in stale.messages] == expected
        later = materialize(store, commit(store, tip, "later"), "root", cache)
        assert [text_of(message.content) for message in later.messages] == [*expected, "later"]
        assert store.sequences([later.ref])
        assert materialize(store, tip, "root").ref == before.ref
        assert store.sequences([before.ref])
