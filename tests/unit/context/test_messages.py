"""What a few bytes of a store may stand for is bounded, however they repeat each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from harken.context.content import as_deltas, contents_of, read_artifact
from harken.context.history import show
from harken.context.materialize import materialize
from harken.context.messages import MOST_MESSAGES
from harken.context.rendering import render
from harken.core.commits import ArtifactRef, Commit, CommitId, Notes, sequence_of
from harken.core.messages import text_of
from harken.errors import ObjectDamaged
from harken.store.base import Batch, Store
from harken.store.memory import MemoryStore
from tests.unit.context.kit import NOON, commit, texts


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


def artifact_of(store: Store, ctx: CommitId) -> ArtifactRef:
    return show(store, ctx).commit.artifact


def sequence(store: Store, *members: ArtifactRef) -> ArtifactRef:
    ref = sequence_of(members)[0]
    store.write(Batch(sequences={ref: members}))
    return ref


def doubled(store: Store, one: ArtifactRef, times: int) -> ArtifactRef:
    """Return a sequence that stands for an artifact 2 ** times."""
    for _ in range(times):
        one = sequence(store, one, one)
    return one


def commit_of(store: Store, artifact: ArtifactRef) -> CommitId:
    one = Commit(artifact=artifact, created_at=NOON)
    store.write(Batch(commits=[(one, Notes(summary="all of it"))]))
    return one.id


READ: list[Callable[[Store, CommitId], Any]] = [
    lambda store, ctx: materialize(store, ctx).messages,
    lambda store, ctx: render(store, ctx, "narrative-v1"),
    lambda store, ctx: contents_of(store, [show(store, ctx)]),
    lambda store, ctx: as_deltas(store, [show(store, ctx)]),
    lambda store, ctx: read_artifact(store, artifact_of(store, ctx), "events-v1"),
]


@pytest.mark.parametrize("read", READ)
def test_sequences_that_double_each_other_are_refused(
    store: MemoryStore, read: Callable[[Store, CommitId], Any]
) -> None:
    long = artifact_of(store, commit(store, None, *map(str, range(1000))))
    for inner, times in ((long, 12), (long, 60), (sequence(store), 60)):
        with pytest.raises(ObjectDamaged, match="more than"):
            read(store, commit_of(store, doubled(store, inner, times)))


def test_a_long_delta_that_is_named_again_and_again_is_refused(store: MemoryStore) -> None:
    tip = commit(store, None, *["tea"] * 100_000)
    one = show(store, tip).commit
    for at in range(MOST_MESSAGES // 100_000):
        more = Commit(parent=tip, artifact=one.artifact, created_at=NOON, message_count=at)
        store.write(Batch(commits=[(more, Notes(summary="again"))]))
        tip = more.id
    with pytest.raises(ObjectDamaged, match="more than"):
        _ = materialize(store, tip).messages


def test_sequences_may_be_nested_as_deep_as_they_like(store: MemoryStore) -> None:
    one = artifact_of(store, commit(store, None, "Hi", "Tea?"))
    for _ in range(2000):
        one = sequence(store, one)
    ctx = commit_of(store, doubled(store, one, 1))
    assert texts(store, ctx) == ["Hi", "Tea?"] * 2
    said = [
        entry
        for content in contents_of(store, [show(store, ctx)])
        for entry in content.entries or ()
    ]
    assert [text_of(entry.message.content) for entry in said] == ["Hi", "Tea?"] * 2
