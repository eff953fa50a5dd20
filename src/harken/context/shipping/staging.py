"""Staging: a copy of commits as they will be seen elsewhere, without credentials.

Names stay, as in a bundle: what held a credential has a stand-in, and its tombstone says why. What
is here does not change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from harken.context.bundle.redacting import WHY
from harken.context.purge import found_in_store
from harken.core.clock import Clock, rfc3339
from harken.core.commits import CommitId
from harken.core.redaction import Credentials
from harken.store.base import Store, Tombstone
from harken.store.copy import copy_commits
from harken.store.sqlite import SqliteStore

BY = "harken ship"


@contextmanager
def staged(
    store: Store, names: Iterable[CommitId], found: Credentials, folder: Path, clock: Clock
) -> Iterator[Store]:
    """Give a copy of commits with all before them, redacted, in a file in `folder`.

    Raises PartOfStructure where one would be none without a credential; StoreError.
    """
    with closing(SqliteStore(folder / "store.db")) as copy:
        copy_commits(store, copy, names)
        held = found_in_store(copy, found)
        for name, notes in held.notes.items():
            copy.annotate(name, notes)
        if held.stand_ins:
            stone = Tombstone(when=rfc3339(clock()), by=BY, why=WHY)
            copy.purge(held.stand_ins, stone)
        yield copy
