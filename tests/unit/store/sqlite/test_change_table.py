"""The changes of a store file: each once, in order, across restarts and processes."""

from __future__ import annotations

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from harken.core import structs
from harken.core.commits import CommitId, CommitNotes, HeadName, hash_raw
from harken.errors import BranchConflict
from harken.store.base import BranchMove, RetentionPolicy, Tombstone, WriteBatch
from harken.store.changes import StoreChange
from harken.store.sqlite.store import SqliteStore
from harken.testing.store import batch_of, commit_in

WHEN = "2026-01-01T00:00:00.000000Z"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


def read_all(store: SqliteStore, limit: int = 1000, after: int = 0) -> list[StoreChange]:
    """Read changes page by page, and check that pages are not empty before the end."""
    changes: list[StoreChange] = []
    while True:
        page = store.changes(after, limit)
        assert len(page.changes) <= limit
        if page.next == after:
            assert not page.changes
            return changes
        assert page.changes
        changes += page.changes
        after = page.next


def facts(changes: list[StoreChange]) -> list[tuple[str, str, str, str]]:
    return [(c.kind, c.name, c.to, c.was) for c in changes]


def write(store: SqliteStore, text: str, parent: CommitId | None = None) -> CommitId:
    batch = batch_of(text, parent=parent)
    store.write(batch)
    return commit_in(batch)


def test_existing_commits_and_branches_are_the_first_changes(path: Path) -> None:
    with closing(SqliteStore(path)) as store:
        names = [write(store, text) for text in "abc"]
        store.move_branch("main", names[1], expected=None)
        store.move_head(ticket := HeadName("tkt-" + "0" * 64), ref_in(store), expected=None)
        assert facts(read_all(store)) == [
            *[("commit", name, "", "") for name in names],
            ("branch", "main", names[1], ""),
            ("head", ticket, ref_in(store), ""),
        ]


def ref_in(store: SqliteStore):  # type: ignore[no-untyped-def]  # noqa: ANN201
    store.write(WriteBatch(raw={hash_raw(b"x"): b"x"}))
    return hash_raw(b"x")


@pytest.mark.parametrize("limit", [1, 2, 3, 100])
def test_every_change_is_shown_once_in_pages_of_any_size(path: Path, limit: int) -> None:
    with closing(SqliteStore(path)) as store:
        assert store.changes().changes == []
        one, two = write(store, "one"), write(store, "two")
        store.move_branch("main", one, expected=None)
        store.move_branch("main", two, expected=one)
        store.move_branch("other", two, expected=None)
        store.move_branch("main", None, expected=two)
        store.update_notes(one, CommitNotes(summary="s", labels=("a", "b")))
        store.update_notes(one, CommitNotes(summary="s", labels=("a", "b")))  # changes nothing
        store.update_notes(one, CommitNotes(summary="s"))
        write(store, "one")  # exists
        three = batch_of("three", parent=two)
        moves = {"other": BranchMove(commit_in(three), two), "new": BranchMove(commit_in(three))}
        store.write(structs.replace(three, moves=moves))
        last = commit_in(three)
        changes = facts(read_all(store, limit))
        assert changes[:-3] == [
            ("commit", one, "", ""),
            ("commit", two, "", ""),
            ("branch", "main", one, ""),
            ("branch", "main", two, one),
            ("branch", "other", two, ""),
            ("branch", "main", "", two),
            ("notes", one, "", ""),
            ("notes", one, "", ""),
        ]
        assert changes[-3] == ("commit", last, "", "")
        assert sorted(changes[-2:]) == [
            ("branch", "new", last, ""),
            ("branch", "other", last, two),
        ]


def test_refused_writes_are_no_changes(path: Path) -> None:
    with closing(SqliteStore(path)) as store:
        one = write(store, "one")
        end = store.changes().next
        batch = structs.replace(batch_of("two"), moves={"main": BranchMove(one, one)})
        with pytest.raises(BranchConflict):
            store.write(batch)
        assert store.changes(end).next == end


def test_collections_and_purges_are_changes(path: Path) -> None:
    with closing(SqliteStore(path)) as store:
        one = write(store, "gone")
        batch = batch_of("a secret")
        store.write(batch)
        end = store.changes().next
        store.set_retention({one: RetentionPolicy("ephemeral", WHEN)})
        store.collect([], now="2100-01-01T00:00:00Z", grace_s=0)
        (part,) = (name for name, body in batch.objects.items() if b"a secret" in body)
        store.purge({part: b'{"text":"[purged]","type":"text"}'}, Tombstone(WHEN, "me", ""))
        changes = facts(read_all(store, after=end))
        assert ("removed", one, "", "") in changes
        assert ("purged", part, "", "") in changes
        data = path.read_bytes()
        assert b"a secret" not in data


def test_positions_continue_after_a_restart_and_in_another_process(path: Path) -> None:
    with closing(SqliteStore(path)) as store:
        write(store, "one")
        end = store.changes().next
    with closing(SqliteStore(path)) as other:  # It was never asked for changes.
        two = write(other, "two")
    with closing(SqliteStore(path)) as store:
        page = store.changes(end)
        assert [change.name for change in page.changes] == [two]
        assert page.next > end


def test_a_position_is_not_used_again(path: Path) -> None:
    with closing(SqliteStore(path)) as store:
        one = write(store, "one")
        end = store.changes().next
        store.set_retention({one: RetentionPolicy("ephemeral", WHEN)})
        store.collect([], now="2100-01-01T00:00:00Z", grace_s=0)
        write(store, "one")
        positions = [change.position for change in read_all(store)]
        assert positions == sorted(set(positions))
        assert read_all(store, after=end)[-1].kind == "commit"


def test_concurrent_writers_lose_and_repeat_no_change(path: Path) -> None:
    """A reader that runs beside eight writers sees each commit once, parents first."""
    with closing(SqliteStore(path)) as store, ThreadPoolExecutor(8) as threads:
        store.changes()
        work = [threads.submit(write, store, f"text {n}") for n in range(60)]
        seen: list[str] = []
        after = 0
        while len(seen) < 60:
            page = store.changes(after, 7)
            seen += [change.name for change in page.changes]
            after = page.next
        assert sorted(seen) == sorted(job.result() for job in work)
        assert seen == store.newest_commits(100)[::-1]


def test_a_store_without_the_table_has_no_trigger(path: Path) -> None:
    """A home whose changes nobody asked for is as before."""
    with closing(SqliteStore(path)) as store:
        write(store, "one")
    with closing(sqlite3.connect(path)) as connection:
        query = "SELECT count(*) FROM sqlite_schema WHERE type = 'trigger' OR name = 'change'"
        assert connection.execute(query).fetchone() == (0,)
