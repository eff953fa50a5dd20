"""Conformance tests of branches and of timelines; a base of `harken.testing.store.StoreSuite`."""

from __future__ import annotations

import threading
from functools import partial

from harken.core import structs
from harken.core.commits import CommitId
from harken.errors import BranchConflict, NameNotFound
from harken.store.base import BranchMove, Store, WriteBatch
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

    def test_branches_are_selected_by_prefix_and_found_by_name(self) -> None:
        store = self.store()
        names = chain_in(store, 3)
        for branch, head in zip(("main", "review/alice", "review/ä%2F"), names, strict=True):
            store.move_branch(branch, head, expected=None)
        for reader in self.stores(store):
            assert reader.branches("main") == {"main": names[0]}
            assert reader.branches("review/") == {"review/alice": names[1], "review/ä%2F": names[2]}
            assert reader.branches("w") == {}
            assert reader.find_branch("review/ä%2F") == names[2]
            for missing in ("review/", "review/alic", "mainz", "", "tkt-" + OTHER, "a b"):
                assert reader.find_branch(missing) is None
        store.move_branch("main", None, expected=names[0])
        assert store.find_branch("main") is None

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

    def test_a_batch_moves_branches_to_its_commits(self) -> None:
        store = self.store()
        batches = [batch_of("first")]
        batches.append(batch_of("second", parent=commit_in(batches[0]), second=1))
        first, second = map(commit_in, batches)
        store.write(structs.replace(batches[0], moves={"main": BranchMove(first)}))
        for reader in self.stores(store):
            assert (reader.branches(), [*reader.commits([first])]) == ({"main": first}, [first])
        moves = {"main": BranchMove(second, first), "old": BranchMove(first)}
        store.write(structs.replace(batches[1], moves=moves))
        store.write(WriteBatch(moves={"old": BranchMove(second, first)}))
        for reader in self.stores(store):
            assert reader.branches() == {"main": second, "old": second}

    def test_a_batch_is_not_written_if_a_branch_has_another_head(self) -> None:
        store = self.store()
        names = chain_in(store, 2)
        store.move_branch("main", names[1], expected=None)
        batch = batch_of("late", parent=names[0], second=9)
        for expected in (None, names[0]):
            moves = {"new": BranchMove(commit_in(batch)), "main": BranchMove(names[0], expected)}
            try:
                store.write(structs.replace(batch, moves=moves))
            except BranchConflict as error:
                facts = (error.branch, error.expected, error.actual)
                assert facts == ("main", expected, names[1])
            else:
                raise AssertionError("the write was not refused")
            for reader in self.stores(store):
                assert reader.branches() == {"main": names[1]}
                assert reader.commits([commit_in(batch)]) == {}
                assert reader.deltas(batch.deltas) == {}

    def test_a_batch_moves_a_valid_branch_to_an_existing_commit(self) -> None:
        store = self.store()
        batch, missing = batch_of("one"), CommitId("ctx-" + OTHER)
        for to in (missing, CommitId("ctx-1"), CommitId("")):
            refused(
                NameNotFound,
                store.write,
                structs.replace(batch, moves={"main": BranchMove(to)}),
            )
        for branch in ("", "a b", "ctx-1", "tkt-1", "a@b", "a//b", "/a", "a/"):
            move = BranchMove(commit_in(batch))
            refused(ValueError, store.write, structs.replace(batch, moves={branch: move}))
        assert (store.branches(), store.newest_commits(5)) == ({}, [])

    def test_of_batches_at_once_exactly_one_moves_a_branch(self) -> None:
        store = self.store()
        [root] = chain_in(store, 1)
        store.move_branch("main", root, expected=None)
        batches = [batch_of(f"writer {index}", parent=root, second=1) for index in range(8)]
        winners: list[CommitId] = []
        conflicts: list[BranchConflict] = []

        def write(batch: WriteBatch) -> None:
            try:
                store.write(
                    structs.replace(batch, moves={"main": BranchMove(commit_in(batch), root)})
                )
                winners.append(commit_in(batch))
            except BranchConflict as error:
                conflicts.append(error)

        threads = [threading.Thread(target=write, args=[batch]) for batch in batches]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (len(winners), len(conflicts)) == (1, 7)
        assert {error.actual for error in conflicts} == {*winners}
        assert store.branches() == {"main": winners[0]}
        assert [*store.commits(map(commit_in, batches))] == winners

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
