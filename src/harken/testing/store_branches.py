"""Conformance tests of branches and of timelines; a base of `harken.testing.store.StoreSuite`."""

from __future__ import annotations

import threading
from functools import partial

from harken.core.commits import CommitId
from harken.errors import BranchConflict, NameNotFound
from harken.store.base import Store
from harken.testing.store_kit import OTHER, batch_of, chain_in, commit_in, refused
from harken.testing.store_refusals import RefusalSuite

_LATE = "2100-01-01T00:00:00Z"


class BranchSuite(RefusalSuite):
    """The tests of branches."""

    def test_a_branch_is_created_moved_and_deleted(self) -> None:
        store = self.store()
        names = chain_in(store, 3)
        assert store.branches() == {}
        store.move_branch("review/alice", names[0], expected=None)
        store.move_branch("main", names[1], expected=None)
        store.move_branch("main", names[2], expected=names[1])
        for reader in self.stores(store):
            assert reader.branches() == {"main": names[2], "review/alice": names[0]}
        store.move_branch("main", None, expected=names[2])
        assert store.branches() == {"review/alice": names[0]}

    def test_a_writer_that_expects_another_head_is_refused(self) -> None:
        store = self.store()
        names = chain_in(store, 3)
        store.move_branch("main", names[0], expected=None)
        store.move_branch("main", names[1], expected=names[0])
        for expected in (None, names[0], names[2]):
            for to in (names[2], None):
                try:
                    store.move_branch("main", to, expected=expected)
                except BranchConflict as error:
                    facts = (error.branch, error.expected, error.actual)
                    assert facts == ("main", expected, names[1])
                else:
                    raise AssertionError("the move was not refused")
        assert store.branches() == {"main": names[1]}

    def test_a_branch_needs_an_existing_commit_and_a_valid_name(self) -> None:
        store = self.store()
        [name] = chain_in(store, 1)
        missing = CommitId("ctx-" + OTHER)
        refused(NameNotFound, lambda: store.move_branch("main", missing, expected=None))
        for branch in ("", "a b", "ctx-1", "a@b", "a//b", "/a", "a/"):
            refused(ValueError, partial(store.move_branch, branch, name, expected=None))
        assert store.branches() == {}

    def test_of_writers_at_once_exactly_one_moves_a_branch(self) -> None:
        store = self.store()
        [root] = chain_in(store, 1)
        batches = [batch_of(f"writer {index}", parent=root, second=1) for index in range(8)]
        for batch in batches:
            store.write(batch)
        store.move_branch("main", root, expected=None)
        moved: list[CommitId] = []
        told: list[BranchConflict] = []

        def move(to: CommitId) -> None:
            try:
                store.move_branch("main", to, expected=root)
                moved.append(to)
            except BranchConflict as error:
                told.append(error)

        threads = [threading.Thread(target=move, args=[commit_in(batch)]) for batch in batches]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (len(moved), len(told)) == (1, 7)
        assert store.branches() == {"main": moved[0]}

    def test_a_clock_that_steps_back_does_not_hide_the_last_commit(self) -> None:
        store = self.store()
        chain = chain_in(store, 3, principal="a")
        back = batch_of("an hour back", parent=chain[-1], second=1, principal="a")
        last = batch_of("then", parent=commit_in(back), second=2, principal="a")
        other = batch_of("of another", parent=commit_in(last), second=2, principal="b")
        for batch in (back, last, other):
            store.write(batch)
        for reader in self.stores(store):
            assert reader.latest_commit("a", _LATE) == commit_in(last)
            assert reader.latest_commit("b", _LATE) == commit_in(other)

    def stores(self, store: Store) -> list[Store]:
        """Return the store, and a second one over the same data, if there can be one."""
        second = self.reopen_store(store)
        return [store] if second is None else [store, second]
