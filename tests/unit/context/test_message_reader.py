"""The expansion of small stored objects is bounded, however they reference each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harken.context.commit_content import read_artifact, read_contents, read_delta_entries
from harken.context.history import get_commit
from harken.context.materialize import materialize
from harken.context.message_reader import MAX_MESSAGES
from harken.context.render import render
from harken.core import canonical
from harken.core.commits import (
    ArtifactRef,
    Commit,
    CommitId,
    CommitNotes,
    DeltaEntry,
    Hash,
    encode_delta,
    encode_sequence,
)
from harken.core.messages import Occurrence, text_of
from harken.errors import ObjectCorrupted
from harken.store.base import ObjectKind, Store, WriteBatch
from harken.store.batch import compute_name
from harken.store.memory import MemoryStore
from harken.store.sqlite.store import SqliteStore
from tests.unit.context.kit import NOON, commit, texts


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """Both ways to read: by name and by location."""
    opened_store = (
        MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "store.db")
    )
    yield opened_store
    opened_store.close()


def artifact_of(store: Store, ctx: CommitId) -> ArtifactRef:
    return get_commit(store, ctx).commit.artifact


def sequence(store: Store, *members: ArtifactRef) -> ArtifactRef:
    ref = encode_sequence(members)[0]
    store.write(WriteBatch(sequences={ref: members}))
    return ref


def doubled(store: Store, artifact_ref: ArtifactRef, times: int) -> ArtifactRef:
    """Return a sequence that references an artifact 2 ** times."""
    for _ in range(times):
        artifact_ref = sequence(store, artifact_ref, artifact_ref)
    return artifact_ref


def commit_of(store: Store, artifact: ArtifactRef) -> CommitId:
    first_commit = Commit(artifact=artifact, created_at=NOON)
    store.write(WriteBatch(commits=[(first_commit, CommitNotes(summary="all of it"))]))
    return first_commit.id


HI = {"type": "text", "text": "Hi"}
CALL = {"type": "tool_call", "name": "look", "arguments": "{}", "kind": "function"}


@pytest.mark.parametrize(
    ("role", "part", "occurrence"),
    [
        ("narrator", HI, Occurrence()),
        ("user", {**HI, "text": 5}, Occurrence()),
        ("user", {"type": "song"}, Occurrence()),
        ("user", 5, Occurrence()),
        ("tool", HI, Occurrence()),
        ("tool", {"type": "tool_result", "content": [HI], "is_error": "no"}, Occurrence()),
        ("assistant", {**CALL, "name": 5}, Occurrence(calls=[{"id": "c1"}])),
        ("assistant", CALL, Occurrence(calls=[{"id": 5}])),
        ("assistant", CALL, Occurrence()),
        ("assistant", {**CALL, "kind": 5}, Occurrence(calls=[{"id": "c1"}])),
        ("user", {"type": "image", "media_type": "image/png"}, Occurrence(shape="text")),
        ("user", {**HI, "text": 5}, Occurrence(shape="text", name="Ann")),
    ],
)
def test_invalid_message_is_damage_and_no_crash(
    store: Store, role: str, part: Any, occurrence: Occurrence
) -> None:
    """Stored content may come from any machine: the names of such objects are all valid."""
    bodies = [canonical.to_canonical_bytes(part)]
    names = [compute_name(ObjectKind.PART, bodies[0])]
    bodies.append(canonical.to_canonical_bytes({"role": role, "parts": names}))
    names.append(compute_name(ObjectKind.MESSAGE, bodies[1]))
    entries = [DeltaEntry(Hash(names[1]), occurrence)]
    ref = encode_delta(entries)[0]
    objects = {Hash(name): body for name, body in zip(names, bodies, strict=True)}
    store.write(WriteBatch(objects=objects, deltas={ref: entries}))
    for format_name in ("narrative-v1", "messages-v1"):
        with pytest.raises(ObjectCorrupted, match="does not fit"):
            render(store, commit_of(store, ref), format_name)
    with pytest.raises(ObjectCorrupted, match="does not fit"):
        _ = materialize(store, commit_of(store, ref)).messages


READ: list[Callable[[Store, CommitId], Any]] = [
    lambda store, ctx: materialize(store, ctx).messages,
    lambda store, ctx: render(store, ctx, "narrative-v1"),
    lambda store, ctx: read_contents(store, [get_commit(store, ctx)]),
    lambda store, ctx: read_delta_entries(store, [get_commit(store, ctx)]),
    lambda store, ctx: read_artifact(store, artifact_of(store, ctx), "events-v1"),
]


@pytest.mark.parametrize("read_messages", READ)
def test_exponentially_nested_sequences_are_refused(
    store: Store, read_messages: Callable[[Store, CommitId], Any]
) -> None:
    long = artifact_of(store, commit(store, None, *map(str, range(1000))))
    for inner, times in ((long, 60), (sequence(store), 60)):
        with pytest.raises(ObjectCorrupted, match="more than"):
            read_messages(store, commit_of(store, doubled(store, inner, times)))


def test_repeatedly_referenced_long_delta_is_refused(store: Store) -> None:
    tip = commit(store, None, *["tea"] * 10_000)
    first_commit = get_commit(store, tip).commit
    for round_number in range(MAX_MESSAGES // 10_000):
        next_commit = Commit(
            parent=tip, artifact=first_commit.artifact, created_at=NOON, message_count=round_number
        )
        store.write(WriteBatch(commits=[(next_commit, CommitNotes(summary="again"))]))
        tip = next_commit.id
    with pytest.raises(ObjectCorrupted, match="more than"):
        _ = materialize(store, tip).messages


def test_deeply_nested_sequences_are_read(store: Store) -> None:
    artifact_ref = artifact_of(store, commit(store, None, "Hi", "Tea?"))
    for _ in range(300):
        artifact_ref = sequence(store, artifact_ref)
    ctx = commit_of(store, doubled(store, artifact_ref, 1))
    assert texts(store, ctx) == ["Hi", "Tea?"] * 2
    messages = [
        entry
        for content in read_contents(store, [get_commit(store, ctx)])
        for entry in content.entries or ()
    ]
    assert [text_of(entry.message.content) for entry in messages] == ["Hi", "Tea?"] * 2
