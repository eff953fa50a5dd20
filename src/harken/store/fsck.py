"""What is wrong with a store: everything in it is hashed again. Nothing is changed, ever.

Source: docs/formats/store.md, "Checking".
"""

from __future__ import annotations

from collections.abc import Iterator

from harken.core import commits
from harken.core.arguments import check_arguments
from harken.core.commits import ArtifactRef, CommitId
from harken.errors import HarkenError
from harken.store.base import ObjectKind, Store, StoredCommit
from harken.store.batch import needs_of
from harken.store.sqlite.check import StoreFinding, findings
from harken.store.sqlite.graph import Progress
from harken.store.sqlite.store import SqliteStore

__all__ = ["StoreFinding", "fsck"]


@check_arguments
def fsck(store: Store, on_progress: Progress | None = None) -> list[StoreFinding]:
    """Read everything and return what is wrong; an empty list: all is whole.

    `on_progress` is told how far it is, where the store is a file.
    """
    if isinstance(store, SqliteStore):
        return list(findings(store, on_progress))
    return list(_by_reading(store))


def _by_reading(store: Store) -> Iterator[StoreFinding]:
    """Ask a store of any kind for all that its names lead to."""
    try:
        names = store.names_with_prefix("", limit=2**62)
    except HarkenError as error:
        yield StoreFinding("names", str(error))
        return
    for name in names:
        try:
            if name.startswith("ctx-"):
                problem = _commit_problem(store, CommitId(name))
            else:
                problem = _artifact_problem(store, ArtifactRef(name))
        except HarkenError as error:
            problem = str(error)
        if problem:
            yield StoreFinding(name, problem)


def _commit_problem(store: Store, name: CommitId) -> str:
    found: StoredCommit | None = store.commits([name]).get(name)
    stone = store.tombstones().get(name)
    if found is None or found.commit.id != (name if stone is None else stone.stand_in):
        return "the commit is not what its name says"
    parent = found.commit.parent
    if parent is not None and not store.commits([parent]):
        return f"its parent {parent} is missing"
    return (
        ""
        if store.names_with_prefix(found.commit.artifact)
        else f"{found.commit.artifact} is missing"
    )


def _artifact_problem(store: Store, name: ArtifactRef) -> str:
    needed: set[str] = set()
    there: set[str] = set()
    if delta := store.deltas([name]):
        messages = store.objects([entry.message for entry in delta[name]])
        needed = {entry.message for entry in delta[name]}
        parts = {part for body in messages.values() for part in needs_of(ObjectKind.MESSAGE, body)}
        there = {*messages, *store.objects(map(commits.Hash, parts))}
        needed |= parts
    elif sequence := store.sequences([name]):
        needed = set(sequence[name])
        there = {other for other in needed if store.names_with_prefix(other)}
    else:
        store.raw(name)
    lacking = sorted(needed - there)
    return f"{', '.join(lacking[:5])} is missing" if lacking else ""
