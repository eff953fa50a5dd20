"""`events-v1`: a conversation as a CBOR array of events, the format of Harken's commits.

An array can be read item by item, and two arrays are joined by adding their counts. So the deltas
of a chain are joined without decoding the meaning of any event.

The bytes are a function of the events: definite lengths, shortest heads, floats in 64 bits, members
in the order in which they are given. Tags and indefinite lengths are neither written nor read.

Source: docs/formats/events-v1.md.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

import cbor2

from harken.errors import FormatError
from harken.formats.base import ConversationEntry, Format
from harken.formats.events import NAME, Event, event_to_record, parse_event
from harken.formats.hub import entries_from_events, events_from_entry

MAX_RENDERING_BYTES = 1 << 29
"""The maximum length of a rendering."""
_MAX_DEPTH = 96
"""The maximum nesting of one event. Arguments are written as a value up to 64 levels."""
_ARRAY = 0x80
_LENGTHS = {0x98: 1, 0x99: 2, 0x9A: 4, 0x9B: 8}


class _NoTags(dict[int, Callable[[Any, bool], Any]]):
    """A tag table for the decoder in which every tag is refused."""

    def __contains__(self, tag: object) -> bool:
        return True

    def __getitem__(self, tag: int) -> Callable[[Any, bool], Any]:
        def refuse(value: Any, _is_immutable: bool) -> Any:  # noqa: FBT001 - cbor2 calls it so
            raise ValueError(f"tag {tag}")

        return refuse


def encode_events(events: Iterable[Event]) -> bytes:
    """Encode events as CBOR. Raises ValueError for a text that UTF-8 cannot encode."""
    return cbor2.dumps([event_to_record(event) for event in events])


def decode_events(data: bytes) -> list[Event]:
    """Decode events, also from untrusted bytes. Raises FormatError."""
    return [parse_event(item) for item in _iter_items(data)]


def join_event_arrays(pieces: Iterable[bytes]) -> bytes:
    """Join arrays of events, in order, byte for byte. Raises FormatError."""
    total, bodies = 0, []
    for piece in pieces:
        count, start = _read_array_head(piece)
        for _ in _iter_items(piece):
            pass  # Decoding checks that the piece is complete.
        total += count
        bodies.append(memoryview(piece)[start:])
    out = io.BytesIO()
    cbor2.CBOREncoder(out).encode_length(_ARRAY >> 5, total)
    return b"".join([out.getvalue(), *bodies])


def _iter_items(data: bytes) -> Iterator[Any]:
    """Yield the items of an array. The bytes are decoded lazily."""
    if len(data) > MAX_RENDERING_BYTES:
        raise FormatError(NAME, f"it has {len(data)} bytes, at most {MAX_RENDERING_BYTES} are read")
    count, start = _read_array_head(data)
    file = io.BytesIO(data)
    file.seek(start)
    decoder = cbor2.CBORDecoder(
        file,
        semantic_decoders=_NoTags(),
        max_depth=_MAX_DEPTH,
        allow_indefinite=False,
        allow_duplicate_keys=False,
    )
    for index in range(count):
        try:
            item = decoder.decode()
        except (cbor2.CBORError, ValueError, RecursionError, MemoryError) as error:
            raise FormatError(
                NAME, f"event {index} of {count}: {error.__cause__ or error}"
            ) from None
        yield item
    if _has_more_bytes(decoder):
        raise FormatError(NAME, f"bytes follow its {count} events")


def _has_more_bytes(decoder: cbor2.CBORDecoder) -> bool:
    try:
        decoder.read(1)
    except cbor2.CBORDecodeEOF:
        return False
    return True


def _read_array_head(data: bytes) -> tuple[int, int]:
    """Return the number of items of the array, and the offset of the first item."""
    first = data[0] if data else 0
    if _ARRAY <= first < _ARRAY + 24:
        return first - _ARRAY, 1
    length = _LENGTHS.get(first, 0)
    if not length or len(data) <= length:
        raise FormatError(NAME, "it does not begin as an array of CBOR does")
    return int.from_bytes(data[1 : 1 + length]), 1 + length


def _read(data: bytes) -> list[ConversationEntry]:
    return entries_from_events(decode_events(data))


def _write(entries: Sequence[ConversationEntry]) -> bytes:
    return encode_events(chain.from_iterable(map(events_from_entry, entries)))


FORMAT = Format(
    name=NAME,
    media_type="application/cbor",
    reads=_read,
    writes=_write,
    joins=join_event_arrays,
    is_exact=True,
)
