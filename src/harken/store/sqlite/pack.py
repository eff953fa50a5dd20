"""The pack format: the new objects of a batch in one row, compressed together.

Objects that are written together are read together, and small objects compress well only together.
Inside a body, each name is replaced by a mark, which refers to an object a number of positions
earlier, or to a name outside. So a conversation can be read without any names, and the checksum of
the pack proves its integrity. Names follow from the content: only those of artifacts are stored,
since they depend on all their needs; the others are computed on demand. Large raw bytes are stored
behind the other objects.

Raw bytes are in the same frame as the other objects, because messages often repeat parts of the
file that was read. So the raw bytes compress to half the size. They are decompressed only on
demand, since a frame can be decompressed from its beginning up to any position.

Source: docs/formats/store.md, "Packs".
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate
from typing import TypeAlias

import msgspec
from blake3 import blake3

from harken.core import structs
from harken.store.base import ObjectKind, StoredObject
from harken.store.batch import DOMAIN_BY_KIND, PREFIX_BY_KIND, compute_name
from harken.store.sqlite import compression

MIN_RAW_BYTES = compression.SMALL_BYTES
"""Fewer raw bytes are stored among the other objects."""
SIZE_BYTES = 4
"""The size of the length field that replaces raw bytes."""


class RawFrame(msgspec.Struct):
    """The raw bytes of a decoded pack, decompressed on demand. Threads may share it."""

    frame: bytes
    start: int
    """The offset of the raw bytes in the content of the frame."""
    sizes: Mapping[int, int]
    """The position of each raw object in the pack -> its size in bytes."""
    _bodies: dict[int, bytes] = msgspec.field(default_factory=dict)

    def body(self, position: int) -> bytes:
        """Return the raw bytes at a position. Raises DecompressionError."""
        if not self._bodies:
            end, bodies = self.start, {}
            content = compression.decompress_first(self.frame, end + sum(self.sizes.values()))
            for raw_position, size in self.sizes.items():
                bodies[raw_position] = content[end : end + size]
                end += size
            self._bodies = bodies
        return self._bodies[position]


def encode_frame(first: bytes, raws: Sequence[bytes]) -> bytes:
    """Encode the first part and raw bytes as one frame, prefixed with the first part's length."""
    return len(first).to_bytes(4) + compression.compress_parts([first, *raws])


def decode_first(data: bytes) -> bytes:
    """Decode the first part of a frame. Raises DecompressionError."""
    return compression.decompress_first(data[4:], int.from_bytes(data[:4]))


def decode_raw_frame(data: bytes, places: Sequence[int], sizes: Sequence[bytes]) -> RawFrame:
    """Return the raw bytes behind the first part, with positions and sizes from the first part.

    Raises DecompressionError if the frame does not hold as many bytes.
    """
    start = int.from_bytes(data[:4])
    numbers = [int.from_bytes(size) for size in sizes]
    if start + sum(numbers) != compression.read_content_size(data[4:]):
        raise compression.DecompressionError("its content size does not match its header")
    return RawFrame(data[4:], start, dict(zip(places, numbers, strict=True)))


Body: TypeAlias = tuple[ObjectKind, bytes]
CHECKSUM_BYTES = 8
PLAIN, ZSTANDARD, WOVEN = 0, 2, 3
FULL_BYTES = 64 * 1024
"""The size of the bodies at which a pack is closed: reading one object decodes all of its pack."""
_ENOUGH_BYTES, _MAX_BYTES, _MAX_RAW_BYTES = 4 * FULL_BYTES, 16 * FULL_BYTES, 32 * FULL_BYTES
"""The same if raw bytes follow: sufficient and maximum size, and the limit of raw bytes."""
_MAX_OBJECTS = 4000
MARK = b"\x01"  # Canonical JSON has no control characters.
ELSEWHERE = -1

_RUN = b"0" * 64
_DIGITS = bytes(_RUN[0] if byte in b"0123456789abcdef" else 0 for byte in range(256))
_KINDS_WITH_MARKS = frozenset(
    {ObjectKind.MESSAGE, ObjectKind.DELTA, ObjectKind.SEQUENCE, ObjectKind.COMMIT, ObjectKind.FILE}
)
_STORED_NAME_KINDS = frozenset(
    {ObjectKind.DELTA, ObjectKind.SEQUENCE, ObjectKind.RAW, ObjectKind.FILE}
)
_HAS_MARKS, _IS_NAME_STORED = (
    bytes(number in kinds for number in range(256))
    for kinds in (_KINDS_WITH_MARKS, _STORED_NAME_KINDS)
)
"""1 for the number of each kind of these, 0 for others."""
_FEW_NAMES = 4
"""So many names in a body are replaced faster one by one."""


class PackCorrupted(ValueError):
    """A pack is damaged."""


class _Inside(msgspec.Struct, array_like=True):
    outside: bytes
    """Names of objects in other packs, 32 bytes each."""
    kinds: bytes
    names: bytes
    """The names of the artifacts, 32 bytes each."""
    leads: list[int]
    """For each mark in the bodies, in order, the name that it replaces: that of the object so many
    positions earlier, or, of the names outside, 0 for the first and -1 for the next.
    """
    bodies: list[bytes]


class _ArtifactNames(msgspec.Struct, array_like=True):
    """The first members of a pack. Its bodies are skipped."""

    outside: bytes
    kinds: bytes
    names: bytes


class Pack:
    """A decoded pack. Threads may share it."""

    def __init__(
        self, inside: _Inside, digits: Sequence[bytes] = (), woven: bytes | None = None
    ) -> None:
        """Take the known names' `digits`, or none, and the frame of raw bytes (`woven`).

        Raises ValueError, LookupError if the content is invalid.
        """
        self._kinds = [*map(_KINDS.__getitem__, inside.kinds)]
        self._behind: RawFrame | None = None
        if woven is not None:
            raws = [position for position, kind in enumerate(self._kinds) if kind is ObjectKind.RAW]
            self._behind = decode_raw_frame(
                woven, raws, [inside.bodies[position] for position in raws]
            )
        self._bodies, self._leads = inside.bodies, inside.leads
        self._inside = inside
        if not digits:  # A pack that was written in this process needs no check.
            self._starts, self._outside  # noqa: B018 - raises PackCorrupted
        self._digits: list[bytes | None] = [*digits] or _decode_stored_names(inside)
        self._unread_bodies: dict[int, bytes] = {}
        """Bodies that were built for their names, until they are read."""
        pairs = zip(self._kinds, self._digits, strict=True)
        self.places = {
            _PREFIXES[kind] + digits.decode(): position
            for position, (kind, digits) in enumerate(pairs)
            if digits is not None
        }
        """The known full names, and the position of each."""
        self._name_kinds = _STORED_NAME_KINDS
        """The kinds of which all names are known."""

    @cached_property
    def _starts(self) -> list[int]:
        return _starts(self._inside)

    @cached_property
    def _outside(self) -> list[bytes]:
        return _digits(self._inside.outside)

    @property
    def size_bytes(self) -> int:
        """The estimated memory use."""
        raw = 0 if self._behind is None else sum(self._behind.sizes.values())
        return 300 * len(self._bodies) + sum(map(len, self._bodies)) + raw

    @property
    def is_raw(self) -> bool:
        """Whether it holds only raw bytes and files."""
        return all(kind in (ObjectKind.RAW, ObjectKind.FILE) for kind in self._kinds)

    def name_all(self, kinds: frozenset[ObjectKind]) -> bool:
        """Compute the names of all objects of these kinds, and return whether any are new.

        Raises ValueError, LookupError if the objects are invalid.
        """
        if kinds <= self._name_kinds:
            return False
        places: dict[str, int] = {}
        for position, kind in enumerate(self._kinds):
            if kind not in kinds:
                continue
            digits = self._digits[position]
            if digits is None:
                body = self._body(position)
                digits = self._digits[position] = self._hash(kind, body)
                if kind is ObjectKind.COMMIT:  # A walk reads all commits of a pack.
                    self._unread_bodies[position] = body
            places[_PREFIXES[kind] + digits.decode()] = position
        self._name_kinds |= kinds
        self.places = self.places | places  # Not in place: other threads may iterate it.
        return True

    def decode_objects(self) -> dict[str, Body]:
        """Return all objects by names computed from the bytes. Raises PackCorrupted."""
        objects: dict[str, Body] = {}
        for position, kind in enumerate(self._kinds):
            body, stored_digits = self._body(position), self._digits[position]
            if kind is ObjectKind.FILE:
                digits = compute_name(kind, body)[-64:].encode()
            else:
                digits = blake3(DOMAIN_BY_KIND[kind] + body).hexdigest().encode()
            if stored_digits is None:
                self._digits[position] = digits
            elif stored_digits != digits:
                raise PackCorrupted(f"the object {stored_digits.decode()} has another hash")
            objects[_PREFIXES[kind] + digits.decode()] = kind, body
        return objects

    def outside_digits(self) -> list[str]:
        """Return the digits of names of objects in other packs."""
        return [digits.decode() for digits in self._outside]

    def kind(self, position: int) -> ObjectKind:
        """Return the kind of an object."""
        return self._kinds[position]

    def read_object(self, position: int) -> Body:
        """Return the kind and the canonical bytes of an object."""
        body = self._unread_bodies.pop(position, None) if self._unread_bodies else None
        return self._kinds[position], self._body(position) if body is None else body

    def read_marked_body(self, position: int) -> bytes:
        """Return the stored bytes of an object, with marks in place of names."""
        return self._bodies[position]

    def mark_targets(self, position: int) -> list[int]:
        """Return the positions that the marks of an object refer to, or ELSEWHERE."""
        leads = self._leads[self._starts[position] : self._starts[position + 1]]
        return [position - lead if lead > 0 else ELSEWHERE for lead in leads]

    def _body(self, position: int) -> bytes:
        start, end = self._starts[position], self._starts[position + 1]
        if self._behind is not None and self._kinds[position] is ObjectKind.RAW:
            return self._behind.body(position)
        if start == end:
            return self._bodies[position]
        body = self._bodies[position]
        names = [
            self._name(position - lead) if lead > 0 else self._outside[-lead]
            for lead in self._leads[start:end]
        ]
        if len(names) <= _FEW_NAMES:
            for name in names:
                body = body.replace(MARK, name, 1)
            return body
        pieces = body.split(MARK)
        pieces_and_names = [b""] * (len(pieces) + len(names))
        pieces_and_names[::2], pieces_and_names[1::2] = pieces, names
        return b"".join(pieces_and_names)

    def _name(self, position: int) -> bytes:
        """Return the digits of the name at a position."""
        digits = self._digits[position]
        return self._compute_names_to(position) if digits is None else digits

    def _compute_names_to(self, last: int) -> bytes:
        """Compute the unknown names in order, since an object needs only earlier ones."""
        for position, digits in enumerate(self._digits[: last + 1]):
            if digits is None:
                self._digits[position] = self._hash(self._kinds[position], self._body(position))
        digits = self._digits[last]
        assert digits is not None
        return digits

    @staticmethod
    def _hash(kind: ObjectKind, body: bytes) -> bytes:
        """Return the digits of the name of an object."""
        return blake3(DOMAIN_BY_KIND[kind] + body).digest().hex().encode()


class EncodedPack(msgspec.Struct, frozen=True):
    """The bytes of a pack, and its content."""

    data: bytes
    pack: Pack
    objects: Mapping[str, Body]


def encode_packs(objects: Collection[StoredObject]) -> Iterator[EncodedPack]:
    """Encode objects, each after its needs, into packs of limited size.

    A pack is kept open longer if raw bytes follow, since they share text with the objects before
    them.
    """
    raw_count = sum(obj.kind is ObjectKind.RAW for obj in objects)
    pack_objects: list[StoredObject] = []
    size = raw_bytes = 0
    for obj in objects:
        pack_objects.append(obj)
        if obj.kind is ObjectKind.RAW:
            raw_count -= 1
            raw_bytes += len(obj.body)
            is_full = raw_bytes >= _MAX_RAW_BYTES or size >= _ENOUGH_BYTES
        else:
            size += len(obj.body)
            is_full = size >= (_MAX_BYTES if raw_count else FULL_BYTES)
        if is_full or len(pack_objects) >= _MAX_OBJECTS:
            yield encode_pack(pack_objects)
            pack_objects, size, raw_bytes = [], 0, 0
    if pack_objects:
        yield encode_pack(pack_objects)


def encode_pack(objects: Sequence[StoredObject]) -> EncodedPack:
    """Encode objects with distinct names as one pack."""
    digits = [obj.name[-64:].encode() for obj in objects]
    positions = {name: position for position, name in enumerate(digits)}
    outside: dict[bytes, int] = {}
    leads: list[int] = []
    bodies: list[bytes] = []
    for position, obj in enumerate(objects):
        body = obj.body
        if obj.kind in _KINDS_WITH_MARKS:
            pieces, names = _split_names(body)
            body = MARK.join(pieces)
            for name in names:
                distance = position - positions.get(name, position)
                leads.append(distance if distance > 0 else -outside.setdefault(name, len(outside)))
        bodies.append(body)
    stored_names = [
        name for name, obj in zip(digits, objects, strict=True) if obj.kind in _STORED_NAME_KINDS
    ]
    inside = _Inside(
        outside=bytes.fromhex(b"".join(outside).decode()),
        kinds=bytes([obj.kind for obj in objects]),
        names=bytes.fromhex(b"".join(stored_names).decode()),
        leads=leads,
        bodies=bodies,
    )
    raws = [obj.body for obj in objects if obj.kind is ObjectKind.RAW]
    data = (
        _encode_with_raw(inside, raws) if sum(map(len, raws)) >= MIN_RAW_BYTES else _encode(inside)
    )
    return EncodedPack(data, Pack(inside, digits), {t.name: (t.kind, t.body) for t in objects})


def _split_names(body: bytes) -> tuple[list[bytes], list[bytes]]:
    """Return the text around names in a body, and the names.

    Equivalent to a regular expression for runs of 64 digits, from left to right, and ten times as
    fast, since most of a body is not names.
    """
    pieces, names = [], []
    masked, start = body.translate(_DIGITS), 0
    while (index := masked.find(_RUN, start)) >= 0:
        pieces.append(body[start:index])
        start = index + len(_RUN)
        names.append(body[index:start])
    pieces.append(body[start:])
    return pieces, names


def decode_pack(data: bytes) -> Pack:
    """Decode a pack. Raises PackCorrupted."""
    content, woven = _decompress(data)
    try:
        return Pack(_inside_decoder.decode(content), woven=woven)
    except (ValueError, LookupError) as error:
        raise PackCorrupted(f"it cannot be opened: {error}") from None


def decode_artifact_kinds(data: bytes) -> dict[str, ObjectKind]:
    """Return the names of the artifacts in a pack, with their kinds. Raises PackCorrupted.

    The checksum proves the integrity of all objects, but none is decoded.
    """
    content, _ = _decompress(data)
    try:
        head = _artifact_names_decoder.decode(content)
        kinds = [kind for number in head.kinds if (kind := _KINDS[number]) in _STORED_NAME_KINDS]
        digits = map(bytes.decode, _digits(head.names))
        return {f"art-{name}": kind for name, kind in zip(digits, kinds, strict=True)}
    except (ValueError, LookupError) as error:
        raise PackCorrupted(f"it cannot be opened: {error}") from None


def _decompress(data: bytes) -> tuple[bytes, bytes | None]:
    """Return the content of a pack, and its frame if raw bytes are behind the other objects.

    Raises PackCorrupted.
    """
    # A damaged table may return any value.
    if not isinstance(data, bytes) or len(data) <= CHECKSUM_BYTES:
        raise PackCorrupted("it has no bytes")
    if blake3(data[CHECKSUM_BYTES:]).digest(CHECKSUM_BYTES) != data[:CHECKSUM_BYTES]:
        raise PackCorrupted("checksum mismatch")
    form, body = data[CHECKSUM_BYTES], data[CHECKSUM_BYTES + 1 :]
    try:
        if form == ZSTANDARD:
            return compression.decompress(body), None
        if form == WOVEN:
            return decode_first(body), body
        if form == PLAIN:
            return body, None
    except (ValueError, LookupError) as error:
        raise PackCorrupted(f"it cannot be opened: {error}") from None
    raise PackCorrupted(f"it has the unknown form {form}")


def decode_objects(data: bytes) -> dict[str, Body]:
    """Decode a pack and compute all names: name -> (kind, body). Raises PackCorrupted."""
    try:
        return decode_pack(data).decode_objects()
    except (ValueError, LookupError) as error:
        raise PackCorrupted(str(error)) from None


def has_raw_frame(data: bytes) -> bool:
    """Whether a pack has raw bytes behind the other objects, which older versions cannot read."""
    return data[CHECKSUM_BYTES] == WOVEN


def _encode(inside: _Inside) -> bytes:
    content = msgspec.msgpack.encode(inside)
    compressed = compression.compress(content)
    body = (
        bytes([ZSTANDARD]) + compressed
        if len(compressed) < len(content)
        else bytes([PLAIN]) + content
    )
    return blake3(body).digest(CHECKSUM_BYTES) + body


def _encode_with_raw(inside: _Inside, raws: Sequence[bytes]) -> bytes:
    bodies = [
        len(body).to_bytes(SIZE_BYTES) if kind == ObjectKind.RAW else body
        for kind, body in zip(inside.kinds, inside.bodies, strict=True)
    ]
    first = msgspec.msgpack.encode(structs.replace(inside, bodies=bodies))
    body = bytes([WOVEN]) + encode_frame(first, raws)
    return blake3(body).digest(CHECKSUM_BYTES) + body


def _digits(names: bytes) -> list[bytes]:
    """Split concatenated names into hex digits. Raises PackCorrupted for a partial name."""
    if len(names) % 32:
        raise PackCorrupted("its list of names is incomplete")
    digits = names.hex().encode()
    return [digits[start : start + 64] for start in range(0, len(digits), 64)]


def _decode_stored_names(inside: _Inside) -> list[bytes | None]:
    """Return the stored name of each object. Raises PackCorrupted if their number is wrong."""
    names, is_stored = _digits(inside.names), inside.kinds.translate(_IS_NAME_STORED)
    if len(names) != sum(is_stored):
        raise PackCorrupted("it has not a name for each artifact")
    remaining = iter(names)
    return [next(remaining) if is_name else None for is_name in is_stored]


def _starts(inside: _Inside) -> list[int]:
    """Return the index of the first lead of each object.

    Raises PackCorrupted if the count is wrong.
    """
    have_marks = inside.kinds.translate(_HAS_MARKS)
    counts = [
        body.count(MARK) if has_marks else 0
        for has_marks, body in zip(have_marks, inside.bodies, strict=True)
    ]
    starts = list(accumulate(counts, initial=0))
    if starts[-1] != len(inside.leads):
        raise PackCorrupted("it has not as many names as marks")
    return starts


_inside_decoder = msgspec.msgpack.Decoder(_Inside)
_artifact_names_decoder = msgspec.msgpack.Decoder(_ArtifactNames)
_KINDS = {kind.value: kind for kind in ObjectKind}
_PREFIXES = {kind: PREFIX_BY_KIND.get(kind, "") for kind in ObjectKind}
