"""Named branches before their first message."""

from __future__ import annotations

import pytest

from harken.context.checkpoint import CommitOrigin
from harken.context.fork import fork
from harken.context.history import commit_history, get_commit, resolve
from harken.core.commits import CommitId, encode_delta
from harken.errors import NameNotFound
from tests.unit.context.kit import NOON, commit, texts
from tests.unit.context.watched_store import WatchedStore

ONE = "2026-01-31T13:00:00.000000Z"
BOB = CommitOrigin(principal="bob", machine="m", thread_id="t")


def test_fork_writes_no_messages(store: WatchedStore) -> None:
    trunk = commit(store, None, "a", "b")
    store.asked.clear()
    forked = fork(store, trunk, BOB, ONE)
    assert {
        operation: store.asked[operation] for operation in store.asked if store.asked[operation]
    } == {}
    empty_delta = encode_delta([])[0]
    assert store.commits([forked])[forked].commit.artifact == empty_delta
    assert store.deltas([empty_delta]) == {empty_delta: []}


@pytest.mark.req("S2-08")
def test_forks_share_only_earlier_messages(store: WatchedStore) -> None:
    trunk = commit(store, None, "a", "b")
    first_fork, second_fork = fork(store, trunk, BOB, ONE), fork(store, trunk, BOB, NOON)
    assert first_fork != second_fork
    assert texts(store, first_fork) == texts(store, trunk)
    tip = commit(store, first_fork, "c")
    assert texts(store, tip) == ["a", "b", "c"]
    assert texts(store, second_fork) == texts(store, trunk) == ["a", "b"]
    assert [stored.id for stored in commit_history(store, tip)] == [tip, first_fork, trunk]


def test_fork_has_its_parent_and_principal(store: WatchedStore) -> None:
    trunk = commit(store, None, "a", summary="x" * 500, origin=CommitOrigin(template="coder"))
    forked = get_commit(store, fork(store, trunk, BOB, ONE, labels=["try"]))
    assert (forked.commit.principal, forked.commit.thread_id, forked.commit.machine) == (
        "bob",
        "t",
        "m",
    )
    assert (forked.commit.template, forked.commit.message_count) == ("coder", 0)
    assert forked.notes.labels == ("try",)
    assert not forked.notes.derived
    assert forked.notes.summary.startswith(f"Fork of {trunk[:16]}: xxx")
    assert len(forked.notes.summary) == 200
    assert resolve(store, "bob", ONE) == forked.id


def test_repeated_fork_is_the_same_commit(store: WatchedStore) -> None:
    trunk = commit(store, None, "a")
    assert fork(store, trunk, BOB, ONE) == fork(store, trunk, BOB, ONE)


def test_fork_of_an_unknown_commit_is_refused(store: WatchedStore) -> None:
    with pytest.raises(NameNotFound):
        fork(store, CommitId("ctx-" + "0" * 64), BOB, ONE)
    assert store.names_with_prefix("") == []
