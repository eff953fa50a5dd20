"""Verify a store: read and hash every object again. The store is never changed.

Source: docs/formats/store.md, "Checking".
"""

from __future__ import annotations

from collections.abc import Iterator

from harken.core.arguments import check_arguments
from harken.core.commits import ArtifactRef, CommitId
from harken.errors import HarkenError
from harken.store.base import NO_LIMIT, Progress, Store, StoredCommit, StoreFinding
from harken.store.capabilities import CheckedStore
from harken.store.message_check import iter_problems, list_objects, read_bodies
from harken.store.sqlite.check import iter_findings
from harken.store.sqlite.store import SqliteStore

__all__ = ["StoreFinding", "fsck"]


@check_arguments
def fsck(store: Store, on_progress: Progress | None = None) -> list[StoreFinding]:
    """Read everything and return the problems. The list is empty if the store is intact.

    `on_progress` is called with the progress if the store knows it.
    """
    if isinstance(store, CheckedStore):
        return list(store.findings(on_progress))
    if isinstance(store, SqliteStore):
        return list(iter_findings(store, on_progress))
    return list(_verify_by_reading(store))


def _verify_by_reading(store: Store) -> Iterator[StoreFinding]:
    """Verify a store of any kind by reading everything that its names lead to."""
    try:
        names = store.names_with_prefix("", limit=NO_LIMIT)
    except HarkenError as error:
        yield StoreFinding("names", str(error))
        return
    for name in names:
        try:
            if name.startswith("ctx-"):
                problem = _find_commit_problem(store, CommitId(name))
            else:
                problem = _find_artifact_problem(store, ArtifactRef(name))
        except HarkenError as error:
            problem = str(error)
        if problem:
            yield StoreFinding(name, problem)


def _find_commit_problem(store: Store, name: CommitId) -> str:
    stored: StoredCommit | None = store.commits([name]).get(name)
    tombstone = store.tombstones().get(name)
    if stored is None or stored.commit.id != (name if tombstone is None else tombstone.stand_in):
        return "the commit is not what its name says"
    parent = stored.commit.parent
    if parent is not None and not store.commits([parent]):
        return f"its parent {parent} is missing"
    return (
        ""
        if store.names_with_prefix(stored.commit.artifact)
        else f"{stored.commit.artifact} is missing"
    )


def _find_artifact_problem(store: Store, name: ArtifactRef) -> str:
    needed: set[str] = set()
    existing: set[str] = set()
    if delta := store.deltas([name]):
        entries = delta[name]
        bodies = read_bodies(store, entries)
        for message, problem in iter_problems(name, entries, bodies):
            return f"{message}: {problem}"
        needed = {need for entry in entries for need in list_objects(entry, bodies)}
        existing = {*bodies}
    elif sequence := store.sequences([name]):
        needed = set(sequence[name])
        existing = {member for member in needed if store.names_with_prefix(member)}
    else:
        store.raw(name)
    missing = sorted(needed - existing)
    return f"{', '.join(missing[:5])} is missing" if missing else ""
