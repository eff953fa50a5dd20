"""Branches in a file: damage is reported, and a head is retained."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from harken.context.checkpoint import CommitDraft, CommitOrigin, checkpoint
from harken.core.messages import Message
from harken.errors import BranchConflict
from harken.store.base import RetentionPolicy
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
        assert (refusal.value.expected, refusal.value.actual) == (None, first)
        assert bob.newest_commits() == [first]


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
