"""A batch is valid by itself: names match content, content is canonical, needs are of their kind."""

from __future__ import annotations

from typing import Any

import pytest

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
    hash_raw,
)
from harken.core.messages import Occurrence
from harken.errors import ObjectCorrupted, ObjectNotFound, ObjectTooLarge
from harken.store.base import ObjectKind, WriteBatch
from harken.store.batch import (
    MAX_OBJECT_BYTES,
    build_file_object,
    compute_name,
    parse_file,
    parse_needs,
    validate_batch,
)
from harken.testing.store import batch_of, commit_in

NOON = "2026-01-31T12:00:00.000000Z"
RAW = hash_raw(b"x")


def part(text: str) -> tuple[Hash, bytes]:
    body = canonical.to_canonical_bytes({"type": "text", "text": text})
    return Hash(compute_name(ObjectKind.PART, body)), body


def commit(**members: Any) -> WriteBatch:
    value = Commit(**{"artifact": RAW, "created_at": NOON, **members})
    return WriteBatch(raw={RAW: b"x"}, commits=[(value, CommitNotes())])


def test_objects_follow_their_needs_beside_each_other() -> None:
    first, second = batch_of("one"), batch_of("two")
    together = WriteBatch(
        objects={**second.objects, **first.objects},
        deltas={**second.deltas, **first.deltas},
        commits=[*first.commits, *second.commits],
    )
    contents = validate_batch(together)
    kinds = [obj.kind for obj in contents.objects.values()]
    expected = [ObjectKind.PART, ObjectKind.MESSAGE, ObjectKind.DELTA, ObjectKind.COMMIT]
    assert kinds == expected * 2
    assert [new.id for new in contents.commits] == [commit_in(first), commit_in(second)]
    for name, obj in contents.objects.items():
        position = [*contents.objects].index(name)
        assert {*obj.needs} <= {*[*contents.objects][:position]}


def test_repeated_commit_is_written_once() -> None:
    batch = commit()
    contents = validate_batch(WriteBatch(raw=batch.raw, commits=[*batch.commits, *batch.commits]))
    assert len(contents.commits) == 1


@pytest.mark.parametrize("excess", [0, 1])
def test_size_of_an_object_is_limited(excess: int) -> None:
    body = bytes(MAX_OBJECT_BYTES + excess)
    batch = WriteBatch(raw={hash_raw(body): body})
    if excess:
        with pytest.raises(ObjectTooLarge) as error:
            validate_batch(batch)
        assert (error.value.size_bytes, error.value.limit_bytes) == (len(body), MAX_OBJECT_BYTES)
    else:
        assert len(validate_batch(batch).objects) == 1


@pytest.mark.parametrize(
    "batch",
    [
        WriteBatch(objects={Hash("0" * 64): part("x")[1]}),
        WriteBatch(raw={RAW: b"y"}),
        WriteBatch(deltas={ArtifactRef(f"art-{'0' * 64}"): []}),
        WriteBatch(sequences={ArtifactRef(f"art-{'0' * 64}"): [RAW]}),
    ],
)
def test_name_of_other_content_is_refused(batch: WriteBatch) -> None:
    with pytest.raises(ObjectCorrupted, match="its content has the name"):
        validate_batch(batch)


@pytest.mark.parametrize(
    "body", [b'{"text": "x","type":"text"}', b'{"type":"text","text":"x"}', b"{", b"\xff", b"01"]
)
def test_object_that_is_not_canonical_is_refused(body: bytes) -> None:
    name = Hash(compute_name(ObjectKind.PART, body))
    with pytest.raises(ObjectCorrupted, match="neither a part nor a canonical message"):
        validate_batch(WriteBatch(objects={name: body}))


@pytest.mark.parametrize(
    "body", [b'{"parts":[1],"role":"user"}', b'{"parts":[],"role":"user","x":1}', b'{"parts":[]}']
)
def test_message_of_another_form_is_refused(body: bytes) -> None:
    name = Hash(compute_name(ObjectKind.MESSAGE, body))
    with pytest.raises(ObjectCorrupted, match="neither a part nor a canonical message"):
        validate_batch(WriteBatch(objects={name: body}))


@pytest.mark.parametrize(
    "members",
    [
        {"created_at": "2026-01-31T12:00:00Z"},
        {"created_at": "2026-01-31T13:00:00.000000+01:00"},
        {"created_at": "noon"},
        {"message_count": True},
        {"message_count": 1.5},
    ],
)
def test_commit_with_an_invalid_member_is_refused(members: dict[str, Any]) -> None:
    with pytest.raises((ValueError, TypeError)):
        validate_batch(commit(**members))


@pytest.mark.parametrize(
    "members",
    [
        {"artifact": ArtifactRef("art-1")},
        {"artifact": ArtifactRef("0" * 64)},
        {"parent": CommitId(RAW)},
        {"parent": CommitId("ctx-1")},
    ],
)
def test_need_that_no_object_can_have_is_refused(members: dict[str, Any]) -> None:
    with pytest.raises(ObjectNotFound):
        validate_batch(commit(**members))


def test_sequence_of_commits_is_refused() -> None:
    members = [ArtifactRef(commit_in(batch_of("x")))]
    sequence = encode_sequence(members)[0]
    with pytest.raises(ObjectNotFound):
        validate_batch(WriteBatch(sequences={sequence: members}))


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_delta_with_a_value_that_is_no_json_is_refused(number: float) -> None:
    entries = [DeltaEntry(Hash("0" * 64), Occurrence(), source={"cost": number})]
    with pytest.raises((ObjectCorrupted, ValueError)):
        validate_batch(WriteBatch(deltas={encode_delta(entries)[0]: entries}))


def test_delta_with_nulls_is_accepted() -> None:
    entries = [DeltaEntry(Hash("0" * 64), Occurrence(), source={"cost": None})]
    assert validate_batch(WriteBatch(deltas={encode_delta(entries)[0]: entries})).objects


def test_file_of_one_chunk_is_that_chunk() -> None:
    contents = validate_batch(WriteBatch(raw={RAW: b"x"}, files={RAW: [RAW]}))
    assert [obj.kind for obj in contents.objects.values()] == [ObjectKind.RAW]
    assert contents.files == {}


def test_file_names_its_chunks_once_each() -> None:
    other, file = hash_raw(b"y"), hash_raw(b"xyx")
    batch = WriteBatch(raw={RAW: b"x", other: b"y"}, files={file: [RAW, other, RAW]})
    contents = validate_batch(batch)
    obj = contents.objects[file]
    assert (obj.kind, obj.needs) == (ObjectKind.FILE, (RAW, other))
    assert contents.files == {file: (RAW, other, RAW)}
    assert parse_file(obj.body).pieces == [RAW, other, RAW]
    assert parse_needs(ObjectKind.FILE, obj.body) == (RAW, other)


@pytest.mark.parametrize("names", [["art-1"], [RAW[4:]], [f"ctx-{RAW[4:]}"], [RAW + "0"]])
def test_file_of_other_names_is_refused(names: list[str]) -> None:
    pieces = [ArtifactRef(name) for name in names]
    with pytest.raises(ObjectNotFound):
        validate_batch(WriteBatch(files={hash_raw(b"xx"): pieces}))
    with pytest.raises(ValueError, match="is not the name of an artifact"):
        parse_file(build_file_object(RAW, pieces).body)
    with pytest.raises(ValueError, match="is not the name of an artifact"):
        parse_file(build_file_object(ArtifactRef(names[0]), [RAW]).body)


def test_deep_chain_of_a_batch_is_ordered() -> None:
    names: list[CommitId] = []
    commits: list[tuple[Commit, CommitNotes]] = []
    for _ in range(3000):
        value = Commit(artifact=RAW, created_at=NOON, parent=names[-1] if names else None)
        commits.append((value, CommitNotes()))
        names.append(value.id)
    contents = validate_batch(WriteBatch(raw={RAW: b"x"}, commits=commits))
    assert [*contents.objects] == [RAW, *names]
