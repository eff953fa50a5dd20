"""Packs: the new things of a batch as one row, compressed together.

One idea: what is written together is read together, and small things compress only in company. A
pack keeps no names: they follow from the content, so whoever opens a pack has hashed all of it.
Inside a body each name is a number: that of a thing earlier in the pack, or of one outside.

Source: docs/formats/store.md, "Packs".
"""

from __future__ import annotations

import re
import threading
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
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

_NAME = re.compile(rb"[0-9a-f]{64}")
_WITH_NAMES = frozenset({Kind.MESSAGE, Kind.DELTA, Kind.SEQUENCE, Kind.COMMIT, Kind.FILE})
_MARK = b"\x01"  # canonical JSON has no control characters
_DIGITS = 6  # of a number: hexadecimal, after the mark
_FAST, _THOROUGH = 3, 9


class Damaged(ValueError):
    """A pack is not what it was when it was written."""


class _Inside(msgspec.Struct, array_like=True):
    outside: list[bytes]
    """Names of things elsewhere, 32 bytes each: the numbers from 0."""
    kinds: bytes
    bodies: list[bytes]


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


def packed(things: list[Thing]) -> Packed:
    """Pack things as one. No two of them have one name."""
    own = {thing.name[-64:].encode(): at for at, thing in enumerate(things)}
    outside: dict[bytes, int] = {}
    for at, thing in enumerate(things):
        if thing.kind in _WITH_NAMES:
            for name in _NAME.findall(thing.body):
                if own.get(name, at) >= at:
                    outside.setdefault(name, len(outside))
    numbers = {name: b"\x01%06x" % (len(outside) + at) for name, at in own.items()}
    numbers |= {name: b"\x01%06x" % at for name, at in outside.items()}
    number = partial(_number, numbers)
    bodies = [
        _NAME.sub(number, thing.body) if thing.kind in _WITH_NAMES else thing.body
        for thing in things
    ]
    kinds = bytes([thing.kind for thing in things])
    names = [bytes.fromhex(name.decode()) for name in outside]
    rest = msgspec.msgpack.encode(_Inside(names, kinds, bodies))
    small = _zstandard.compressed(rest)
    body = bytes([ZSTANDARD]) + small if len(small) < len(rest) else bytes([PLAIN]) + rest
    data = blake3(body).digest(SUM_BYTES) + body
    return Packed(data, {thing.name: (thing.kind, thing.body) for thing in things})


def unpacked(data: bytes) -> dict[str, Body]:
    """Open a pack: name -> kind and canonical bytes. Raises Damaged."""
    if blake3(data[SUM_BYTES:]).digest(SUM_BYTES) != data[:SUM_BYTES]:
        raise Damaged("its sum does not fit")
    try:
        return _named(_inside.decode(_opened(data[SUM_BYTES], data[SUM_BYTES + 1 :])))
    except (zlib.error, zstandard.ZstdError, msgspec.DecodeError, ValueError, LookupError) as error:
        raise Damaged(f"it cannot be opened: {error}") from None


def _opened(form: int, rest: bytes) -> bytes:
    if form == ZSTANDARD:
        return _zstandard.opened(rest)
    if form == DEFLATED:
        inflater = zlib.decompressobj(-zlib.MAX_WBITS, WORDS)
        whole = inflater.decompress(rest, LARGEST)
        if not inflater.eof:
            raise Damaged(f"it has more than {LARGEST} bytes, or ends too early")
        return whole
    if form == PLAIN:
        return rest
    raise Damaged(f"it has the unknown form {form}")


def _number(numbers: Mapping[bytes, bytes], match: re.Match[bytes]) -> bytes:
    return numbers[match[0]]


def _named(inside: _Inside) -> dict[str, Body]:
    names = [name.hex().encode() for name in inside.outside]
    found: dict[str, Body] = {}
    for number, body in zip(inside.kinds, inside.bodies, strict=True):
        kind, domain, prefix, has_names = _KINDS[number]
        if has_names and _MARK in body:
            first, *others = body.split(_MARK)
            body = first + b"".join(
                [names[int(piece[:_DIGITS], 16)] + piece[_DIGITS:] for piece in others]
            )
        # The name of a file is in it: that of bytes that are elsewhere.
        name = blake3(domain + body).hexdigest() if domain else file_from(body).name[-64:]
        names.append(name.encode())
        found[prefix + name] = kind, body
    return found


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
    return zstandard.ZstdCompressionParameters.from_level(
        level, write_checksum=0, write_content_size=1, write_dict_id=0
    )


def _dictionary(level: int) -> zstandard.ZstdCompressionDict:
    found = zstandard.ZstdCompressionDict(WORDS, dict_type=zstandard.DICT_TYPE_RAWCONTENT)
    found.precompute_compress(compression_params=_parameters(level))
    return found


_zstandard = _Zstandard()
_inside = msgspec.msgpack.Decoder(_Inside)
_KINDS = {
    kind.value: (kind, DOMAINS.get(kind), PREFIXES.get(kind, ""), kind in _WITH_NAMES)
    for kind in Kind
}
