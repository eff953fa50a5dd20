"""What a commit stands for, by where the walk stops."""

import pytest

from harken.context.checkpoint import CommitDraft, CommitOrigin
from harken.context.compaction import snapshot
from harken.context.materialize import Cache, make_resolver, materialize
from harken.core.commits import CommitId, encode_sequence
from harken.core.events import ContextLoaded
from harken.core.messages import FunctionCall, Message, TextPart, ThinkingPart, ToolCall
from harken.errors import NameNotFound, ObjectCorrupted, ObjectNotFound
from tests.unit.context.kit import NOON, commit, texts
from tests.unit.context.watched import WatchedStore


@pytest.fixture
def history(store: WatchedStore) -> list[CommitId]:
    """Two deltas, a compaction, two deltas."""
    one = commit(store, None, "a", "b")
    two = commit(store, one, "c")
    three = commit(store, two, "sum", type="compaction", trigger="compaction")
    four = commit(store, three, "d")
    return [one, two, three, four, commit(store, four, "e")]


@pytest.mark.req("S2-13")
def test_no_commit_is_the_empty_conversation(store: WatchedStore) -> None:
    nothing = materialize(store, None)
    assert (nothing.messages, nothing.message_count, nothing.token_count) == ([], 0, 0)
    assert nothing.ref == encode_sequence([])[0]
    assert materialize(store, None, "root") == nothing


@pytest.mark.req("S2-12")
def test_the_whole_conversation_is_in_the_order_of_the_chain(store: WatchedStore) -> None:
    one = commit(store, None, "a", "b", token_count=3)
    two = commit(store, one, "c", token_count=4)
    whole = materialize(store, two)
    assert texts(store, two) == ["a", "b", "c"]
    assert (whole.message_count, whole.token_count) == (3, 7)
    deltas = [store.artifact(one), store.artifact(two)]
    assert store.sequences([whole.ref]) == {whole.ref: deltas}


@pytest.mark.req("S2-12")
def test_messages_come_back_exactly(store: WatchedStore) -> None:
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
def test_by_default_the_nearest_compaction_stands_for_what_came_before(
    store: WatchedStore, history: list[CommitId]
) -> None:
    assert texts(store, history[4]) == ["sum", "d", "e"]
    assert texts(store, history[2]) == ["sum"]
    assert texts(store, history[1]) == ["a", "b", "c"]


@pytest.mark.req("S2-15")
def test_to_the_root_every_message_appears_once(
    store: WatchedStore, history: list[CommitId]
) -> None:
    with_snapshot = commit(store, snapshot(store, history[4]), "f")
    assert texts(store, with_snapshot, "root") == ["a", "b", "c", "d", "e", "f"]
    assert texts(store, history[2], "root") == ["a", "b", "c"]


@pytest.mark.req("S2-15")
@pytest.mark.parametrize("type_", ["snapshot", "compaction"])
def test_what_stands_for_something_that_is_nowhere_else_is_kept(
    store: WatchedStore, type_: str
) -> None:
    first = commit(store, None, "imported", type=type_, trigger="import")
    assert texts(store, commit(store, first, "a"), "root") == ["imported", "a"]


@pytest.mark.req("S2-16")
def test_a_stop_at_a_commit_includes_it_and_passes_over_compactions(
    store: WatchedStore, history: list[CommitId]
) -> None:
    assert texts(store, history[4], history[1]) == ["c", "d", "e"]
    assert texts(store, history[4], history[4]) == ["e"]
    assert texts(store, history[4], history[2]) == ["sum", "d", "e"]


@pytest.mark.req("S2-16")
def test_a_stop_at_a_commit_that_is_not_before_it_is_an_error(
    store: WatchedStore, history: list[CommitId]
) -> None:
    other = commit(store, history[0], "elsewhere")
    for stop in (other, history[4], "ctx-" + "0" * 64, "whatever"):
        with pytest.raises(NameNotFound, match="ancestor commit"):
            materialize(store, history[3], stop)


@pytest.mark.req("S2-24")
def test_the_snapshot_of_a_spawn_ends_every_walk(
    store: WatchedStore, history: list[CommitId]
) -> None:
    born = commit(store, history[4], "task", type="snapshot", trigger="spawn")
    tip = commit(store, born, "done")
    assert texts(store, tip) == texts(store, tip, "root") == ["task", "done"]
    assert texts(store, tip, born) == ["task", "done"]
    with pytest.raises(NameNotFound):
        materialize(store, tip, history[4])
    assert [one.id for one in store.chain(tip)][2:] == history[::-1]


@pytest.mark.req("S2-09")
def test_principal_machine_ticket_and_thread_change_nothing(store: WatchedStore) -> None:
    odd = CommitOrigin(principal="\0", machine="m", ticket_id="art-1", thread_id="{}")
    one, two = commit(store, None, "a"), commit(store, None, "a", origin=odd)
    assert one != two
    assert materialize(store, one) == materialize(store, two)


@pytest.mark.req("S2-17")
def test_the_second_time_the_walk_is_not_done_again(
    store: WatchedStore, history: list[CommitId]
) -> None:
    cache: Cache = {}
    first = materialize(store, history[4], cache=cache)
    store.asked.clear()
    assert materialize(store, history[4], cache=cache) == first
    assert store.asked["commits walked"] == store.asked["sequences written"] == 0
    assert materialize(store, history[4], "root", cache) != first


@pytest.mark.req("S2-17")
def test_the_same_commit_gives_the_same_artifact_which_is_written_once(
    store: WatchedStore, history: list[CommitId]
) -> None:
    first = materialize(store, history[4])
    commit(store, history[4], "later")
    store.asked.clear()
    assert materialize(store, history[4]).ref == first.ref
    assert store.asked["sequences written"] == 0


@pytest.mark.req("D-05", "S2-27")
def test_a_walk_ends_at_a_snapshot_and_reads_one_delta(store: WatchedStore) -> None:
    tip = None
    for at in range(200):
        tip = commit(store, tip, str(at))
    assert tip is not None
    taken = snapshot(store, tip)
    store.asked.clear()
    assert texts(store, taken) == [str(at) for at in range(200)]
    assert store.asked["deltas read"] == 1
    assert store.asked["commits walked"] <= 32


def test_an_unknown_commit_is_an_error(store: WatchedStore) -> None:
    with pytest.raises(NameNotFound):
        materialize(store, CommitId("ctx-" + "0" * 64))


def test_what_is_evicted_is_missing(store: WatchedStore, history: list[CommitId]) -> None:
    (delta,) = store.deltas([store.artifact(history[4])]).values()
    store.lost.add(delta[0].message)
    with pytest.raises(ObjectNotFound):
        _ = materialize(store, history[4]).messages


def test_what_another_machine_wrote_wrong_is_damage_not_a_crash(store: WatchedStore) -> None:
    ctx = commit(store, None, "hi")
    ((entry,),) = store.deltas([store.artifact(ctx)]).values()
    for body in (b"[]", b"{}", b'{"parts":[],"role":"user"}', b'{"parts":3}', b"\xff"):
        store.instead[entry.message] = body
        with pytest.raises(ObjectCorrupted):
            _ = materialize(store, ctx).messages


@pytest.mark.req("S2-22")
def test_a_resolver_gives_a_session_what_it_started_from(
    store: WatchedStore, history: list[CommitId]
) -> None:
    resolve = make_resolver(store)
    event = ContextLoaded(ctx=history[4], count=5, context_hash="", stop="root")
    assert [message.content for message in resolve(event)] == ["a", "b", "c", "d", "e"]


@pytest.mark.req("S2-66", "D-05")
def test_after_a_compaction_nothing_before_it_is_read(store: WatchedStore) -> None:
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
