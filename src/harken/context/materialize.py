"""`materialize`: build the conversation of a commit, for a new start, a resume and a fork.

A walk from a commit towards the root selects commits, and their deltas, oldest first, are the
conversation. The selection depends on the stop of the walk:

- `compaction`: all up to the nearest compaction or snapshot, which replaces what came before;
- `root`: the deltas alone, so that no message is repeated. A compaction or snapshot without a
  parent is included, because its content is nowhere else;
- a commit: that one, whatever its type, and the deltas after it.

The snapshot with which a subagent begins ends every walk: the subagent did not read what came
before. Commits never change, so neither does the result for a commit and a stop: it is computed
once, and stored as a derived artifact. A walk ends early at an ancestor with a stored result, and
the sequence of artifacts shares its beginning with that of the ancestor: what is read and stored
depends on what is new, not on the length of the chain. Messages are read lazily.

Source: docs/formats/store.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TypeAlias

import msgspec

from harken.context.commit_content import read_commit_messages
from harken.context.message_reader import read_messages
from harken.core import canonical
from harken.core.arguments import check_arguments
from harken.core.commits import ArtifactRef, CommitId, hash_raw
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
from harken.store.sequence_tree import SequenceTree, read_artifacts

Stop: TypeAlias = str
"""`compaction`, `root`, or the full name of a commit."""
_INITIAL_DEPTH, _MAX_DEPTH = 16, 8192
"""The depth of the first request of a walk, which is doubled in each following one, and its limit.
"""


class WalkResult(msgspec.Struct, frozen=True):
    """The result of a walk."""

    ref: ArtifactRef
    """The tree of sequences of the conversation's artifacts, oldest first."""
    artifact_count: int
    message_count: int
    token_count: int


Cache: TypeAlias = MutableMapping[tuple[CommitId, Stop], WalkResult]
"""Completed walks, by commit and stop. They stay valid, whatever is committed later."""
_ResultFinder: TypeAlias = Callable[
    [Store, Sequence[CommitId], Stop], Mapping[CommitId, WalkResult]
]
"""Returns stored results of the walks from some of these commits to a stop."""


@dataclass(frozen=True)
class MaterializedContext:
    """A complete conversation. Its messages are read from the store lazily."""

    ref: ArtifactRef
    """The top of the tree of sequences under which it is stored."""
    message_count: int
    """The sum of the commits' counts."""
    token_count: int
    artifact_count: int = field(repr=False, compare=False)
    """The number of artifacts in the tree."""
    store: Store = field(repr=False, compare=False)
    commit_and_stop: tuple[CommitId, Stop] | None = field(default=None, repr=False, compare=False)
    """The commit and the stop of the walk, or None for the empty conversation."""
    artifacts: Sequence[ArtifactRef] | None = field(default=None, repr=False, compare=False)
    """The artifacts in the tree, if the walk passed all of them."""

    @cached_property
    def messages(self) -> list[Message]:
        """The messages, oldest first. Bytes are parsed in the format of their commit.

        Raises ObjectNotFound, ObjectCorrupted, StoreError.
        """
        if self.commit_and_stop is None:
            return []
        artifacts = self.artifacts
        if artifacts is None:
            try:
                artifacts = read_artifacts(self.store, self.ref, self.artifact_count)
            except ObjectNotFound:  # The tree was collected, or could not be written.
                artifacts = None
        if artifacts is not None:
            with suppress(ArtifactNotMessages):
                return read_messages(self.store, artifacts)
        return read_commit_messages(self.store, select_commits(self.store, *self.commit_and_stop))


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
        tree = SequenceTree(store)
        if tree.ref not in store.sequences([tree.ref]):
            _write_derived(store, WriteBatch(sequences=tree.new_sequences()))
        return MaterializedContext(tree.ref, 0, 0, 0, store)
    result = _find_results(store, [ctx], stop, cache).get(ctx)
    artifacts: list[ArtifactRef] | None = None
    if result is None:
        try:
            result, artifacts = _compute(store, ctx, stop, partial(_find_results, cache=cache))
        except ObjectNotFound:  # A sequence of an earlier result was collected.
            result, artifacts = _compute(store, ctx, stop, lambda *_: {})
    if cache is not None:
        cache[ctx, stop] = result
    counts = result.message_count, result.token_count, result.artifact_count
    return MaterializedContext(result.ref, *counts, store, (ctx, stop), artifacts)


def make_resolver(store: Store, cache: Cache | None = None) -> Resolver:
    """Return a function that materializes the commits that agents of a session started from."""

    def resolve(event: ContextLoaded) -> list[Message]:
        return materialize(store, CommitId(event.ctx), event.stop, cache).messages

    return resolve


def select_commits(store: Store, ctx: CommitId, stop: Stop = "compaction") -> list[StoredCommit]:
    """Return the commits whose artifacts are the conversation, oldest first.

    Raises NameNotFound as `materialize`.
    """
    return _select(store, ctx, stop, lambda *_: {}).commits


class _Selection(msgspec.Struct, frozen=True):
    """The selected commits of a walk, oldest first."""

    commits: list[StoredCommit]
    earlier: WalkResult | None
    """The result of the ancestor at which the walk ended, which covers all earlier commits."""


def _select(store: Store, ctx: CommitId, stop: Stop, find_results: _ResultFinder) -> _Selection:
    """Walk until the stop, or an ancestor with a result. Raises NameNotFound as `materialize`."""
    selected: list[StoredCommit] = []
    for batch in _iter_chain(store, ctx):
        results = find_results(store, [commit.id for commit in batch], stop)
        for commit in batch:
            if commit.id in results:
                return _Selection(selected[::-1], results[commit.id])
            is_complete = commit.commit.type != "delta"
            is_end = commit.id == stop or is_spawn(commit) or (is_complete and stop == "compaction")
            if is_end or not is_complete or commit.commit.parent is None:
                selected.append(commit)
            if is_end:
                return _Selection(_check_stop(selected, stop), None)
    return _Selection(_check_stop(selected, stop), None)


def _check_stop(selected: list[StoredCommit], stop: Stop) -> list[StoredCommit]:
    """Return commits, oldest first. Raises NameNotFound if they do not end at the stop."""
    if stop not in ("compaction", "root") and (not selected or selected[-1].id != stop):
        raise NameNotFound("ancestor commit", stop, (commit.id for commit in selected))
    return selected[::-1]


def walk(store: Store, ctx: CommitId) -> Iterator[StoredCommit]:
    """Yield a commit and its ancestors, newest first, reading in batches of increasing size."""
    for batch in _iter_chain(store, ctx):
        yield from batch


def _iter_chain(store: Store, ctx: CommitId) -> Iterator[list[StoredCommit]]:
    name: CommitId | None = ctx
    steps = _INITIAL_DEPTH
    while name is not None:
        commits = store.chain(name, steps)
        yield commits
        name, steps = commits[-1].commit.parent, min(2 * steps, _MAX_DEPTH)


def is_spawn(commit: StoredCommit) -> bool:
    """Whether a subagent begins with this commit."""
    return commit.commit.type == "snapshot" and commit.commit.checkpoint == "spawn"


def _compute(
    store: Store, ctx: CommitId, stop: Stop, find_results: _ResultFinder
) -> tuple[WalkResult, list[ArtifactRef] | None]:
    """Walk, and store the result as derived. Return also the artifacts, if all were passed.

    Raises NameNotFound as `materialize`; ObjectNotFound if a sequence of an earlier result is
    missing.
    """
    selection = _select(store, ctx, stop, find_results)
    artifacts = [commit.commit.artifact for commit in selection.commits]
    earlier = selection.earlier
    if earlier is None:
        tree, message_count, token_count = SequenceTree(store), 0, 0
    else:
        tree = SequenceTree.load(store, earlier.ref, earlier.artifact_count)
        message_count, token_count = earlier.message_count, earlier.token_count
    for artifact in artifacts:
        tree.append(artifact)
    result = WalkResult(
        tree.ref,
        tree.count,
        message_count + sum(commit.commit.message_count for commit in selection.commits),
        token_count + sum(commit.commit.token_count for commit in selection.commits),
    )
    record = canonical.to_canonical_bytes(result)
    record_ref = hash_raw(record)
    _write_derived(
        store,
        WriteBatch(
            sequences=tree.new_sequences(),
            raw={record_ref: record},
            derived={_sequence_key(ctx, stop): tree.ref, _record_key(ctx, stop): record_ref},
        ),
    )
    return result, artifacts if earlier is None else None


def _write_derived(store: Store, batch: WriteBatch) -> None:
    """Write a derived artifact. A full disk or a locked store is ignored."""
    with suppress(StoreWriteError, StoreLocked):
        store.write(batch)


def _find_results(
    store: Store, names: Sequence[CommitId], stop: Stop, cache: Cache | None
) -> dict[CommitId, WalkResult]:
    """Return the result of the first of these commits that has one, if parts are not collected."""
    if cache is not None:
        for name in names:
            if (name, stop) in cache:
                return {name: cache[name, stop]}
    keys = {_sequence_key(name, stop): name for name in names}
    refs = store.find_derived(keys)
    for key in keys if refs else ():
        if key in refs and (result := _read_result(store, keys[key], stop, refs[key])):
            return {keys[key]: result}
    return {}


def _read_result(store: Store, name: CommitId, stop: Stop, ref: ArtifactRef) -> WalkResult | None:
    """Return the stored result of a walk with this sequence. Return None if a part is missing."""
    record_ref = store.find_derived([_record_key(name, stop)]).get(_record_key(name, stop))
    if record_ref is not None:
        with suppress(ObjectNotFound, ValueError):
            record = store.raw(record_ref)
            result = msgspec.convert(canonical.from_json(record), WalkResult)
            if result.ref == ref:
                return result
    return None


def _sequence_key(ctx: CommitId, stop: Stop) -> str:
    """Return the derived key of the sequence of a walk."""
    return f"materialized {stop} {ctx}"


def _record_key(ctx: CommitId, stop: Stop) -> str:
    """Return the derived key of the record of a walk."""
    return f"counts of materialized {stop} {ctx}"
