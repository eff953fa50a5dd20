"""Write a chain of commits to a store until killed; print the number of each written one.

python -m tests.crash.store_writer FOLDER

It continues the chain of the last run. `wrong` returns the differences from the acknowledged state.
"""

from __future__ import annotations

import sys
from itertools import count
from pathlib import Path

from harken.core import canonical
from harken.core.commits import CommitId, CommitNotes, Hash, decode_entry
from harken.errors import HarkenError
from harken.store.fsck import fsck
from harken.store.sqlite.store import SqliteStore
from harken.testing.store import batch_of, commit_in

LATER = "2100-01-01T00:00:00Z"


def text_of(number: int) -> str:
    """Return the text of a step: sometimes a long one, so that a write has many pages."""
    return f"step {number} " + "and a long story " * (3000 if number % 7 == 3 else 10)


def main(folder: Path) -> None:
    """Write until killed."""
    store = SqliteStore(folder / "s.db")
    last: CommitId | None = store.latest_commit("writer", LATER)
    start = 0 if last is None else len(store.chain(last))
    for number in count(start):
        batch = batch_of(
            text_of(number),
            parent=last,
            second=number,
            principal="writer",
            notes=CommitNotes(labels=("even",) if number % 2 == 0 else ()),
        )
        store.write(batch)
        last = commit_in(batch)
        print(number, flush=True)


def find_loss(folder: Path, acknowledged: int) -> str | None:
    """Return the lost or damaged acknowledged commits, up to this number."""
    try:
        store = SqliteStore(folder / "s.db")
        problems = [f"{finding.place}: {finding.problem}" for finding in fsck(store)]
        last = store.latest_commit("writer", LATER)
        chain = store.chain(last)[::-1] if last else []
        deltas = store.deltas([stored.commit.artifact for stored in chain])
        entries = [deltas[stored.commit.artifact][0] for stored in chain]
        objects = store.objects([entry.message for entry in entries])
        for stored in chain:
            assert stored.commit.artifact in deltas
        evens = len(store.commits_by_label("even").get("even", ()))
        parts = store.objects(name for body in [*objects.values()] for name in _parts(body))
        texts = [decode_entry(entry, {**objects, **parts}).content for entry in entries[-5:]]
        store.close()
    except (HarkenError, LookupError) as error:
        return f"{type(error).__name__}: {error}"
    if problems:
        return "; ".join(problems[:3])
    if len(chain) <= acknowledged:
        return f"{acknowledged + 1} were acknowledged, {len(chain)} are there"
    numbers = range(len(chain))[-5:]
    if texts != [text_of(number) for number in numbers] or evens != (len(chain) + 1) // 2:
        return "what is there is not what was written"
    return None


def _parts(body: bytes) -> list[Hash]:
    return [Hash(name) for name in canonical.from_json(body)["parts"]]


if __name__ == "__main__":
    if sys.argv[1] == "verify":
        reason = find_loss(Path(sys.argv[2]), int(sys.argv[3]))
        sys.exit(reason or 0)
    main(Path(sys.argv[1]))
