"""`materialize`: the conversation that a commit stands for. Fresh start, resume and fork are this.

One idea: a walk from a commit towards the root picks commits, and their deltas, oldest first,
are the conversation. Which are picked depends on where the walk stops:

- `compaction`: all up to the nearest compaction or snapshot, which stands for what came before;
- `root`: the deltas alone, so that no message appears twice. What stands for something that is
  nowhere else, a compaction or snapshot without a parent, is kept;
- a commit: that one, whatever its type, and the deltas after it.

The snapshot with which a subagent begins ends every walk: what came before, others saw.
Commits never change, so neither does what a commit and a stop give: it is walked once, and kept
in the store as what can be made again. Nothing reads the messages before somebody asks for them.

Source: docs/formats/store.md.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

import msgspec

from harken.context.commit_content import entries_in
from harken.context.message_reader import read
from harken.core import canonical
from harken.core.arguments import check_arguments
from harken.core.commits import ArtifactRef, CommitId, encode_sequence, hash_raw
from harken.core.events import ContextLoaded
from harken.core.messages import Message
from harken.errors import (
    ArtifactNotMessages,
    NameNotFound,
    ObjectNotFound,
    StoreLocked,
    StoreWriteError,
)
from harken.session.fold import Resolver
from harken.store.base import Store, StoredCommit, WriteBatch

Stop: TypeAlias = str
"""`compaction`, `root`, or the full name of a commit."""
_FIRST_STEPS = 16
"""How many commits a walk asks for first; each time it asks for twice as many."""


class WalkResult(msgspec.Struct, frozen=True):
    """What a walk came to."""

    ref: ArtifactRef
    """The sequence of the artifacts that make up the conversation, oldest first."""
    message_count: int
    token_count: int


Cache: TypeAlias = MutableMapping[tuple[CommitId, Stop], WalkResult]
"""Walks that were done, by commit and stop; they hold for ever, whatever else is committed."""


@dataclass(frozen=True)
class MaterializedContext:
    """A whole conversation. It is read from the store when somebody asks for the messages."""

    ref: ArtifactRef
    """The sequence that it is stored as."""
    message_count: int
    """As the commits say."""
    token_count: int
    store: Store = field(repr=False, compare=False)
    asked: tuple[CommitId, Stop] | None = field(default=None, repr=False, compare=False)
    """Whose conversation it is, and up to where; None: the empty one."""
    known: Sequence[ArtifactRef] | None = field(default=None, repr=False, compare=False)
    """What the sequence names, where that is known already."""

    @cached_property
    def messages(self) -> list[Message]:
        """Oldest first; bytes are read by the format of their commit.

        Raises ObjectNotFound, ObjectCorrupted, StoreError.
        """
        artifacts = self.known
        if artifacts is None:
            artifacts = self.store.sequences([self.ref]).get(self.ref)
        if artifacts is None:
            raise ObjectNotFound("the store", self.ref)
        try:
            return read(self.store, artifacts)
        except ArtifactNotMessages:
            if self.asked is None:
                raise
            commits = select_commits(
                self.store, *self.asked
            )  # which say the formats of their bytes
            return [entry.message for entry in entries_in(self.store, commits)]


@check_arguments
def materialize(
    store: Store,
    ctx: CommitId | None,
    stop: Stop = "compaction",
    cache: Cache | None = None,
) -> MaterializedContext:
    """Return the conversation of a commit; None: the empty one, with which all begin.

    The same commit and stop give the same artifact. The walk is done once: later the store says
    what it came to, and a cache does so without being asked. Raises NameNotFound for a commit that
    is not there, or a stop that is none of those before it; ObjectNotFound, ObjectCorrupted.
    """
    if ctx is None:
        empty = _summed(store, [])
        if empty.ref not in store.sequences([empty.ref]):
            _keep(store, WriteBatch(sequences={empty.ref: []}))
        return empty
    found = None if cache is None else cache.get((ctx, stop))
    if found is None:
        found = _derived(store, ctx, stop)
    if found is None:
        whole = _walked(store, ctx, stop)
        found = WalkResult(whole.ref, whole.message_count, whole.token_count)
    else:
        counts = found.message_count, found.token_count
        whole = MaterializedContext(found.ref, *counts, store, (ctx, stop))
    if cache is not None:
        cache[ctx, stop] = found
    return whole


def resolver(store: Store, cache: Cache | None = None) -> Resolver:
    """Return what gives a session the messages of commits that its agents started from."""

    def resolve(event: ContextLoaded) -> list[Message]:
        return materialize(store, CommitId(event.ctx), event.stop, cache).messages

    return resolve


def select_commits(store: Store, ctx: CommitId, stop: Stop = "compaction") -> list[StoredCommit]:
    """Return the commits whose artifacts make up the conversation, oldest first.

    Raises NameNotFound as `materialize`.
    """
    found: list[StoredCommit] = []
    for one in walk(store, ctx):
        whole = one.commit.type != "delta"
        ends = one.id == stop or is_spawn(one) or (whole and stop == "compaction")
        if ends or not whole or one.commit.parent is None:
            found.append(one)
        if ends:
            break
    if stop not in ("compaction", "root") and (not found or found[-1].id != stop):
        raise NameNotFound(f"commit that {ctx} was built on", stop, (one.id for one in found))
    return found[::-1]


def walk(store: Store, ctx: CommitId) -> Iterator[StoredCommit]:
    """Yield a commit and those before it, newest first, asking for more and more at once."""
    at: CommitId | None = ctx
    steps = _FIRST_STEPS
    while at is not None:
        commits = store.chain(at, steps)
        yield from commits
        at, steps = commits[-1].commit.parent, steps * 2


def is_spawn(one: StoredCommit) -> bool:
    """Whether a subagent begins with this commit."""
    return one.commit.type == "snapshot" and one.commit.checkpoint == "spawn"


def _summed(
    store: Store, commits: Sequence[StoredCommit], asked: tuple[CommitId, Stop] | None = None
) -> MaterializedContext:
    artifacts = [one.commit.artifact for one in commits]
    return MaterializedContext(
        ref=encode_sequence(artifacts)[0],
        message_count=sum(one.commit.message_count for one in commits),
        token_count=sum(one.commit.token_count for one in commits),
        store=store,
        asked=asked,
        known=artifacts,
    )


def _walked(store: Store, ctx: CommitId, stop: Stop) -> MaterializedContext:
    """Walk, and have the store remember what that came to."""
    whole = _summed(store, select_commits(store, ctx, stop), (ctx, stop))
    walked = WalkResult(whole.ref, whole.message_count, whole.token_count)
    record = canonical.to_canonical_bytes(walked)
    made = (whole.ref, hash_raw(record))
    _keep(
        store,
        WriteBatch(
            sequences={whole.ref: whole.known or []},
            raw={hash_raw(record): record},
            derived=dict(zip(_keys(ctx, stop), made, strict=True)),
        ),
    )
    return whole


def _keep(store: Store, made: WriteBatch) -> None:
    """Write what can be made again; it is not worth a failure."""
    with suppress(StoreWriteError, StoreLocked):
        store.write(made)


def _derived(store: Store, ctx: CommitId, stop: Stop) -> WalkResult | None:
    """Return what an earlier walk came to, if the store still has that, and the commit."""
    keys = _keys(ctx, stop)
    found = store.find_derived(keys)
    if len(found) < len(keys):
        return None
    sequence, record = (found[key] for key in keys)
    try:
        walked = msgspec.convert(canonical.from_json(store.raw(record)), WalkResult)
    except (ObjectNotFound, ValueError):
        return None
    return walked if walked.ref == sequence else None


def _keys(ctx: CommitId, stop: Stop) -> tuple[str, str]:
    """Return the keys of the sequence that a walk came to, and of what else is known of it."""
    return f"materialized {stop} {ctx}", f"counts of materialized {stop} {ctx}"
