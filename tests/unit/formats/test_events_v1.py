"""Renderings of events in CBOR from other programs: complete, limited, and without tags."""

from __future__ import annotations

import cbor2
import pytest

from harken.errors import FormatError
from harken.formats.events_v1 import (
    MAX_RENDERING_BYTES,
    decode_events,
    encode_events,
    join_event_arrays,
)

EVENT = {"type": "prompt", "timestamp": None, "prompt": {"content": "Hi", "source": "user"}}


def nested_event(levels: int) -> dict[str, object]:
    value: object = 1
    for _ in range(levels):
        value = [value]
    return {"type": "other", "value": value}


@pytest.mark.parametrize("count", [0, 1, 23, 24, 255, 256])
def test_array_of_any_length_is_read(count: int) -> None:
    data = cbor2.dumps([EVENT] * count)
    assert len(decode_events(data)) == count
    assert encode_events(decode_events(data)) == cbor2.dumps(
        [{"type": "prompt", "prompt": EVENT["prompt"]}] * count
    )


@pytest.mark.parametrize("width", [1, 2, 4, 8])
def test_length_of_an_array_may_have_any_width(width: int) -> None:
    head = bytes([0x98 + (1, 2, 4, 8).index(width)]) + (1).to_bytes(width)
    assert len(decode_events(head + cbor2.dumps(EVENT))) == 1


def test_pieces_are_joined_byte_for_byte() -> None:
    pieces = [cbor2.dumps([EVENT] * count) for count in (0, 1, 30, 2)]
    assert join_event_arrays(pieces) == cbor2.dumps([EVENT] * 33)
    assert join_event_arrays([]) == cbor2.dumps([])


@pytest.mark.parametrize("excess", [0, 1])
def test_size_of_a_rendering_is_limited(excess: int) -> None:
    data = bytes(MAX_RENDERING_BYTES + excess)
    with pytest.raises(FormatError, match="at most" if excess else "does not begin as an array"):
        decode_events(data)


@pytest.mark.parametrize(("levels", "is_read"), [(90, True), (100, False)])
def test_nesting_of_an_event_is_limited(levels: int, is_read: bool) -> None:
    data = cbor2.dumps([nested_event(levels)])
    if is_read:
        assert len(decode_events(data)) == 1
    else:
        with pytest.raises(FormatError, match="event 0 of 1"):
            decode_events(data)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x81",
        b"\x98",
        b"\x98\x01",
        b"\x9f\xff",
        b"\xa0",
        cbor2.dumps([EVENT]) + b"\0",
        cbor2.dumps([EVENT])[:-1],
        cbor2.dumps([cbor2.CBORTag(0, "2026-01-31T12:00:00Z")]),
        cbor2.dumps([{**EVENT, "at": cbor2.CBORTag(28, [])}]),
        b"\x81\xa2\x61a\x01\x61a\x01",
        b"\x81\xbf\xff",
    ],
)
def test_incomplete_or_tagged_rendering_is_refused(data: bytes) -> None:
    for read in (decode_events, lambda data: join_event_arrays([data])):
        with pytest.raises(FormatError):
            read(data)
