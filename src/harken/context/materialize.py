"""`materialize`: build the conversation of a commit, for a new start, a resume and a fork.

A walk from a commit towards the root selects commits, and their deltas, oldest first, are the
conversation. The selection depends on the stop of the walk:

- `compaction`: all up to the nearest compaction or snapshot, which replaces what came before;
- `root`: the deltas alone, so that no message is repeated. A compaction or snapshot without a
  parent is included, because its content is nowhere else;
- a commit: that one, whatever its type, and the deltas after it.

The snapshot with which a subagent begins ends every walk: the subagent did not read what came
before. Commits never change, so neither does the result for a commit and a stop: it is computed
once, and stored as a derived artifact. Messages are read lazily.

Source: docs/formats/store.md.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

import msgspec

from harken.context.commit_content import read_entries
from harken.context.message_reader import read_messages
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
_INITIAL_DEPTH = 16
"""The depth of the first request of a walk, which is doubled in each following one."""


class WalkResult(msgspec.Struct, frozen=True):
    """The result of a walk."""

    ref: ArtifactRef
    """The sequence of the conversation's artifacts, oldest first."""
    message_count: int
    token_count: int


Cache: TypeAlias = MutableMapping[tuple[CommitId, Stop], WalkResult]
"""Completed walks, by commit and stop. They stay valid, whatever is committed later."""


@dataclass(frozen=True)
class MaterializedContext:
    """A complete conversation. Its messages are read from the store lazily."""

    ref: ArtifactRef
    """The sequence under which it is stored."""
    message_count: int
    """The sum of the commits' counts."""
    token_count: int
    store: Store = field(repr=False, compare=False)
    commit_and_stop: tuple[CommitId, Stop] | None = field(default=None, repr=False, compare=False)
    """The commit and the stop of the walk, or None for the empty conversation."""
    artifacts: Sequence[ArtifactRef] | None = field(default=None, repr=False, compare=False)
    """The content of the sequence, if it is known."""

    @cached_property
    def messages(self) -> list[Message]:
        """The messages, oldest first. Bytes are parsed in the format of their commit.

        Raises ObjectNotFound, ObjectCorrupted, StoreError.
        """
        artifacts = self.artifacts
        if artifacts is None:
            artifacts = self.store.sequences([self.ref]).get(self.ref)
        if artifacts is None:
            raise ObjectNotFound("the store", self.ref)
        try:
            return read_messages(self.store, artifacts)
        except ArtifactNotMessages:
            if self.commit_and_stop is None:
                raise
            commits = select_commits(
                self.store, *self.commit_and_stop
            )  # The commits contain the formats of their bytes.
            return [entry.message for entry in read_entries(self.store, commits)]


@check_arguments
def materialize(
    store: Store,
    ctx: CommitId | None,
    stop: Stop = "compaction",
    cache: Cache | None = None,
) -> MaterializedContext:
    """Return the conversation of a commit. A commit of None has an empty conversation.

    The same commit and stop give the same artifact. The walk is done once: later the result is read
    from the store or the cache. Raises NameNotFound if the commit does not exist, or the stop is
    not one of its ancestors; ObjectNotFound, ObjectCorrupted.
    """
    if ctx is None:
        empty = _build_context(store, [])
        if empty.ref not in store.sequences([empty.ref]):
            _write_derived(store, WriteBatch(sequences={empty.ref: []}))
        return empty
    result = None if cache is None else cache.get((ctx, stop))
    if result is None:
        result = _find_derived(store, ctx, stop)
    if result is None:
        context = _compute(store, ctx, stop)
        result = WalkResult(context.ref, context.message_count, context.token_count)
    else:
        counts = result.message_count, result.token_count
        context = MaterializedContext(result.ref, *counts, store, (ctx, stop))
    if cache is not None:
        cache[ctx, stop] = result
    return context


def make_resolver(store: Store, cache: Cache | None = None) -> Resolver:
    """Return a function that materializes the commits that agents of a session started from."""

    def resolve(event: ContextLoaded) -> list[Message]:
        return materialize(store, CommitId(event.ctx), event.stop, cache).messages

    return resolve


def select_commits(store: Store, ctx: CommitId, stop: Stop = "compaction") -> list[StoredCommit]:
    """Return the commits whose artifacts are the conversation, oldest first.

    Raises NameNotFound as `materialize`.
    """
    selected: list[StoredCommit] = []
    for commit in walk(store, ctx):
        is_complete = commit.commit.type != "delta"
        is_end = commit.id == stop or is_spawn(commit) or (is_complete and stop == "compaction")
        if is_end or not is_complete or commit.commit.parent is None:
            selected.append(commit)
        if is_end:
            break
    if stop not in ("compaction", "root") and (not selected or selected[-1].id != stop):
        raise NameNotFound("ancestor commit", stop, (commit.id for commit in selected))
    return selected[::-1]


def walk(store: Store, ctx: CommitId) -> Iterator[StoredCommit]:
    """Yield a commit and its ancestors, newest first, reading in batches of increasing size."""
    name: CommitId | None = ctx
    steps = _INITIAL_DEPTH
    while name is not None:
        commits = store.chain(name, steps)
        yield from commits
        name, steps = commits[-1].commit.parent, steps * 2


def is_spawn(commit: StoredCommit) -> bool:
    """Whether a subagent begins with this commit."""
    return commit.commit.type == "snapshot" and commit.commit.checkpoint == "spawn"


def _build_context(
    store: Store, commits: Sequence[StoredCommit], stop_point: tuple[CommitId, Stop] | None = None
) -> MaterializedContext:
    artifacts = [commit.commit.artifact for commit in commits]
    return MaterializedContext(
        ref=encode_sequence(artifacts)[0],
        message_count=sum(commit.commit.message_count for commit in commits),
        token_count=sum(commit.commit.token_count for commit in commits),
        store=store,
        commit_and_stop=stop_point,
        artifacts=artifacts,
    )


def _compute(store: Store, ctx: CommitId, stop: Stop) -> MaterializedContext:
    """Walk, and store the result as derived."""
    context = _build_context(store, select_commits(store, ctx, stop), (ctx, stop))
    result = WalkResult(context.ref, context.message_count, context.token_count)
    record = canonical.to_canonical_bytes(result)
    refs = (context.ref, hash_raw(record))
    _write_derived(
        store,
        WriteBatch(
            sequences={context.ref: context.artifacts or []},
            raw={hash_raw(record): record},
            derived=dict(zip(_derived_keys(ctx, stop), refs, strict=True)),
        ),
    )
    return context


def _write_derived(store: Store, batch: WriteBatch) -> None:
    """Write a derived artifact. A full disk or a locked store is ignored."""
    with suppress(StoreWriteError, StoreLocked):
        store.write(batch)


def _find_derived(store: Store, ctx: CommitId, stop: Stop) -> WalkResult | None:
    """Return the stored result of an earlier walk, or None if parts of it were collected."""
    keys = _derived_keys(ctx, stop)
    refs = store.find_derived(keys)
    if len(refs) < len(keys):
        return None
    sequence, record = (refs[key] for key in keys)
    try:
        result = msgspec.convert(canonical.from_json(store.raw(record)), WalkResult)
    except (ObjectNotFound, ValueError):
        return None
    return result if result.ref == sequence else None


def _derived_keys(ctx: CommitId, stop: Stop) -> tuple[str, str]:
    """Return the derived keys of the sequence and of the record of a walk."""
    return f"materialized {stop} {ctx}", f"counts of materialized {stop} {ctx}"
