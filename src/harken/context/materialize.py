"""`materialize`: the conversation that a commit stands for. Fresh start, resume and fork are this.

One idea: a walk from a commit towards the root picks commits, and their deltas, oldest first,
are the conversation. Which are picked depends on where the walk stops:

- `compaction`: all up to the nearest compaction or snapshot, which stands for what came before;
- `root`: the deltas alone, so that no message appears twice. What stands for something that is
  nowhere else, a compaction or snapshot without a parent, is kept;
- a commit: that one, whatever its type, and the deltas after it.

The snapshot with which a subagent begins ends every walk: what came before, others saw.
Commits never change, so neither does what a commit and a stop give.

Source: docs/formats/store.md.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from harken.context.content import messages_in
from harken.core.commits import ArtifactRef, CommitId, sequence_of
from harken.core.events import ContextLoaded
from harken.core.messages import Message
from harken.errors import UnknownName
from harken.session.fold import Resolver
from harken.store.base import Batch, Store, Stored

Stop: TypeAlias = str
"""`compaction`, `root`, or the full name of a commit."""
_FIRST_STEPS = 16
"""How many commits a walk asks for first; each time it asks for twice as many."""


@dataclass(frozen=True, slots=True)
class Walked:
    """What a walk picked."""

    artifacts: tuple[ArtifactRef, ...]
    """Oldest first."""
    token_count: int


Cache: TypeAlias = MutableMapping[tuple[CommitId, Stop], Walked]
"""Walks that were done, by commit and stop; they hold for ever, whatever else is committed."""


@dataclass(frozen=True, slots=True)
class Materialized:
    """A whole conversation."""

    ref: ArtifactRef
    """The sequence that it is stored as."""
    messages: list[Message]
    """Oldest first."""
    message_count: int
    token_count: int


def materialize(
    store: Store,
    ctx: CommitId | None,
    stop: Stop = "compaction",
    cache: Cache | None = None,
) -> Materialized:
    """Return the conversation of a commit; None: the empty one, with which all begin.

    The same commit and stop give the same artifact; with a cache, the walk is not done again.
    Raises UnknownName for a commit that is not there, or a stop that is none of those before it;
    ObjectMissing, ObjectDamaged.
    """
    walked = None if cache is None or ctx is None else cache.get((ctx, stop))
    if walked is None:
        walked = Walked((), 0) if ctx is None else _walked(picked(store, ctx, stop))
        ref = sequence_of(walked.artifacts)[0]
        if ref not in store.sequences([ref]):
            store.write(Batch(sequences={ref: walked.artifacts}))
        if cache is not None and ctx is not None:
            cache[ctx, stop] = walked
    messages = messages_in(
        store, walked.artifacts, lambda: [] if ctx is None else picked(store, ctx, stop)
    )
    return Materialized(
        sequence_of(walked.artifacts)[0], messages, len(messages), walked.token_count
    )


def resolver(store: Store, cache: Cache | None = None) -> Resolver:
    """Return what gives a session the messages of commits that its agents started from."""

    def resolve(event: ContextLoaded) -> list[Message]:
        return materialize(store, CommitId(event.ctx), event.stop, cache).messages

    return resolve


def picked(store: Store, ctx: CommitId, stop: Stop = "compaction") -> list[Stored]:
    """Return the commits whose artifacts make up the conversation, oldest first.

    Raises UnknownName as `materialize`.
    """
    found: list[Stored] = []
    for one in walk(store, ctx):
        whole = one.commit.type != "delta"
        ends = one.id == stop or is_spawn(one) or (whole and stop == "compaction")
        if ends or not whole or one.commit.parent is None:
            found.append(one)
        if ends:
            break
    if stop not in ("compaction", "root") and (not found or found[-1].id != stop):
        raise UnknownName(f"commit that {ctx} was built on", stop, (one.id for one in found))
    return found[::-1]


def walk(store: Store, ctx: CommitId) -> Iterator[Stored]:
    """Yield a commit and those before it, newest first, asking for more and more at once."""
    at: CommitId | None = ctx
    steps = _FIRST_STEPS
    while at is not None:
        commits = store.chain(at, steps)
        yield from commits
        at, steps = commits[-1].commit.parent, steps * 2


def is_spawn(one: Stored) -> bool:
    """Whether a subagent begins with this commit."""
    return one.commit.type == "snapshot" and one.commit.checkpoint == "spawn"


def _walked(commits: Sequence[Stored]) -> Walked:
    tokens = sum(one.commit.token_count for one in commits)
    return Walked(tuple(one.commit.artifact for one in commits), tokens)
