"""Power cuts between all steps of SQLite under a store: writes, purge, collection, eviction.

After each cut the store is opened, `fsck` finds nothing, and all that was acknowledged is there.
"""

from __future__ import annotations

import hashlib
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, TypeAlias

import pytest

from harken.context.checkpoint import CommitDraft, checkpoint
from harken.core.commits import ArtifactRef, CommitId, CommitNotes, hash_raw
from harken.core.messages import Message
from harken.errors import HarkenError
from harken.store.base import RetentionPolicy, Tombstone, WriteBatch
from harken.store.fsck import fsck
from harken.store.sqlite.evict import evict
from harken.store.sqlite.store import SqliteStore
from harken.testing.store import batch_of, commit_in
from tests.crash.sqlite_disk import Image, SqliteDisk, sqlite_on

LATER = "2100-01-01T00:00:00Z"
NOON_US = 1_767_225_600_000_000
SECRET = hash_raw(b"a secret text")
Content: TypeAlias = dict[str, dict[Any, Any]]


@dataclass
class Life:
    """A store, the operations on it, and the cuts before each of their steps."""

    folder: Path
    seed: int
    is_syncing: bool = True
    share: float = 1.0
    """The share of the steps before which the power is cut, besides all syncs."""
    commits: list[CommitId] = field(default_factory=list)
    cuts: list[tuple[str, list[Content], Image]] = field(default_factory=list)
    """The operation, the possible contents, and the disk."""
    _now_us: int = NOON_US

    def run(self) -> None:
        """Run all operations."""
        path = self.folder / "s.db"
        SqliteStore(path).close()
        disk = SqliteDisk(self.folder, Random(self.seed), self.is_syncing)
        with sqlite_on(disk):
            store = SqliteStore(path, clock=self._clock)
            before = read_content(store)
            for operation in OPERATIONS:
                before = self._run(operation, store, disk, before)
            store.close()

    def _clock(self) -> int:
        self._now_us += 3_600_000_000
        return self._now_us

    def _run(
        self, operation: Operation, store: SqliteStore, disk: SqliteDisk, before: Content
    ) -> Content:
        """Run an operation and record the disks of cuts before its steps, and after its end."""
        images: list[Image] = []

        def cut(step: str) -> None:
            if step != "write" or disk.dice.random() < self.share:
                images.extend(disk.images())

        disk.on_step = cut
        operation(self, store)
        disk.on_step = lambda _: None
        after = read_content(store)
        name = operation.__name__
        self.cuts += [(name, [before, after], image) for image in images]
        self.cuts += [(f"after {name}", [after], image) for image in disk.images()]
        return after

    def write(self, store: SqliteStore, batch: WriteBatch) -> None:
        store.write(batch)
        self.commits.append(commit_in(batch))


Operation: TypeAlias = Callable[[Life, SqliteStore], None]


def write_commit(life: Life, store: SqliteStore) -> None:
    count = len(life.commits)
    text = Random(count).randbytes(8_000).hex() if count % 3 == 1 else "short"
    parent = life.commits[-1] if life.commits else None
    notes = CommitNotes(summary=text[:9], labels=(f"label {count % 3}",))
    life.write(store, batch_of(f"{count} {text}", parent=parent, second=count, notes=notes))


def write_group(life: Life, store: SqliteStore) -> None:
    """Write a chain of commits in one transaction."""
    parent, batches = life.commits[-1], list[WriteBatch]()
    for number in range(3):
        second = 100 * len(life.commits) + number
        batches.append(batch_of(f"of a group {second}", parent=parent, second=second))
        parent = commit_in(batches[-1])
    batch = WriteBatch(
        objects={name: body for batch in batches for name, body in batch.objects.items()},
        deltas={name: delta for batch in batches for name, delta in batch.deltas.items()},
        commits=[commit for batch in batches for commit in batch.commits],
    )
    life.write(store, batch)


def change_notes(life: Life, store: SqliteStore) -> None:
    store.update_notes(life.commits[-1], CommitNotes(summary="changed", labels=("new",)))


def move_branch(life: Life, store: SqliteStore) -> None:
    head = store.branches().get("main")
    store.move_branch("main", life.commits[-1], expected=head)


def checkpoint_on_branch(life: Life, store: SqliteStore) -> None:
    """Write a commit and move a branch to it: a cut leaves both or none."""
    count = len(life.commits)
    draft = CommitDraft(
        messages=[Message("user", f"on a branch {count}")],
        parent=store.branches().get("work"),
        created_at=f"2026-01-02T00:00:{count:02d}Z",
        branch="work",
    )
    life.commits.append(checkpoint(store, draft))


def write_raw(life: Life, store: SqliteStore) -> None:
    raw = {hash_raw(data): data for data in (b"pinned", b"a secret text")}
    store.write(WriteBatch(raw=raw))


def set_retention(life: Life, store: SqliteStore) -> None:
    policies: dict[CommitId | ArtifactRef, RetentionPolicy | None] = {
        life.commits[0]: RetentionPolicy("ephemeral", LATER),
        SECRET: RetentionPolicy("pin"),
        hash_raw(b"pinned"): RetentionPolicy("pin"),
    }
    store.set_retention(policies)


def checkpoint_database(life: Life, store: SqliteStore) -> None:
    """Move the write-ahead log into the file, so that the next write begins it again."""
    with closing(sqlite3.connect(life.folder / "s.db")) as connection:
        connection.execute("PRAGMA wal_checkpoint(FULL)")


def purge(life: Life, store: SqliteStore) -> None:
    store.purge({SECRET: b"gone"}, Tombstone(when=LATER, by="ann", why="a secret"))


def write_garbage(life: Life, store: SqliteStore) -> None:
    garbage = batch_of(f"garbage {Random(3).randbytes(6_000).hex()}", "more")
    store.write(WriteBatch(objects=garbage.objects, deltas=garbage.deltas))


def collect(life: Life, store: SqliteStore) -> None:
    store.collect([], now=LATER.replace("2100", "2099"), grace_s=0)


def evict_all(life: Life, store: SqliteStore) -> None:
    evict(store, 0, lambda names: names)


def reopen(life: Life, store: SqliteStore) -> None:
    """Open and close the store a second time beside the first one."""
    with closing(SqliteStore(store.path, clock=life._clock)) as second:
        second.write(batch_of(f"second {len(life.commits)}", second=500 + len(life.commits)))


OPERATIONS: tuple[Operation, ...] = (
    *(write_commit, write_commit, write_group, change_notes, move_branch, write_raw),
    *(checkpoint_on_branch, set_retention, checkpoint_database, checkpoint_on_branch),
    *(write_commit, move_branch, purge, write_commit),
    *(write_garbage, collect, reopen, evict_all, write_group, checkpoint_database, write_commit),
)
GRADUAL = ("collect", "purge", "evict_all")
"""Operations of several transactions, each of which removes objects."""


def read_content(store: SqliteStore) -> Content:
    """Return what a store has, as its users see it."""
    commits = store.newest_commits(1000)
    return {
        "commits": {name: store.commits([name])[name] for name in commits},
        "labels": {label: sorted(names) for label, names in store.commits_by_label().items()},
        "branches": store.branches(),
        "retention": store.retention(),
        "tombstones": store.tombstones(),
        "objects": {obj.name: obj.body for obj in store.iter_objects()},
    }


def find_loss(folder: Path, name: str, contents: list[Content]) -> str | None:
    """Return what is damaged or lost in a store, if anything."""
    try:
        with closing(SqliteStore(folder / "s.db")) as store:
            if findings := fsck(store):
                return f"{findings[0].place}: {findings[0].problem}"
            content = read_content(store)
    except HarkenError as error:
        return f"{type(error).__name__}: {error}"
    if content in contents:
        return None
    if name in GRADUAL and is_between(content, *contents):
        return None
    return f"neither as before nor as after {name}"


def is_between(content: Content, before: Content, after: Content) -> bool:
    """Whether some of the objects are removed, or replaced, that are to be."""
    objects, old, new = content["objects"], before["objects"], after["objects"]
    others = {**content, "objects": {}}
    return (
        others in ({**before, "objects": {}}, {**after, "objects": {}})
        and new.keys() <= objects.keys() <= old.keys() | new.keys()
        and all(body in (old.get(name), new.get(name)) for name, body in objects.items())
    )


def iter_losses(life: Life, folder: Path) -> Iterator[str]:
    """Yield the losses after the cuts of a life, each different disk once."""
    checked: set[bytes] = set()
    for name, contents, image in life.cuts:
        key = hashlib.blake2b(repr(sorted(image.items())).encode() + name.encode()).digest()
        if key in checked:
            continue
        checked.add(key)
        folder.mkdir()
        for file, data in image.items():
            (folder / file).write_bytes(data)
        reason = find_loss(folder, name, contents)
        if reason is not None:
            yield f"{name}: {reason}"
        shutil.rmtree(folder)


@pytest.mark.req("D-01", "S2-11")
@pytest.mark.parametrize(
    ("seed", "share"),
    [(1, 0.05), *(pytest.param(seed, 0.3, marks=pytest.mark.full) for seed in range(2, 6))],
)
def test_power_cut_between_steps_of_the_database_loses_nothing(
    tmp_path: Path, seed: int, share: float
) -> None:
    (tmp_path / "live").mkdir()
    life = Life(tmp_path / "live", seed, share=share)
    life.run()
    assert [*iter_losses(life, tmp_path / "cut")] == []
    changed = {
        name for name, contents, _ in life.cuts if len(contents) > 1 and contents[0] != contents[1]
    }
    assert changed == {operation.__name__ for operation in OPERATIONS} - {"checkpoint_database"}
    assert len(life.cuts) > 300


@pytest.mark.req("D-01")
def test_power_cut_while_a_store_is_created_leaves_a_usable_folder(tmp_path: Path) -> None:
    (tmp_path / "live").mkdir()
    images: list[Image] = []
    disk = SqliteDisk(tmp_path / "live", Random(1))
    disk.on_step = lambda _: images.extend(disk.images())
    with sqlite_on(disk):
        SqliteStore(tmp_path / "live" / "s.db").close()
    assert len(images) > 50
    for number, image in enumerate(images):
        folder = tmp_path / str(number)
        folder.mkdir()
        for name, data in image.items():
            (folder / name).write_bytes(data)
        with closing(SqliteStore(folder / "s.db")) as store:
            assert fsck(store) == []
            store.write(batch_of("after the cut"))
            assert len(store.newest_commits(2)) == 1


def test_disk_without_syncs_loses_acknowledged_commits(tmp_path: Path) -> None:
    """Otherwise the test above would prove nothing."""
    (tmp_path / "live").mkdir()
    life = Life(tmp_path / "live", 1, is_syncing=False, share=0)
    life.run()
    losses = [*iter_losses(life, tmp_path / "cut")]
    assert len([loss for loss in losses if loss.startswith("after ")]) > 5
