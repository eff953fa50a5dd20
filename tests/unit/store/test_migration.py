"""A file of format version 1 becomes one of this version, whole, and a copy of it stays."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from harken.context.materialize import materialize
from harken.core.commits import ArtifactRef, CommitId, delta_from, sequence_from
from harken.errors import ObjectDamaged
from harken.store.base import Batch, Kind
from harken.store.checks import fsck
from harken.store.sqlite import SqliteStore
from harken.testing.store import batch_of, commit_in

ROOT = Path(__file__).parents[3]
OLD = ROOT / "tests" / "fixtures" / "store-v1.db"
EXPECTED: dict[str, Any] = json.loads(OLD.with_suffix(".json").read_text(encoding="utf-8"))
YEARS_LATER = "2100-01-01T00:00:00Z"


def all_of(store: SqliteStore) -> Batch:
    """Return everything in a store as one batch."""
    batch = Batch(objects={}, deltas={}, sequences={}, raw={}, commits=[])
    members: Any = [None, batch.objects, batch.objects, batch.deltas, batch.sequences, batch.raw]
    for thing in store.things():
        if thing.kind is Kind.COMMIT:
            [stored] = store.commits([CommitId(thing.name)]).values()
            batch.commits.append((stored.commit, stored.notes))  # type: ignore[attr-defined]
        elif thing.kind is Kind.DELTA:
            members[thing.kind][thing.name] = delta_from(thing.body)
        elif thing.kind is Kind.SEQUENCE:
            members[thing.kind][thing.name] = sequence_from(thing.body)
        else:
            members[thing.kind][thing.name] = thing.body
    return batch


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return Path(shutil.copy(OLD, tmp_path / "store.db"))


def is_as_expected(store: SqliteStore) -> None:
    for key, expected in EXPECTED["materialized"].items():
        ctx, stop = key.split()
        found = materialize(store, CommitId(ctx), stop)
        assert (found.ref, found.token_count) == (expected["ref"], expected["tokens"])
        assert [[m.role, m.content] for m in found.messages] == expected["messages"]
    commits = {
        name: [found.notes.summary, found.commit.created_at]
        for name, found in store.commits(map(CommitId, EXPECTED["commits"])).items()
    }
    assert commits == EXPECTED["commits"]
    assert store.labelled() == EXPECTED["labels"]
    assert {name: store.raw(ArtifactRef(name)).hex() for name in EXPECTED["raw"]} == EXPECTED["raw"]
    assert {who: store.latest(who, YEARS_LATER) for who in EXPECTED["latest"]} == EXPECTED["latest"]
    assert [one.id for one in store.chain(EXPECTED["chain"][0])] == EXPECTED["chain"]
    for parent, children in EXPECTED["children"].items():
        assert store.children(CommitId(parent)) == children


def test_an_old_store_reads_as_it_did(path: Path) -> None:
    store = SqliteStore(path)
    assert fsck(store) == []
    is_as_expected(store)
    assert {*EXPECTED["names"]} <= {*store.named("", 1000)}
    child = batch_of("new", parent=CommitId(EXPECTED["chain"][0]), second=10**6)
    store.write(child)
    assert [one.id for one in store.chain(commit_in(child))][1:] == EXPECTED["chain"]
    assert fsck(store) == []
    store.close()
    assert (path.with_name("store.db.v1")).read_bytes()[100:] == OLD.read_bytes()[100:]


def test_an_older_copy_is_never_overwritten(path: Path) -> None:
    older = path.with_name("store.db.v1")
    older.write_bytes(b"somebody's")
    SqliteStore(path).close()
    assert older.read_bytes() == b"somebody's"
    assert path.with_name("store.db.v1.2").read_bytes()[100:] == OLD.read_bytes()[100:]


def test_what_is_only_in_the_wal_is_migrated_and_copied(path: Path) -> None:
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("PRAGMA wal_autocheckpoint=0")
    other.execute("INSERT INTO label VALUES (x'77616c', 1)")
    other.execute("UPDATE history SET notes = notes WHERE id = 1")
    store = SqliteStore(path)
    assert "wal" in store.labelled()
    store.close()
    copy = sqlite3.connect(path.with_name("store.db.v1"))
    assert copy.execute("SELECT count(*) FROM label WHERE name = x'77616c'").fetchone() == (1,)
    copy.close()
    other.close()


def test_two_processes_that_open_it_at_once_both_have_it(path: Path) -> None:
    program = (
        "import sys; from harken.store.sqlite import SqliteStore; "
        "print(len(SqliteStore(sys.argv[1]).named('ctx-', 100)))"
    )
    command = [sys.executable, "-c", program, str(path)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    count = str(len(EXPECTED["commits"]))
    assert [process.communicate()[0].strip() for process in running] == [count] * 3
    names = {file.name for file in path.parent.iterdir()}
    assert names - {"store.db-wal", "store.db-shm"} == {"store.db", "store.db.v1"}


def test_killed_at_any_moment_it_is_old_or_new(tmp_path: Path) -> None:
    program = "import sys; from harken.store.sqlite import SqliteStore; print(1, flush=True); SqliteStore(sys.argv[1])"
    for at in range(8):
        path = Path(shutil.copy(OLD, tmp_path / f"{at}.db"))
        child = subprocess.Popen(
            [sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE, text=True
        )
        assert child.stdout is not None
        child.stdout.readline()
        time.sleep(0.003 * at)
        child.kill()
        child.communicate()
        store = SqliteStore(path)
        assert fsck(store) == []
        is_as_expected(store)
        store.close()


def test_what_was_damaged_is_still_named_and_can_be_mended(path: Path) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    [pack] = connection.execute("SELECT pack FROM history WHERE id = 3").fetchone()
    connection.execute("UPDATE pack SET data = zeroblob(length(data)) WHERE id = ?", [pack])
    connection.close()
    store = SqliteStore(path)
    assert fsck(store)
    with pytest.raises(ObjectDamaged):
        store.chain(CommitId(EXPECTED["latest"]["joren"]))
    whole = Path(shutil.copy(OLD, path.with_name("whole.db")))
    other = SqliteStore(whole)
    store.write(all_of(other))
    assert all(f"pack {pack}" in finding.place + finding.problem for finding in fsck(store))
    is_as_expected(store)
    for one in (store, other):
        one.close()
