"""The heads of tickets in two tiers, and their damage in a file."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from harken.core.commits import ArtifactRef, HeadName, encode_sequence, hash_raw
from harken.errors import BranchConflict, StoreError
from harken.store.base import Store, WriteBatch
from harken.store.fsck import fsck
from harken.store.memory import MemoryStore
from harken.store.sqlite.store import SqliteStore
from harken.store.tiered.push import DifferentHead
from harken.store.tiered.store import TieredStore

TICKET = HeadName("tkt-" + "1" * 64)
OTHER = HeadName("tkt-" + "2" * 64)


def _write(store: Store, text: str, before: ArtifactRef | None = None) -> ArtifactRef:
    """Write a version of a ticket, and return its name."""
    record = text.encode()
    members = [hash_raw(record), *([] if before is None else [before])]
    name, _ = encode_sequence(members)
    store.write(WriteBatch(raw={members[0]: record}, sequences={name: members}))
    return name


def test_of_two_machines_with_one_backing_store_one_moves_a_ticket(tmp_path: Path) -> None:
    backing = MemoryStore()
    with (
        closing(TieredStore(SqliteStore(tmp_path / "a.db"), backing)) as first,
        closing(TieredStore(SqliteStore(tmp_path / "b.db"), backing)) as second,
    ):
        root = _write(first, "created")
        first.move_head(TICKET, root, expected=None)
        assert second.heads() == {TICKET: root}
        claims = [_write(store, name, root) for store, name in ((first, "a"), (second, "b"))]
        second.move_head(TICKET, claims[1], expected=root)
        with pytest.raises(BranchConflict):
            first.move_head(TICKET, claims[0], expected=root)
        assert first.heads() == second.heads() == {TICKET: claims[1]}
        members = first.sequences([claims[1]])[claims[1]]
        assert first.raws(members) == {members[0]: b"b"}
        assert second.local.heads() == {TICKET: claims[1]}


class _UnavailableStore(MemoryStore):
    """A backing store without tickets, as if the network was down."""

    def heads(self, prefix: str = "") -> dict[HeadName, ArtifactRef]:
        raise StoreError("the backing store", "is unavailable")


def test_without_the_backing_store_tickets_are_read_and_not_changed(tmp_path: Path) -> None:
    with closing(SqliteStore(tmp_path / "a.db")) as local:
        root = _write(local, "created")
        local.move_head(TICKET, root, expected=None)
        tiered = TieredStore(local, _UnavailableStore())
        after = _write(tiered, "claimed", root)
        with pytest.raises(StoreError, match="unavailable"):
            tiered.move_head(TICKET, after, expected=root)
        assert tiered.heads() == local.heads() == {TICKET: root}


def test_tickets_from_before_the_backing_store_are_pushed_or_moved_there(tmp_path: Path) -> None:
    backing = MemoryStore()
    with closing(SqliteStore(tmp_path / "a.db")) as local:
        roots = [_write(local, text) for text in ("one", "two")]
        local.move_head(TICKET, roots[0], expected=None)
        local.move_head(OTHER, roots[1], expected=None)
        tiered = TieredStore(local, backing)
        after = _write(tiered, "changed", roots[0])
        tiered.move_head(TICKET, after, expected=roots[0])
        assert backing.heads() == {TICKET: after}
        tiered.push()
        assert backing.heads() == {TICKET: after, OTHER: roots[1]}
        assert not fsck(backing)


def test_push_continues_tickets_and_reports_those_that_diverged(tmp_path: Path) -> None:
    backing = MemoryStore()
    with closing(SqliteStore(tmp_path / "a.db")) as local:
        roots = [_write(local, text) for text in ("one", "two", "three")]
        ours = [_write(local, "ours", root) for root in roots]
        for store in (local, backing):
            theirs = [_write(store, text) for text in ("one", "two", "three")]
        after = _write(backing, "theirs", theirs[1])
        later = _write(backing, "later", _write(backing, "ours", theirs[2]))
        names = [TICKET, OTHER, HeadName("tkt-" + "3" * 64)]
        for name, head, there in zip(names, ours, [roots[0], after, later], strict=True):
            local.move_head(name, head, expected=None)
            backing.move_head(name, there, expected=None)
        [different] = TieredStore(local, backing).push().different
        assert different == DifferentHead("ticket", OTHER, ours[1], after)
        assert backing.heads() == {TICKET: ours[0], OTHER: after, names[2]: later}
        assert not fsck(backing)


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE branch SET head = CAST(substr(head, 1, 39) || x'00' AS BLOB)",
        "UPDATE branch SET name = CAST('tkt-x' AS BLOB)",
        "DELETE FROM branch",
    ],
)
def test_fsck_reports_a_damaged_or_missing_head(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "store.db"
    with closing(SqliteStore(path)) as store:
        store.move_head(TICKET, _write(store, "created"), expected=None)
        assert not fsck(store)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(damage)
    with closing(SqliteStore(path)) as store:
        places = [finding.place for finding in fsck(store)]
        assert any("ticket" in place or "branch" in place for place in places)
