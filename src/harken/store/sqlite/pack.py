"""Packs: the new things of a batch as one row, compressed together.

One idea: what is written together is read together, and small things compress only in company.
Inside a body a mark stands for each name: of a thing so many places earlier, or of one outside. So
a conversation can be read without any names, and the sum of the pack says that it is whole. Names
follow from the content: only those of artifacts are kept, since they depend on all below them; the
others are computed when somebody asks for one. Raw bytes, if they are many, stand behind the rest.

Source: docs/formats/store.md, "Packs".

Raw bytes behind the other things of a pack, in one frame with them.

One idea: what was read from a file says much of what the file says. So the file's bytes are
compressed with that in view, and take half the room; and they are opened only when somebody asks
for them, since a frame can be opened from its beginning up to any place.

Source: docs/formats/store.md, "Packs".
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TypeAlias

import msgspec
from blake3 import blake3

from harken.store.base import ObjectKind, StoredObject
from harken.store.batch import DOMAINS, PREFIXES, name_of
from harken.store.sqlite import compression

LEAST_BYTES = compression.SMALL
"""Less raw bytes stand among the other things."""


SIZE_BYTES = 4
"""In place of raw bytes stands how many they are."""


@dataclass(slots=True)
class RawFrame:
    """The raw bytes of a pack that was opened. Threads may share it."""

    frame: bytes
    start: int
    """Where they begin in what the frame holds."""
    sizes: Mapping[int, int]
    """The place of each among the things -> how many bytes it has."""
    _bodies: dict[int, bytes] = field(default_factory=dict)

    def body(self, at: int) -> bytes:
        """Return the raw bytes at a place. Raises compression.Unopened."""
        if not self._bodies:
            end, found = self.start, {}
            whole = compression.unwoven(self.frame, end + sum(self.sizes.values()))
            for place, size in self.sizes.items():
                found[place] = whole[end : end + size]
                end += size
            self._bodies = found
        return self._bodies[at]


def closed(first: bytes, raws: Sequence[bytes]) -> bytes:
    """Return one frame of what stands first and of raw bytes, and where these begin."""
    return len(first).to_bytes(4) + compression.woven([first, *raws])


def first_of(data: bytes) -> bytes:
    """Return what stands first. Raises compression.Unopened."""
    return compression.unwoven(data[4:], int.from_bytes(data[:4]))


def behind(data: bytes, places: Sequence[int], sizes: Sequence[bytes]) -> RawFrame:
    """Return what stands behind that: at which places, and how long, as the first part says.

    Raises compression.Unopened where the frame does not hold so many bytes.
    """
    start = int.from_bytes(data[:4])
    numbers = [int.from_bytes(size) for size in sizes]
    if start + sum(numbers) != compression.size_of(data[4:]):
        raise compression.DecompressionError("it does not hold as many raw bytes as it says")
    return RawFrame(data[4:], start, dict(zip(places, numbers, strict=True)))


Body: TypeAlias = tuple[ObjectKind, bytes]
SUM_BYTES = 8
PLAIN, ZSTANDARD, WOVEN = 0, 2, 3
LARGE = 64 * 1024
"""A pack is closed when its bodies have so many bytes: reading one thing opens all of the pack."""
_MUCH, _MOST, _MOST_RAW = 4 * LARGE, 16 * LARGE, 32 * LARGE
"""The same where raw bytes follow: enough, and the most; and so many raw bytes."""
_MANY = 4000
MARK = b"\x01"  # canonical JSON has no control characters
ELSEWHERE = -1

_RUN = b"0" * 64
_DIGITS = bytes(_RUN[0] if byte in b"0123456789abcdef" else 0 for byte in range(256))
_MARKED = frozenset(
    {ObjectKind.MESSAGE, ObjectKind.DELTA, ObjectKind.SEQUENCE, ObjectKind.COMMIT, ObjectKind.FILE}
)
_KEPT = frozenset({ObjectKind.DELTA, ObjectKind.SEQUENCE, ObjectKind.RAW, ObjectKind.FILE})


class PackCorrupted(ValueError):
    """A pack is not what it was when it was written."""


class _Inside(msgspec.Struct, array_like=True):
    outside: bytes
    """Names of things elsewhere, 32 bytes each."""
    kinds: bytes
    names: bytes
    """Of the artifacts, 32 bytes each."""
    leads: list[int]
    """For each mark in the bodies, in order, which name stands there: of the thing so many before
    the one that has the mark, or, of what is outside, 0 for the first name and -1 for the next."""
    bodies: list[bytes]


class Pack:
    """A pack that was opened. Threads may share it."""

    def __init__(
        self, inside: _Inside, digits: Sequence[bytes] = (), woven: bytes | None = None
    ) -> None:
        """`digits`: of the names of all things, where they are known; `woven`: raw bytes behind.

        Raises ValueError, LookupError where it is no pack.
        """
        self._kinds = [_KINDS[number] for number in inside.kinds]
        self._behind: RawFrame | None = None
        if woven is not None:
            raws = [at for at, kind in enumerate(self._kinds) if kind is ObjectKind.RAW]
            self._behind = behind(woven, raws, [inside.bodies[at] for at in raws])
        self._bodies, self._leads = inside.bodies, inside.leads
        self._outside = _digits(inside.outside)
        self._starts = _starts(self._kinds, inside)
        self._digits: list[bytes | None] = [*digits] or self._kept(inside.names)
        self.places: dict[str, int] = {}
        """Full names, as far as they are known, and which thing has each."""
        self._named = _KEPT
        """Of which kinds all names are known."""
        self._enter()

    @property
    def size_bytes(self) -> int:
        """How much memory it takes, about."""
        raw = 0 if self._behind is None else sum(self._behind.sizes.values())
        return 300 * len(self._bodies) + sum(map(len, self._bodies)) + raw

    @property
    def is_raw(self) -> bool:
        """Whether it holds pieces of files and nothing else."""
        return all(kind in (ObjectKind.RAW, ObjectKind.FILE) for kind in self._kinds)

    def name_all(self, kinds: frozenset[ObjectKind]) -> bool:
        """Compute the names of all things of these kinds; return whether there are new ones now.

        Raises ValueError, LookupError where things cannot be put together.
        """
        if kinds <= self._named:
            return False
        for at, kind in enumerate(self._kinds):
            if kind in kinds and self._digits[at] is None:
                self._digits[at] = self._hash(at)
        self._named |= kinds
        self._enter()
        return True

    def things(self) -> dict[str, Body]:
        """Return everything, every name computed from the bytes. Raises Damaged."""
        found: dict[str, Body] = {}
        for at, kind in enumerate(self._kinds):
            body, known = self._body(at), self._digits[at]
            if kind is ObjectKind.FILE:
                digits = name_of(kind, body)[-64:].encode()
            else:
                digits = blake3(DOMAINS[kind] + body).hexdigest().encode()
            if known is None:
                self._digits[at] = digits
            elif known != digits:
                raise PackCorrupted(f"what it has as {known.decode()} is something else")
            found[_PREFIXES[kind] + digits.decode()] = kind, body
        return found

    def outside(self) -> list[str]:
        """Return the digits of names that stand here, of things that do not."""
        return [digits.decode() for digits in self._outside]

    def kind(self, at: int) -> ObjectKind:
        """Return what a thing is."""
        return self._kinds[at]

    def thing(self, at: int) -> Body:
        """Return what a thing is, and its canonical bytes."""
        return self._kinds[at], self._body(at)

    def marked(self, at: int) -> bytes:
        """Return the bytes of a thing, with marks in place of names."""
        return self._bodies[at]

    def led(self, at: int) -> list[int]:
        """Return which things the marks of a thing stand for, in order; ELSEWHERE: none of here."""
        leads = self._leads[self._starts[at] : self._starts[at + 1]]
        return [at - lead if lead > 0 else ELSEWHERE for lead in leads]

    def _body(self, at: int) -> bytes:
        start, end = self._starts[at], self._starts[at + 1]
        if self._behind is not None and self._kinds[at] is ObjectKind.RAW:
            return self._behind.body(at)
        if start == end:
            return self._bodies[at]
        pieces = self._bodies[at].split(MARK)
        names = [
            self._name(at - lead) if lead > 0 else self._outside[-lead]
            for lead in self._leads[start:end]
        ]
        whole = [b""] * (len(pieces) + len(names))
        whole[::2], whole[1::2] = pieces, names
        return b"".join(whole)

    def _name(self, at: int) -> bytes:
        """Return the digits of a name."""
        found = self._digits[at]
        return self._name_up_to(at) if found is None else found

    def _name_up_to(self, last: int) -> bytes:
        """Compute the names that are not known, in order: a thing needs only earlier ones."""
        for at, found in enumerate(self._digits[: last + 1]):
            if found is None:
                self._digits[at] = self._hash(at)
        found = self._digits[last]
        assert found is not None
        return found

    def _hash(self, at: int) -> bytes:
        kind, body = self._kinds[at], self._body(at)
        return blake3(DOMAINS[kind] + body).hexdigest().encode()

    def _kept(self, names: bytes) -> list[bytes | None]:
        """Return the names that were kept. Raises Damaged where they are too few, or too many."""
        kept = _digits(names)
        if len(kept) != sum([kind in _KEPT for kind in self._kinds]):
            raise PackCorrupted("it has not a name for each artifact")
        left = iter(kept)
        return [next(left) if kind in _KEPT else None for kind in self._kinds]

    def _enter(self) -> None:
        known = zip(self._kinds, self._digits, strict=True)
        self.places = {
            _PREFIXES[kind] + digits.decode(): at
            for at, (kind, digits) in enumerate(known)
            if digits is not None
        }


@dataclass(frozen=True, slots=True)
class EncodedPack:
    """The bytes of a pack, and what is in it."""

    data: bytes
    pack: Pack
    things: Mapping[str, Body]


def packs_of(things: Collection[StoredObject]) -> Iterator[EncodedPack]:
    """Pack things, those that others need before them; each pack is of a bearable size.

    Where raw bytes are to come, a pack waits for them longer: they share what is before them.
    """
    to_come = sum(thing.kind is ObjectKind.RAW for thing in things)
    now: list[StoredObject] = []
    size = raw = 0
    for thing in things:
        now.append(thing)
        if thing.kind is ObjectKind.RAW:
            to_come -= 1
            raw += len(thing.body)
            is_full = raw >= _MOST_RAW or size >= _MUCH
        else:
            size += len(thing.body)
            is_full = size >= (_MOST if to_come else LARGE)
        if is_full or len(now) >= _MANY:
            yield packed(now)
            now, size, raw = [], 0, 0
    if now:
        yield packed(now)


def packed(things: Sequence[StoredObject]) -> EncodedPack:
    """Pack things as one. No two of them have one name."""
    digits = [thing.name[-64:].encode() for thing in things]
    own = {name: at for at, name in enumerate(digits)}
    outside: dict[bytes, int] = {}
    leads: list[int] = []
    bodies: list[bytes] = []
    for at, thing in enumerate(things):
        body = thing.body
        if thing.kind in _MARKED:
            pieces, names = _taken_apart(body)
            body = MARK.join(pieces)
            for name in names:
                before = at - own.get(name, at)
                leads.append(before if before > 0 else -outside.setdefault(name, len(outside)))
        bodies.append(body)
    kept = [name for name, thing in zip(digits, things, strict=True) if thing.kind in _KEPT]
    inside = _Inside(
        outside=bytes.fromhex(b"".join(outside).decode()),
        kinds=bytes([thing.kind for thing in things]),
        names=bytes.fromhex(b"".join(kept).decode()),
        leads=leads,
        bodies=bodies,
    )
    raws = [thing.body for thing in things if thing.kind is ObjectKind.RAW]
    data = _woven(inside, raws) if sum(map(len, raws)) >= LEAST_BYTES else _sealed(inside)
    return EncodedPack(data, Pack(inside, digits), {t.name: (t.kind, t.body) for t in things})


def _taken_apart(body: bytes) -> tuple[list[bytes], list[bytes]]:
    """Return the names in a body, and what stands around them.

    As a regular expression for runs of 64 digits finds them, from left to right, and ten times as
    fast: most of a body are no names.
    """
    pieces, names = [], []
    plain, start = body.translate(_DIGITS), 0
    while (at := plain.find(_RUN, start)) >= 0:
        pieces.append(body[start:at])
        start = at + len(_RUN)
        names.append(body[at:start])
    pieces.append(body[start:])
    return pieces, names


def decode_pack(data: bytes) -> Pack:
    """Open a pack. Raises Damaged."""
    if not isinstance(data, bytes) or len(data) <= SUM_BYTES:  # a damaged table may say anything
        raise PackCorrupted("it has no bytes")
    if blake3(data[SUM_BYTES:]).digest(SUM_BYTES) != data[:SUM_BYTES]:
        raise PackCorrupted("its sum does not fit")
    form, rest = data[SUM_BYTES], data[SUM_BYTES + 1 :]
    try:
        if form == ZSTANDARD:
            return Pack(_inside.decode(compression.decompress(rest)))
        if form == WOVEN:
            return Pack(_inside.decode(first_of(rest)), woven=rest)
        if form == PLAIN:
            return Pack(_inside.decode(rest))
    except (ValueError, LookupError) as error:
        raise PackCorrupted(f"it cannot be opened: {error}") from None
    raise PackCorrupted(f"it has the unknown form {form}")


def unpacked(data: bytes) -> dict[str, Body]:
    """Open a pack and compute all names: name -> kind and canonical bytes. Raises Damaged."""
    try:
        return decode_pack(data).things()
    except (ValueError, LookupError) as error:
        raise PackCorrupted(str(error)) from None


def is_woven(data: bytes) -> bool:
    """Whether raw bytes stand behind the rest of a pack: a form that not every Harken knows."""
    return data[SUM_BYTES] == WOVEN


def _sealed(inside: _Inside) -> bytes:
    whole = msgspec.msgpack.encode(inside)
    small = compression.compressed(whole)
    body = bytes([ZSTANDARD]) + small if len(small) < len(whole) else bytes([PLAIN]) + whole
    return blake3(body).digest(SUM_BYTES) + body


def _woven(inside: _Inside, raws: Sequence[bytes]) -> bytes:
    bodies = [
        len(body).to_bytes(SIZE_BYTES) if kind == ObjectKind.RAW else body
        for kind, body in zip(inside.kinds, inside.bodies, strict=True)
    ]
    first = msgspec.msgpack.encode(msgspec.structs.replace(inside, bodies=bodies))
    body = bytes([WOVEN]) + closed(first, raws)
    return blake3(body).digest(SUM_BYTES) + body


def _digits(names: bytes) -> list[bytes]:
    """Take names apart. Raises Damaged where they are not whole."""
    if len(names) % 32:
        raise PackCorrupted("its names are not whole")
    digits = names.hex().encode()
    return [digits[at : at + 64] for at in range(0, len(digits), 64)]


def _starts(kinds: Sequence[ObjectKind], inside: _Inside) -> list[int]:
    """Return where the leads of each thing begin. Raises ValueError where they do not fit."""
    counts = [
        body.count(MARK) if kind in _MARKED else 0
        for kind, body in zip(kinds, inside.bodies, strict=True)
    ]
    starts = list(accumulate(counts, initial=0))
    if starts[-1] != len(inside.leads):
        raise PackCorrupted("it has not as many names as marks")
    return starts


_inside = msgspec.msgpack.Decoder(_Inside)
_KINDS = {kind.value: kind for kind in ObjectKind}
_PREFIXES = {kind: PREFIXES.get(kind, "") for kind in ObjectKind}
