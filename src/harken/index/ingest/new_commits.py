"""What a store has that is not read yet: its commits since the last time, and what they say.

One idea: a store tells its newest commits first. So one looks back in growing windows until what is
there is known, and reads what is new from its beginning on, parents before their children.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from harken.context.commit_content import read_artifact
from harken.core.commits import ArtifactRef, CommitId, DeltaEntry, Hash, encode_entry
from harken.errors import HarkenError, ObjectCorrupted
from harken.index.message_text import MessageText, extract_text, shape_of
from harken.store.base import Store, StoredCommit

_FIRST, _GROWTH = 64, 8
COMMITS, TOKENS = 2000, 2_000_000
"""So much is read at once, at most: commits, and what they say that they hold."""


@dataclass(frozen=True, slots=True)
class CommitText:
    """A commit, and what is in the messages that it holds."""

    stored: StoredCommit
    messages: Sequence[tuple[DeltaEntry, MessageText]]


def unread(store: Store, known: Callable[[Sequence[CommitId]], set[CommitId]]) -> list[CommitId]:
    """Return the commits of a store that are not known, in the order in which they were written.

    known: returns those of its commits that are.
    """
    limit = _FIRST
    while True:
        newest = store.newest_commits(limit)
        there = known(newest)
        is_all = len(newest) < limit
        if is_all or there.issuperset(newest[len(newest) // 2 :]):
            return [name for name in reversed(newest) if name not in there]
        limit *= _GROWTH


def batches(store: Store, names: Sequence[CommitId]) -> Iterator[list[StoredCommit]]:
    """Yield commits in their order, so many at once as can be read at once."""
    for at in range(0, len(names), COMMITS):
        some = names[at : at + COMMITS]
        found = store.commits(some)
        batch: list[StoredCommit] = []
        tokens = 0
        for name in some:
            one = found.get(name)
            if one is not None:
                batch.append(one)
                tokens += one.commit.token_count
            if tokens > TOKENS:
                yield batch
                batch, tokens = [], 0
        if batch:
            yield batch


def read(store: Store, commits: Sequence[StoredCommit]) -> list[CommitText]:
    """Return what commits say. One whose content cannot be read says nothing. Raises StoreError."""
    try:
        return _read(store, commits)
    except ObjectCorrupted:
        if len(commits) == 1:
            return [CommitText(commits[0], ())]
        half = len(commits) // 2
        return [*read(store, commits[:half]), *read(store, commits[half:])]


def _read(store: Store, commits: Sequence[StoredCommit]) -> list[CommitText]:
    deltas = store.deltas(dict.fromkeys(one.commit.artifact for one in commits))
    own: dict[Hash, bytes] = {}
    for one in commits:
        if one.commit.artifact not in deltas:
            deltas[one.commit.artifact] = _other(store, one, own)
    names = dict.fromkeys(entry.message for entries in deltas.values() for entry in entries)
    bodies = {**store.objects(name for name in names if name not in own), **own}
    shapes = {name: shape_of(bodies[name]) for name in names if name in bodies}
    parts = dict.fromkeys(part for shape in shapes.values() for part in shape.parts)
    bodies |= store.objects(name for name in parts if name not in own)
    said = {name: extract_text(shape, bodies) for name, shape in shapes.items()}
    nothing = MessageText()
    return [
        CommitText(one, [(e, said.get(e.message, nothing)) for e in deltas[one.commit.artifact]])
        for one in commits
    ]


def _other(store: Store, one: StoredCommit, objects: dict[Hash, bytes]) -> list[DeltaEntry]:
    """Return the entries of what is no delta: a sequence, or bytes that may be readable."""
    try:
        said = read_artifact(store, ArtifactRef(one.commit.artifact), one.commit.format)
    except HarkenError:
        return []
    entries: list[DeltaEntry] = []
    for whole in said:
        entry, needed = encode_entry(whole.message, time=whole.time, source=whole.source)
        entries.append(entry)
        objects |= needed
    return entries
