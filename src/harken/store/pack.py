"""Packs: the new things of a batch as one row, compressed together.

One idea: what is written together is read together, and small things compress only in company. A
pack keeps no names: they follow from the content, so whoever opens a pack has hashed all of it.
Inside a body a mark stands for each name: of a thing so many places earlier, or of one outside.

Source: docs/formats/store.md, "Packs".
"""

from __future__ import annotations

import re
import threading
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import msgspec
import zstandard
from blake3 import blake3

from harken.store.base import Kind, Thing
from harken.store.contents import DOMAINS, PREFIXES, file_from
from harken.store.words import WORDS

Body: TypeAlias = tuple[Kind, bytes]
SUM_BYTES = 8
PLAIN, DEFLATED, ZSTANDARD = 0, 1, 2
LARGE = 64 * 1024
"""A pack is closed when its bodies have so many bytes: reading one thing opens all of the pack."""
SMALL = 16 * 1024
"""A pack with fewer bytes of bodies is put together with others some time."""
LARGEST = 512 * 1024 * 1024
"""No pack is opened that says that it is larger: it would only be a way to fill the memory."""

_NAME = re.compile(rb"([0-9a-f]{64})")
_WITH_NAMES = frozenset({Kind.MESSAGE, Kind.DELTA, Kind.SEQUENCE, Kind.COMMIT, Kind.FILE})
_MARK = b"\x01"  # canonical JSON has no control characters
_FAST, _THOROUGH = 1, 6


class Damaged(ValueError):
    """A pack is not what it was when it was written."""


class _Inside(msgspec.Struct, array_like=True):
    outside: list[bytes]
    """Names of things elsewhere, 32 bytes each."""
    kinds: bytes
    leads: list[int]
    """For each mark in the bodies, in order, which name stands there: of the thing so many before
    the one that has the mark, or, of what is outside, 0 for the first name and -1 for the next."""
    bodies: list[bytes]


class _InsideOfVersion1(msgspec.Struct, array_like=True):
    outside: list[bytes]
    kinds: bytes
    bodies: list[bytes]
    """After each mark stands a number, in hexadecimal: names outside come first."""


@dataclass(frozen=True, slots=True)
class Packed:
    """The bytes of a pack, and what is in it."""

    data: bytes
    things: Mapping[str, Body]


def packs_of(things: Iterable[Thing]) -> Iterator[Packed]:
    """Pack things, those that others need before them; each pack is of a bearable size."""
    now: list[Thing] = []
    size = 0
    for thing in things:
        now.append(thing)
        size += len(thing.body)
        if size >= LARGE or len(now) >= 1000:
            yield packed(now)
            now, size = [], 0
    if now:
        yield packed(now)


def packed(things: Sequence[Thing]) -> Packed:
    """Pack things as one. No two of them have one name."""
    own = {thing.name[-64:].encode(): at for at, thing in enumerate(things)}
    outside: dict[bytes, int] = {}
    leads: list[int] = []
    bodies: list[bytes] = []
    for at, thing in enumerate(things):
        body = thing.body
        if thing.kind in _WITH_NAMES:
            pieces = _NAME.split(body)
            body = _MARK.join(pieces[::2])
            for name in pieces[1::2]:
                before = at - own.get(name, at)
                leads.append(before if before > 0 else -outside.setdefault(name, len(outside)))
        bodies.append(body)
    kinds = bytes([thing.kind for thing in things])
    names = [bytes.fromhex(name.decode()) for name in outside]
    rest = msgspec.msgpack.encode(_Inside(names, kinds, leads, bodies))
    small = _zstandard.compressed(rest)
    body = bytes([ZSTANDARD]) + small if len(small) < len(rest) else bytes([PLAIN]) + rest
    data = blake3(body).digest(SUM_BYTES) + body
    return Packed(data, {thing.name: (thing.kind, thing.body) for thing in things})


def unpacked(data: bytes) -> dict[str, Body]:
    """Open a pack: name -> kind and canonical bytes. Raises Damaged."""
    if not isinstance(data, bytes) or len(data) <= SUM_BYTES:  # a damaged table may say anything
        raise Damaged("it has no bytes")
    if blake3(data[SUM_BYTES:]).digest(SUM_BYTES) != data[:SUM_BYTES]:
        raise Damaged("its sum does not fit")
    form, rest = data[SUM_BYTES], data[SUM_BYTES + 1 :]
    try:
        if form == ZSTANDARD:
            return _named(_inside.decode(_zstandard.opened(rest)))
        if form == PLAIN:
            return _named(_inside.decode(rest))
        if form == DEFLATED:
            return _named(_of_version_1(_inflated(rest)))
    except (zlib.error, zstandard.ZstdError, msgspec.DecodeError, ValueError, LookupError) as error:
        raise Damaged(f"it cannot be opened: {error}") from None
    raise Damaged(f"it has the unknown form {form}")


def _named(inside: _Inside) -> dict[str, Body]:
    known = [name.hex().encode() for name in inside.outside]
    leads = inside.leads
    at = 0
    found: dict[str, Body] = {}
    for number, body in zip(inside.kinds, inside.bodies, strict=True):
        kind, domain, prefix, has_names = _KINDS[number]
        if has_names and _MARK in body:
            first, *others = body.split(_MARK)
            here = len(known)
            for piece in others:
                lead = leads[at]
                first += known[here - lead if lead > 0 else -lead] + piece
                at += 1
            body = first
        # The name of a file is in it: that of bytes that are elsewhere.
        name = blake3(domain + body).hexdigest() if domain else file_from(body).name[-64:]
        known.append(name.encode())
        found[prefix + name] = kind, body
    return found


def _inflated(data: bytes) -> bytes:
    inflater = zlib.decompressobj(-zlib.MAX_WBITS, WORDS)
    whole = inflater.decompress(data, LARGEST)
    if not inflater.eof:
        raise Damaged(f"it has more than {LARGEST} bytes, or ends too early")
    return whole


def _of_version_1(data: bytes) -> _Inside:
    """Read what version 1 wrote: the numbers of names stood in the bodies."""
    old = _inside_of_version_1.decode(data)
    leads: list[int] = []
    bodies: list[bytes] = []
    for at, body in enumerate(old.bodies):
        if old.kinds[at] not in _WITH_NAMES:
            bodies.append(body)
            continue
        first, *others = body.split(_MARK)
        for piece in others:
            number = int(piece[:6], 16)
            before = len(old.outside) + at - number
            leads.append(before if number >= len(old.outside) else -number)
        bodies.append(_MARK.join([first, *(piece[6:] for piece in others)]))
    return _Inside(old.outside, old.kinds, leads, bodies)


class _Zstandard(threading.local):
    """Zstandard with the words, for one thread: making it anew costs more than a small pack."""

    def __init__(self) -> None:
        self._compressors: dict[int, zstandard.ZstdCompressor] = {}
        self._opener = zstandard.ZstdDecompressor(dict_data=_dictionary(_FAST))

    def compressed(self, data: bytes) -> bytes:
        """Compress; what is small quickly, since it will be put together with others."""
        level = _FAST if len(data) < SMALL else _THOROUGH
        found = self._compressors.get(level)
        if found is None:
            found = self._compressors[level] = zstandard.ZstdCompressor(
                dict_data=_dictionary(level), compression_params=_parameters(level)
            )
        return found.compress(data)

    def opened(self, data: bytes) -> bytes:
        """Decompress what says how large it is. Raises ZstdError, Damaged."""
        size = zstandard.frame_content_size(data)
        if not 0 <= size <= LARGEST:
            raise Damaged(f"it says that it has {size} bytes")
        return self._opener.decompress(data)


def _parameters(level: int) -> zstandard.ZstdCompressionParameters:
    how = {"write_checksum": 0, "write_content_size": 1, "write_dict_id": 0}
    if level == _FAST:
        how |= {"source_size": SMALL, "dict_size": len(WORDS)}
    return zstandard.ZstdCompressionParameters.from_level(level, **how)


def _dictionary(level: int) -> zstandard.ZstdCompressionDict:
    found = zstandard.ZstdCompressionDict(WORDS, dict_type=zstandard.DICT_TYPE_RAWCONTENT)
    found.precompute_compress(compression_params=_parameters(level))
    return found


_zstandard = _Zstandard()
_inside = msgspec.msgpack.Decoder(_Inside)
_inside_of_version_1 = msgspec.msgpack.Decoder(_InsideOfVersion1)
_KINDS = {
    kind.value: (kind, DOMAINS.get(kind), PREFIXES.get(kind, ""), kind in _WITH_NAMES)
    for kind in Kind
}
