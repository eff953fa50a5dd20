"""Packs whose content does not fit together are refused, also if their checksum is right."""

from __future__ import annotations

import msgspec
import pytest
from blake3 import blake3

from harken.core import canonical
from harken.core.commits import hash_raw
from harken.store.base import ObjectKind, StoredObject
from harken.store.batch import compute_name, validate_batch
from harken.store.sqlite import compression
from harken.store.sqlite.pack import (
    ELSEWHERE,
    FULL_BYTES,
    MARK,
    PLAIN,
    WOVEN,
    ZSTANDARD,
    PackCorrupted,
    decode_objects,
    decode_pack,
    encode_pack,
    encode_packs,
    has_raw_frame,
)
from harken.testing.store import batch_of

PART, MESSAGE, DELTA = ObjectKind.PART, ObjectKind.MESSAGE, ObjectKind.DELTA
RAW = ObjectKind.RAW
X = hash_raw(b"x")


def sealed(form: int, body: bytes) -> bytes:
    """Return a pack with a right checksum."""
    data = bytes([form]) + body
    return blake3(data).digest(8) + data


def inside(
    *,
    outside: bytes = b"",
    kinds: bytes = b"",
    names: bytes = b"",
    leads: list[int] | None = None,
    bodies: list[bytes] | None = None,
) -> bytes:
    return sealed(PLAIN, msgspec.msgpack.encode([outside, kinds, names, leads or [], bodies or []]))


RAW_NAME = bytes.fromhex(X[4:])


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (None, "it has no bytes"),
        (5, "it has no bytes"),
        (b"", "it has no bytes"),
        (bytes(8), "it has no bytes"),
        (bytes(9), "checksum mismatch"),
        (sealed(1, b""), "the unknown form 1"),
        (sealed(4, b""), "the unknown form 4"),
        (sealed(PLAIN, b""), "cannot be opened"),
        (sealed(PLAIN, b"\xc1"), "cannot be opened"),
        (sealed(ZSTANDARD, b"no frame"), "cannot be opened"),
        (inside(kinds=b"\xff", bodies=[b""]), "cannot be opened"),
        (inside(outside=bytes(31)), "its list of names is incomplete"),
        (inside(kinds=bytes([RAW]), names=bytes(31), bodies=[b"x"]), "is incomplete"),
        (inside(kinds=bytes([RAW]), bodies=[b"x"]), "not a name for each artifact"),
        (
            inside(kinds=bytes([RAW]), names=RAW_NAME * 2, bodies=[b"x"]),
            "not a name for each artifact",
        ),
        (inside(kinds=bytes([PART, PART]), bodies=[b"x"]), "cannot be opened"),
        (inside(kinds=bytes([PART]), bodies=[b"x", b"y"]), "cannot be opened"),
        (inside(kinds=bytes([MESSAGE]), bodies=[MARK]), "not as many names as marks"),
        (inside(kinds=bytes([MESSAGE]), leads=[1, 1], bodies=[MARK]), "as many names as marks"),
    ],
)
def test_pack_that_does_not_fit_together_is_damage(data: object, problem: str) -> None:
    with pytest.raises(PackCorrupted, match=problem):
        decode_pack(data)  # type: ignore[arg-type]
    with pytest.raises(PackCorrupted):
        decode_objects(data)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "data",
    [
        inside(kinds=bytes([RAW]), names=bytes(32), bodies=[b"x"]),
        inside(kinds=bytes([MESSAGE]), leads=[-1], bodies=[MARK]),
        inside(kinds=bytes([MESSAGE]), leads=[0], bodies=[MARK]),
        inside(outside=bytes(32), kinds=bytes([MESSAGE]), leads=[-1], bodies=[MARK]),
    ],
)
def test_object_that_cannot_be_read_is_damage(data: bytes) -> None:
    decode_pack(data)
    with pytest.raises(PackCorrupted):
        decode_objects(data)


def test_mark_in_a_part_is_a_part_of_it() -> None:
    assert [*decode_objects(inside(kinds=bytes([PART]), bodies=[MARK])).values()] == [(PART, MARK)]


def test_marks_refer_to_earlier_objects_or_to_other_packs() -> None:
    contents = validate_batch(batch_of("Hi"))
    objects = [*contents.objects.values()]
    pack = encode_pack(objects)
    part, message, delta, _ = range(4)
    assert pack.pack.mark_targets(part) == []
    assert pack.pack.mark_targets(message) == [part]
    assert pack.pack.mark_targets(delta) == [message]
    assert pack.pack.outside_digits() == []
    assert MARK in pack.pack.read_marked_body(message)
    alone = encode_pack(objects[1:])
    assert alone.pack.mark_targets(0) == [ELSEWHERE]
    assert alone.pack.outside_digits() == [objects[0].name]
    for encoded, stored in ((pack, objects), (alone, objects[1:])):
        decoded = decode_pack(encoded.data)
        for position, obj in enumerate(stored):
            assert decoded.read_object(position) == (obj.kind, obj.body)


@pytest.mark.parametrize("size", [compression.SMALL_BYTES - 1, compression.SMALL_BYTES])
def test_raw_bytes_are_stored_behind_the_others_from_a_size_on(size: int) -> None:
    body = bytes(size)
    obj = StoredObject(RAW, hash_raw(body), body)
    pack = encode_pack([obj])
    assert has_raw_frame(pack.data) is (size >= compression.SMALL_BYTES)
    assert pack.data[8] == (WOVEN if size >= compression.SMALL_BYTES else ZSTANDARD)
    assert decode_objects(pack.data) == {obj.name: (RAW, body)}


def test_bytes_that_compression_makes_larger_are_stored_plain() -> None:
    body = bytes(range(256))
    assert encode_pack([StoredObject(RAW, hash_raw(body), body)]).data[8] == PLAIN


def part_of(size: int, number: int) -> StoredObject:
    text = f"{number:06}" + "x" * (size - 6 - len('{"text":"","type":"text"}'))
    body = canonical.to_canonical_bytes({"type": "text", "text": text})
    assert len(body) == size
    return StoredObject(PART, compute_name(PART, body), body)


@pytest.mark.parametrize(("size", "packs"), [(FULL_BYTES // 4, 2), (FULL_BYTES // 4 - 1, 2)])
def test_pack_is_closed_when_it_is_full(size: int, packs: int) -> None:
    encoded = [*encode_packs([part_of(size, number) for number in range(8)])]
    counts = [len(pack.objects) for pack in encoded]
    assert counts == ([4, 4] if size * 4 >= FULL_BYTES else [5, 3])
    assert len(counts) == packs


def test_number_of_objects_in_a_pack_is_limited() -> None:
    bodies = [b"%d" % number for number in range(4001)]
    encoded = encode_packs([StoredObject(RAW, hash_raw(body), body) for body in bodies])
    assert [len(pack.objects) for pack in encoded] == [4000, 1]


def test_kind_of_a_pack_of_raw_bytes_is_known() -> None:
    raw = StoredObject(RAW, X, b"x")
    assert encode_pack([raw]).pack.is_raw
    assert not encode_pack([raw, part_of(40, 1)]).pack.is_raw


def test_names_of_parts_are_computed_when_they_are_requested() -> None:
    contents = validate_batch(batch_of("Hi"))
    objects = [*contents.objects.values()]
    pack = decode_pack(encode_pack(objects).data)
    assert {*pack.places} == {obj.name for obj in objects if obj.kind is DELTA}
    assert pack.name_all(frozenset({PART}))
    assert not pack.name_all(frozenset({PART}))
    assert {*pack.places} == {obj.name for obj in objects if obj.kind in (PART, DELTA)}
    assert pack.name_all(frozenset(ObjectKind))
    assert pack.places == {obj.name: position for position, obj in enumerate(objects)}
