"""Child processes of the collection tests: a writer and a collector, each until killed.

    python -m tests.crash.collector write FOLDER NAME
    python -m tests.crash.collector collect FOLDER

The writer writes content first and then a commit that only names it: as dangerous as can be. It
prints the number of each commit that is acknowledged.
"""

from __future__ import annotations

import sys
from itertools import count
from pathlib import Path

from harken.core.commits import CommitId, hash_raw
from harken.errors import ObjectNotFound
from harken.store.base import GcResult, Store, WriteBatch
from harken.store.fsck import fsck
from harken.store.sqlite.store import SqliteStore
from harken.testing.store import batch_of, commit_in

AT_ONCE = 20
LATER = "2100-01-01T00:00:00Z"


def write(folder: Path, name: str) -> None:
    """Write until killed."""
    store = SqliteStore(folder / "s.db")
    last: CommitId | None = None
    for number in count():
        batch = batch_of(
            f"{name} {number}", f"shared {number % 5}", parent=last, second=number, principal=name
        )
        store.write(WriteBatch(objects=batch.objects, deltas=batch.deltas))
        try:
            store.write(WriteBatch(commits=batch.commits))
        except ObjectNotFound:  # collected in the meantime, which the error reports
            store.write(batch)
        last = commit_in(batch)
        print(number, flush=True)


def litter(store: Store, begin: int, size: int) -> None:
    """Write unreferenced objects among referenced ones, in many batches, a few at once."""
    for start in range(begin, begin + size, AT_ONCE):
        batches: list[WriteBatch] = []
        for number in range(start, min(start + AT_ONCE, begin + size)):
            loose = batch_of(f"loose {number}", "loose everywhere", second=number)
            kept_batch = batch_of(f"kept {number}", second=number, principal="kept")
            data = f"raw {number}".encode() * 20
            loose_raw = WriteBatch(
                objects=loose.objects, deltas=loose.deltas, raw={hash_raw(data): data}
            )
            batches += [loose_raw, kept_batch]
        store.write(
            WriteBatch(
                objects={name: body for batch in batches for name, body in batch.objects.items()},
                deltas={name: delta for batch in batches for name, delta in batch.deltas.items()},
                raw={name: data for batch in batches for name, data in batch.raw.items()},
                commits=[commit for batch in batches for commit in batch.commits],
            )
        )


def collect_all(store: Store, *, dry_run: bool = False) -> GcResult:
    """Collect every unreferenced object of any age."""
    return store.collect([], now=LATER, grace_s=0, dry_run=dry_run)


def collect(folder: Path) -> None:
    """Write unreferenced objects and collect them until killed."""
    store = SqliteStore(folder / "s.db")
    for number in count(len(store.newest_commits(10**6)) // 400):
        litter(store, number * 400, 400)
        print(number, flush=True)
        collect_all(store)


def find_loss(path: Path, principals: dict[str, int]) -> str | None:
    """Return the losses among acknowledged commits: principal -> the highest number."""
    store = SqliteStore(path)
    try:
        problems = [f"{finding.place}: {finding.problem}" for finding in fsck(store)]
        if problems:
            return "; ".join(problems[:3])
        for name, acknowledged in principals.items():
            last = store.latest_commit(name, LATER)
            chain = store.chain(last) if last else []
            refs = [stored.commit.artifact for stored in chain]
            if len(chain) <= acknowledged:
                return f"{name}: {acknowledged + 1} were acknowledged, {len(chain)} are there"
            if store.deltas(refs).keys() != {*refs}:
                return f"{name}: deltas are lost"
        return None
    finally:
        store.close()


if __name__ == "__main__":
    if sys.argv[1] == "write":
        write(Path(sys.argv[2]), sys.argv[3])
    else:
        collect(Path(sys.argv[2]))
