"""Names, histories, metadata, and the common ancestor of two commits."""

from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from harken.context.checkpoint import CommitDraft, CommitOrigin, checkpoint
from harken.context.compaction import compact, snapshot
from harken.context.history import (
    commit_history,
    diff,
    get_commit,
    iter_histories,
    resolve,
    update_metadata,
)
from harken.context.refs import abbreviate_name, find_commit
from harken.core.commits import CommitId, CommitNotes
from harken.core.messages import Message, text_of
from harken.errors import AmbiguousName, NameNotFound, NotesConflict, ObjectNotFound
from harken.store.base import StoredCommit
from harken.store.sqlite.store import SqliteStore
from tests.unit.context.kit import NOON, alternating_messages, commit, texts
from tests.unit.context.watched_store import WatchedStore


@pytest.mark.req("S2-05")
def test_commit_is_resolved_by_name_or_unique_prefix(
    store: WatchedStore,
) -> None:
    ctx = commit(store, None, "a")
    short_name = abbreviate_name(store, ctx)
    assert len(short_name) == len("ctx-") + 12
    assert (
        find_commit(store, ctx)
        == find_commit(store, short_name)
        == find_commit(store, ctx[:5])
        == ctx
    )


@pytest.mark.req("S2-05")
def test_ambiguous_prefix_lists_the_candidates(store: WatchedStore) -> None:
    created = [
        commit(store, None, str(number)) for number in range(17)
    ]  # two of 17 names begin with the same digit
    digits = [ctx[4] for ctx in created]
    twice = next(digit for digit in digits if digits.count(digit) > 1)
    with pytest.raises(AmbiguousName) as raised:
        find_commit(store, f"ctx-{twice}")
    candidates = {abbreviate_name(store, ctx) for ctx in created if ctx[4] == twice}
    assert set(raised.value.known) == candidates
    assert all(name in str(raised.value) for name in candidates)


@pytest.mark.req("S2-05")
def test_candidates_with_equal_prefix_show_more_digits(store: WatchedStore) -> None:
    ctx = commit(store, None, "a")
    twin = CommitId(ctx[:20] + ("0" if ctx[20] != "0" else "1") * 48)
    store.twins.append(twin)
    assert abbreviate_name(store, ctx) == ctx[:21]
    assert find_commit(store, abbreviate_name(store, ctx)) == ctx


@pytest.mark.req("S2-04", "S2-05")
@pytest.mark.parametrize(
    "other_name", ["", "ctx-", "art-", "tkt-1", "ctx-xyz", "CTX-1", "ctx-1\n", "%"]
)
def test_names_of_other_objects_are_not_commits(store: WatchedStore, other_name: str) -> None:
    ctx = commit(store, None, "a")
    with pytest.raises(NameNotFound, match=ctx[:16]):
        find_commit(store, other_name)
    with pytest.raises(NameNotFound):
        find_commit(store, store.artifact(ctx))


@pytest.mark.req("S2-19")
def test_commit_with_a_missing_artifact_is_shown(store: WatchedStore) -> None:
    ctx = commit(store, None, "a")
    store.lost.add(store.artifact(ctx))
    assert get_commit(store, ctx).commit.message_count == 1
    with pytest.raises(NameNotFound):
        get_commit(store, CommitId("ctx-0"))


@pytest.mark.req("S2-20")
def test_history_goes_from_a_commit_to_the_root(store: WatchedStore) -> None:
    first = commit(store, None, "a")
    two = commit(store, first, "b")
    assert [stored.id for stored in commit_history(store, two)] == [two, first]
    assert [stored.id for stored in commit_history(store, two, 1)] == [two]
    with pytest.raises(ValueError, match="1 or more"):
        commit_history(store, two, 0)


@pytest.mark.req("S2-18")
def test_principal_resolves_to_its_last_commit_at_a_time(store: WatchedStore) -> None:
    first = commit(store, None, "a", created_at="2026-01-31T12:00:01Z")
    two = commit(store, first, "b", created_at="2026-01-31T12:00:02Z")
    commit(store, two, "c", created_at="2026-01-31T12:00:03Z", origin=CommitOrigin(principal="bob"))
    assert resolve(store, "ann", "2026-01-31T12:00:01.5Z") == first
    assert resolve(store, "ann", "2026-01-31T13:00:02+01:00") == two
    assert resolve(store, "ann", "2030-01-01T00:00:00Z") == two
    assert resolve(store, "ann", "2026-01-31T12:00:00Z") is None
    assert resolve(store, "eve", "2030-01-01T00:00:00Z") is None
    with pytest.raises(ValueError, match="not a time"):
        resolve(store, "ann", "now")


@pytest.mark.req("S2-21", "S2-06")
def test_only_summary_and_labels_can_change(store: WatchedStore) -> None:
    ctx = commit(store, None, "a", "b")
    before = get_commit(store, ctx).commit
    assert update_metadata(store, ctx, labels=["x"]) == CommitNotes(
        summary="b", derived=True, labels=("x",)
    )
    assert update_metadata(store, ctx, summary="new") == CommitNotes(summary="new", labels=("x",))
    assert get_commit(store, ctx).notes == CommitNotes(summary="new", labels=("x",))
    assert get_commit(store, ctx).commit == before
    with pytest.raises(ValueError, match="summary is blank"):
        update_metadata(store, ctx, summary=" ")
    with pytest.raises(NameNotFound):
        update_metadata(store, CommitId("ctx-0"), summary="x")


@pytest.mark.req("S2-08")
def test_diff_lists_messages_after_the_common_ancestor(store: WatchedStore) -> None:
    base = commit(store, commit(store, None, "a"), "b")
    our_commit = compact(
        store, CommitDraft(parent=commit(store, base, "c"), created_at=NOON), "sum"
    )
    their_commit = commit(store, base, "d", "e")
    difference = diff(store, our_commit, their_commit)
    assert difference.ancestor == base
    assert [text_of(m.content) for m in difference.ours] == ["c"]
    assert [text_of(m.content) for m in difference.theirs] == ["d", "e"]
    mirrored = diff(store, their_commit, our_commit)
    assert (mirrored.ours, mirrored.theirs) == (difference.theirs, difference.ours)


def test_diff_with_an_ancestor_lists_later_messages(store: WatchedStore) -> None:
    base = commit(store, None, "a")
    tip = commit(store, commit(store, base, "b"), "c")
    for first, second, our_count, their_count in (
        (base, tip, 0, 2),
        (tip, base, 2, 0),
        (tip, tip, 0, 0),
    ):
        difference = diff(store, first, second)
        assert (len(difference.ours), len(difference.theirs)) == (our_count, their_count)
        assert difference.ancestor == (tip if first == second else base)


def test_diff_does_not_read_common_messages(store: WatchedStore) -> None:
    base = None
    for number in range(200):
        base = commit(store, base, f"step {number}")
    our_commit, their_commit = commit(store, base, "a"), commit(store, base, "b")
    store.asked.clear()
    assert diff(store, our_commit, their_commit).ancestor == base
    assert store.asked["commits walked"] <= 64
    assert store.asked["deltas read"] == 2


@pytest.mark.req("S2-08")
@pytest.mark.parametrize("length", [100, 400])
def test_diff_in_a_file_reads_the_commits_after_the_ancestor(tmp_path: Path, length: int) -> None:
    class CountingStore(SqliteStore):
        walked = 0

        def chain(self, name: CommitId, depth: int | None = None) -> list[StoredCommit]:
            commits = super().chain(name, depth)
            self.walked += len(commits)
            return commits

    with closing(CountingStore(tmp_path / "store.db")) as store:
        base = None
        for number in range(length):
            base = commit(store, base, f"step {number}")
        ours, theirs = commit(store, base, "a"), commit(store, base, "b")
        difference = diff(store, ours, theirs)
        assert (difference.ancestor, store.walked) == (base, 32)
        assert [text_of(m.content) for m in (*difference.ours, *difference.theirs)] == ["a", "b"]


@pytest.mark.req("S2-24")
def test_subagent_diff_lists_only_its_own_messages(store: WatchedStore) -> None:
    base = commit(store, None, "a")
    spawned = checkpoint(
        store,
        CommitDraft(
            messages=alternating_messages("task"),
            parent=base,
            type="snapshot",
            trigger="spawn",
            created_at=NOON,
        ),
    )
    difference = diff(store, commit(store, base, "b"), commit(store, spawned, "done"))
    assert difference.ancestor == base
    assert [text_of(m.content) for m in difference.ours] == ["b"]
    assert [text_of(m.content) for m in difference.theirs] == ["task", "done"]


def test_diff_of_unrelated_commits_lists_all_messages(store: WatchedStore) -> None:
    difference = diff(store, commit(store, None, "a"), commit(store, commit(store, None, "b"), "c"))
    assert (difference.ancestor, len(difference.ours), len(difference.theirs)) == (None, 1, 2)


@pytest.mark.req("S2-25")
def test_compaction_commits_pending_messages_first(store: WatchedStore) -> None:
    root = commit(store, None, "a")
    ctx = compact(
        store,
        CommitDraft(parent=root, messages=alternating_messages("b"), created_at=NOON),
        "it was a, then b",
    )
    compaction, delta, first = commit_history(store, ctx)
    assert (compaction.commit.type, delta.commit.type, first.id) == ("compaction", "delta", root)
    assert compaction.commit.checkpoint == delta.commit.checkpoint == "compaction"
    assert compaction.notes == CommitNotes(summary="it was a, then b")
    assert texts(store, ctx) == ["it was a, then b"]
    assert texts(store, ctx, "root") == ["a", "b"]


@pytest.mark.req("S2-25")
def test_summary_follows_the_system_prompt(store: WatchedStore) -> None:
    system = [Message("system", "be brief"), Message("user", "a")]
    ctx = compact(store, CommitDraft(messages=system, created_at=NOON), "sum")
    assert texts(store, ctx) == ["be brief", "sum"]
    summarized = compact(store, CommitDraft(parent=ctx), [Message("user", "all mine")])
    assert texts(store, summarized) == ["all mine"]


@pytest.mark.req("S2-26")
def test_old_chain_can_be_compacted_again_and_keeps_its_root(store: WatchedStore) -> None:
    old = compact(
        store, CommitDraft(messages=alternating_messages("a", "b"), created_at=NOON), "poor"
    )
    tip = commit(store, old, "c")
    better = compact(store, CommitDraft(parent=tip, origin=CommitOrigin(template="better")), "good")
    assert texts(store, better) == ["good"]
    assert texts(store, better, "root") == ["a", "b", "c"]
    assert texts(store, tip) == ["poor", "c"]


def test_compaction_of_an_empty_context_is_refused(store: WatchedStore) -> None:
    with pytest.raises(ValueError, match="nothing to compact"):
        compact(store, CommitDraft(), "sum")
    with pytest.raises(ValueError, match="summary is blank"):
        compact(store, CommitDraft(messages=alternating_messages("a"), created_at=NOON), " ")
    with pytest.raises(NameNotFound):
        compact(store, CommitDraft(parent=CommitId("ctx-0")), "sum")
    assert not store.made


@pytest.mark.req("S2-27")
def test_snapshot_repeats_the_materialized_context(store: WatchedStore) -> None:
    tip = commit(store, commit(store, None, "a", "b"), "c")
    snapshotted = snapshot(store, tip)
    assert texts(store, snapshotted) == ["a", "b", "c"]
    assert texts(store, commit(store, snapshotted, "d"), "root") == ["a", "b", "c", "d"]
    assert snapshot(store, tip) == snapshotted
    assert get_commit(store, snapshotted).commit.token_count == sum(
        stored.commit.token_count for stored in commit_history(store, tip)
    )
    store.lost.add(store.artifact(tip))
    with pytest.raises(ObjectNotFound):
        snapshot(store, tip)


def test_histories_are_merged_newest_first_without_repeats(store: WatchedStore) -> None:
    times = [f"2026-01-01T00:00:{second:02}.000000Z" for second in range(60)]
    root = commit(store, None, "root", created_at=times[0])
    our_chain = [root]
    their_chain = [root]
    for second in range(1, 40, 2):
        our_chain.append(commit(store, our_chain[-1], "ours", created_at=times[second]))
        their_chain.append(commit(store, their_chain[-1], "theirs", created_at=times[second + 1]))
    alone = commit(store, None, "alone", created_at=times[50])
    history_ids = [
        stored.id
        for stored in iter_histories(store, [our_chain[-1], their_chain[-1], alone, our_chain[3]])
    ]
    turns = zip(their_chain[:0:-1], our_chain[:0:-1], strict=True)
    assert history_ids == [alone, *(name for turn in turns for name in turn), root]


def test_histories_are_read_lazily(store: WatchedStore) -> None:
    tip = None
    for number in range(100):
        tip = commit(store, tip, str(number))
    assert tip is not None
    store.asked.clear()
    assert next(iter_histories(store, [tip])).id == tip
    assert store.asked["commits walked"] <= 16
    with pytest.raises(NameNotFound):
        list(iter_histories(store, [CommitId("ctx-" + "0" * 64)]))


class Busy(WatchedStore):
    """A store in which a concurrent writer wins a number of times."""

    others = 1

    def update_notes(
        self, name: CommitId, notes: CommitNotes, *, was: CommitNotes | None = None
    ) -> None:
        if self.others:
            self.others -= 1
            now = self.commits([name])[name].notes
            super().update_notes(name, replace(now, labels=(*now.labels, f"label {self.others}")))
        super().update_notes(name, notes, was=was)


@pytest.mark.req("S2-62")
def test_concurrent_changes_of_summary_and_labels_are_all_kept() -> None:
    store = Busy()
    store.others = 3
    ctx = commit(store, None, "a")
    update_metadata(store, ctx, summary="what it knew")
    assert get_commit(store, ctx).notes.summary == "what it knew"
    assert get_commit(store, ctx).notes.labels == ("label 2", "label 1", "label 0")
    store.others = 1000
    with pytest.raises(NotesConflict):
        update_metadata(store, ctx, summary="never")
