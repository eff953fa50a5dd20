"""Find the commits of a store that are not indexed yet, and read their messages.

A store lists its newest commits first. So the search looks back in growing windows until it reaches
indexed commits; new commits are then read in order, parents before children.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import TypeVar

import apsw
import msgspec

from harken.context.commit_content import read_artifact
from harken.core.commits import ArtifactRef, CommitId, DeltaEntry, Hash, encode_entry
from harken.errors import HarkenError, ObjectCorrupted
from harken.index import database
from harken.index.message_text import (
    MessageText,
    StoredMessageShape,
    decode_shape,
    extract_text,
)
from harken.store.base import Store, StoredCommit

T = TypeVar("T")
_FIRST_WINDOW, _WINDOW_FACTOR = 64, 8
MAX_BATCH_COMMITS, MAX_BATCH_TOKENS = 2000, 2_000_000
"""Maximum size of a batch: number of commits, and their estimated tokens."""


class CommitText(msgspec.Struct, frozen=True):
    """A commit and the text of its messages."""

    stored: StoredCommit
    messages: Sequence[tuple[DeltaEntry, MessageText]]
    outcome: str = ""
    """How its session ended, if the commit has the events of the end of a run."""


def find_indexed(index: apsw.Connection, names: Sequence[CommitId]) -> set[CommitId]:
    """Return those of some commits that an index has, in its table `commits`."""
    blobs = (bytes.fromhex(name[4:]) for name in names)
    rows = database.iter_rows_in(index, "SELECT name FROM commits WHERE name IN", blobs)
    return {CommitId(f"ctx-{name.hex()}") for (name,) in rows}


def find_unread(store: Store, index: apsw.Connection) -> list[CommitId]:
    """Return commits of a store that an index does not have, oldest first."""
    limit = _FIRST_WINDOW
    while True:
        newest = store.newest_commits(limit)
        indexed = find_indexed(index, newest)
        is_all = len(newest) < limit
        if is_all or indexed.issuperset(newest[len(newest) // 2 :]):
            return [name for name in reversed(newest) if name not in indexed]
        limit *= _WINDOW_FACTOR


def iter_batches(store: Store, names: Sequence[CommitId]) -> Iterator[list[StoredCommit]]:
    """Yield commits in order, in batches of limited size."""
    for start in range(0, len(names), MAX_BATCH_COMMITS):
        batch_names = names[start : start + MAX_BATCH_COMMITS]
        stored = store.commits(batch_names)
        batch: list[StoredCommit] = []
        tokens = 0
        for name in batch_names:
            commit = stored.get(name)
            if commit is not None:
                batch.append(commit)
                tokens += commit.commit.token_count
            if tokens > MAX_BATCH_TOKENS:
                yield batch
                batch, tokens = [], 0
        if batch:
            yield batch


def read_commit_texts(store: Store, commits: Sequence[StoredCommit]) -> list[CommitText]:
    """Return the text of commits. Unreadable ones have no messages. Raises StoreError."""
    return read_each(commits, partial(_read_texts, store), lambda commit: CommitText(commit, ()))


def read_each(
    commits: Sequence[StoredCommit],
    read: Callable[[Sequence[StoredCommit]], list[T]],
    create_empty: Callable[[StoredCommit], T],
) -> list[T]:
    """Return what `read` returns for commits: one value each, an empty one for an unreadable one.

    The unreadable ones are found by reading halves. Raises StoreError.
    """
    try:
        return read(commits)
    except ObjectCorrupted:
        if len(commits) == 1:
            return [create_empty(commits[0])]
        half = len(commits) // 2
        return [
            *read_each(commits[:half], read, create_empty),
            *read_each(commits[half:], read, create_empty),
        ]


class BatchContent(msgspec.Struct, frozen=True):
    """The messages of a batch of commits, as stored."""

    entries: Mapping[ArtifactRef, Sequence[DeltaEntry]]
    """By the artifact of a commit."""
    shapes: Mapping[Hash, StoredMessageShape]
    bodies: Mapping[Hash, bytes]
    """Messages and parts."""


def read_content(
    store: Store, commits: Sequence[StoredCommit], roles: Collection[str] | None = None
) -> BatchContent:
    """Read the messages of commits, with the parts of those that have one of `roles`.

    Without `roles` it reads the parts of all. Raises StoreError.
    """
    deltas = store.deltas(dict.fromkeys(commit.commit.artifact for commit in commits))
    own_objects: dict[Hash, bytes] = {}
    for commit in commits:
        if commit.commit.artifact not in deltas:
            deltas[commit.commit.artifact] = _read_other_entries(store, commit, own_objects)
    names = dict.fromkeys(entry.message for entries in deltas.values() for entry in entries)
    bodies = {**store.objects(name for name in names if name not in own_objects), **own_objects}
    shapes = {name: decode_shape(bodies[name]) for name in names if name in bodies}
    parts = dict.fromkeys(
        part
        for shape in shapes.values()
        if roles is None or shape.role in roles
        for part in shape.parts
    )
    bodies |= store.objects(name for name in parts if name not in own_objects)
    return BatchContent(deltas, shapes, bodies)


def _read_texts(store: Store, commits: Sequence[StoredCommit]) -> list[CommitText]:
    content = read_content(store, commits)
    texts = {name: extract_text(shape, content.bodies) for name, shape in content.shapes.items()}
    no_text = MessageText()
    return [
        CommitText(
            commit,
            [
                (delta_entry, texts.get(delta_entry.message, no_text))
                for delta_entry in content.entries[commit.commit.artifact]
            ],
            _read_outcome(store, commit) if commit.commit.checkpoint == "session_end" else "",
        )
        for commit in commits
    ]


def _read_outcome(store: Store, commit: StoredCommit) -> str:
    """Return the status in the last metric event of a commit. It is empty if there is none."""
    from harken.formats.events import NAME, MetricEvent
    from harken.formats.events_v1 import decode_events

    if commit.commit.message_count or commit.commit.format != NAME:
        return ""
    try:
        events = decode_events(store.raw(ArtifactRef(commit.commit.artifact)))
    except HarkenError:
        return ""
    metrics = [event.payload for event in events if isinstance(event.payload, MetricEvent)]
    return next((metric.status for metric in reversed(metrics) if metric.status), "")


def _read_other_entries(
    store: Store, commit: StoredCommit, objects: dict[Hash, bytes]
) -> list[DeltaEntry]:
    """Return the entries of an artifact that is not a delta: a sequence, or foreign bytes."""
    try:
        entries_read = read_artifact(
            store, ArtifactRef(commit.commit.artifact), commit.commit.format
        )
    except HarkenError:
        return []
    entries: list[DeltaEntry] = []
    for message_entry in entries_read:
        entry, entry_objects = encode_entry(
            message_entry.message, time=message_entry.time, source=message_entry.source
        )
        entries.append(entry)
        objects |= entry_objects
    return entries
