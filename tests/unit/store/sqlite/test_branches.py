"""Branches in a file: damage is reported, and a head is retained."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from harken.context.checkpoint import CommitDraft, CommitOrigin, checkpoint
from harken.context.compaction import snapshot
from harken.context.materialize import materialize
from harken.core.commits import CommitId
from harken.core.messages import Message
from harken.errors import BranchConflict
from harken.store.base import RetentionPolicy, WriteBatch
from harken.store.fsck import fsck
from harken.store.sqlite.store import SqliteStore
from harken.testing.store_kit import chain_in

DRAFT = CommitDraft(
    messages=[Message("user", "Tea?")],
    created_at="2026-01-01T00:00:00Z",
    origin=CommitOrigin(principal="alice"),
    branch="main",
)


def test_a_checkpoint_is_refused_if_another_writer_moved_its_branch(tmp_path: Path) -> None:
    with (
        closing(SqliteStore(tmp_path / "s.db")) as alice,
        closing(SqliteStore(tmp_path / "s.db")) as bob,
    ):
        first = checkpoint(alice, DRAFT)
        assert checkpoint(bob, DRAFT) == first  # The same checkpoint, repeated.
        other = CommitDraft(
            messages=[Message("user", "Milk?")], created_at=DRAFT.created_at, branch="main"
        )
        with pytest.raises(BranchConflict) as refusal:
            checkpoint(bob, other)
        error = refusal.value
        assert (error.expected, error.actual) == (None, first)
        assert bob.branches() == {"main": first}
        commit = CommitId(error.commit)
        assert commit in str(error)
        assert [message.content for message in materialize(bob, commit).messages] == ["Milk?"]
        with pytest.raises(BranchConflict, match=commit):
            checkpoint(bob, other)
        bob.move_branch("other", commit, expected=None)
        assert checkpoint(bob, replace(other, branch="other")) == commit


class _SlowStore(SqliteStore):
    """A store in which another writer moves the branch between a read of it and the write."""

    def __init__(self, path: Path, moves: list[str]) -> None:
        super().__init__(path)
        self.moves = moves

    def write(self, batch: WriteBatch) -> None:
        if batch.moves and self.moves:
            other = CommitDraft(
                messages=[Message("user", self.moves.pop())],
                created_at=DRAFT.created_at,
                branch="main",
                parent=self.branches().get("main"),
            )
            checkpoint(self, other)
        super().write(batch)


@pytest.mark.parametrize("branch", ["main", "other"])
def test_a_writer_that_loses_a_race_is_told_and_its_commit_is_named(
    tmp_path: Path, branch: str
) -> None:
    with closing(_SlowStore(tmp_path / "s.db", ["faster"])) as store:
        draft = replace(DRAFT, branch=branch)
        if branch == "other":  # The faster writer moved another branch.
            commit = checkpoint(store, draft)
        else:
            with pytest.raises(BranchConflict) as refusal:
                checkpoint(store, draft)
            commit = CommitId(refusal.value.commit)
            assert refusal.value.actual == store.branches()["main"] != commit
        assert store.commits([commit])


def test_a_repetition_that_loses_a_race_to_itself_is_none(tmp_path: Path) -> None:
    """Two processes may repeat the same checkpoint at once."""
    with closing(_SlowStore(tmp_path / "s.db", ["Tea?"])) as store:
        draft = replace(DRAFT, origin=CommitOrigin())
        assert store.branches() == {}
        commit = checkpoint(store, draft)
        assert store.branches() == {"main": commit}


def test_a_snapshot_moves_its_branch(tmp_path: Path) -> None:
    with closing(SqliteStore(tmp_path / "s.db")) as store:
        commit = checkpoint(store, DRAFT)
        created = snapshot(store, commit, branch="main")
        assert store.branches() == {"main": created}
        other = replace(DRAFT, messages=[Message("user", "Milk?")], branch="")
        with pytest.raises(BranchConflict):
            snapshot(store, checkpoint(store, other), branch="main")
        assert store.branches() == {"main": created}


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE branch SET head = CAST(substr(head, 1, 39) || x'00' AS BLOB)",
        "UPDATE branch SET name = CAST('other' AS BLOB)",
        "DELETE FROM branch",
        "DELETE FROM history",
    ],
)
def test_fsck_reports_a_damaged_or_missing_branch(tmp_path: Path, damage: str) -> None:
    with closing(SqliteStore(tmp_path / "s.db")) as store:
        checkpoint(store, DRAFT)
        assert fsck(store) == []
    with closing(sqlite3.connect(tmp_path / "s.db")) as database:
        database.execute(damage)
        database.commit()
    with closing(SqliteStore(tmp_path / "s.db")) as store:
        assert any("branch" in finding.place for finding in fsck(store))


def test_the_head_of_a_branch_outlives_its_retention(tmp_path: Path) -> None:
    with closing(SqliteStore(tmp_path / "s.db")) as store:
        names = chain_in(store, 2)
        expired = RetentionPolicy("ephemeral", until="2026-02-01T00:00:00Z")
        store.set_retention(dict.fromkeys(names, expired))
        store.move_branch("main", names[0], expected=None)
        collected = store.collect([], now="2027-01-01T00:00:00Z", grace_s=0)
        assert collected.commits == (names[1],)
        assert store.branches() == {"main": names[0]}
