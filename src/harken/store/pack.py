"""Packs: the new things of a batch as one row, compressed together.

One idea: what is written together is read together, and small things compress only in company. A
pack keeps no names: they follow from the content, so whoever opens a pack has hashed all of it.
Inside a body each name is a number: that of a thing earlier in the pack, or of one outside.

Source: docs/formats/store.md, "Packs".
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import msgspec
from blake3 import blake3

from harken.store.base import Kind, Thing
from harken.store.contents import DOMAINS, PREFIXES
from harken.store.words import WORDS

SUM_BYTES = 8
PLAIN, DEFLATED = 0, 1
LARGE = 64 * 1024
"""A pack is closed when its bodies have so many bytes: reading one thing opens all of the pack."""

_NAME = re.compile(rb"[0-9a-f]{64}")
_WITH_NAMES = frozenset({Kind.MESSAGE, Kind.DELTA, Kind.SEQUENCE, Kind.COMMIT})
_MARK = b"\x01"  # canonical JSON has no control characters
_DIGITS = 6  # of a number: hexadecimal, after the mark


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
    things: Mapping[str, tuple[Kind, bytes]]


def packs_of(things: Iterable[Thing]) -> Iterator[Packed]:
    """Pack things, those that others need before them; each pack is of a bearable size."""
    now: list[Thing] = []
    size = 0
    for thing in things:
        now.append(thing)
        size += len(thing.body)
        if size >= LARGE or len(now) >= 1000:
            yield _packed(now)
            now, size = [], 0
    if now:
        yield _packed(now)


def unpacked(data: bytes) -> dict[str, tuple[Kind, bytes]]:
    """Open a pack: name -> kind and canonical bytes. Raises Damaged."""
    if blake3(data[SUM_BYTES:]).digest(SUM_BYTES) != data[:SUM_BYTES]:
        raise Damaged("its sum does not fit")
    try:
        form, rest = data[SUM_BYTES], data[SUM_BYTES + 1 :]
        if form == DEFLATED:
            rest = zlib.decompressobj(-zlib.MAX_WBITS, WORDS).decompress(rest)
        elif form != PLAIN:
            raise Damaged(f"it has the unknown form {form}")
        return _named(_inside.decode(rest))
    except (zlib.error, msgspec.DecodeError, ValueError, LookupError) as error:
        raise Damaged(f"it cannot be opened: {error}") from None


def _packed(things: list[Thing]) -> Packed:
    own = {thing.name[-64:]: at for at, thing in enumerate(things)}
    outside: dict[str, int] = {}
    for thing in things:
        if thing.kind in _WITH_NAMES:
            for name in _NAME.findall(thing.body):
                if own.get(name.decode(), len(things)) >= own[thing.name[-64:]]:
                    outside.setdefault(name.decode(), len(outside))
    numbers = {name: len(outside) + at for name, at in own.items()} | outside
    bodies = [
        _NAME.sub(lambda m: b"\x01%06x" % numbers[m[0].decode()], thing.body)
        if thing.kind in _WITH_NAMES
        else thing.body
        for thing in things
    ]
    kinds = bytes(thing.kind for thing in things)
    rest = msgspec.msgpack.encode(_Inside([bytes.fromhex(n) for n in outside], kinds, bodies))
    # Memory level 8: 9 gives the same bytes and spends half the time clearing its tables.
    deflater = zlib.compressobj(6, zlib.DEFLATED, -zlib.MAX_WBITS, 8, zdict=WORDS)
    small = deflater.compress(rest) + deflater.flush()
    body = bytes([DEFLATED]) + small if len(small) < len(rest) else bytes([PLAIN]) + rest
    data = blake3(body).digest(SUM_BYTES) + body
    return Packed(data, {thing.name: (thing.kind, thing.body) for thing in things})


def _named(inside: _Inside) -> dict[str, tuple[Kind, bytes]]:
    names = [name.hex().encode() for name in inside.outside]
    found: dict[str, tuple[Kind, bytes]] = {}
    for number, body in zip(inside.kinds, inside.bodies, strict=True):
        kind, domain, prefix, has_names = _KINDS[number]
        if has_names and _MARK in body:
            first, *others = body.split(_MARK)
            for piece in others:
                first += names[int(piece[:_DIGITS], 16)] + piece[_DIGITS:]
            body = first
        name = blake3(domain + body).hexdigest()
        names.append(name.encode())
        found[prefix + name] = kind, body
    return found


_inside = msgspec.msgpack.Decoder(_Inside)
_KINDS = {
    kind.value: (kind, domain, PREFIXES.get(kind, ""), kind in _WITH_NAMES)
    for kind, domain in DOMAINS.items()
}
