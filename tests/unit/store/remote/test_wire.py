"""Streams of values between a client and a service, and the limits of a request."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harken.store.batch import MAX_OBJECT_BYTES
from harken.store.remote.wire import (
    END,
    MAX_NAMES,
    NamesRequest,
    encode_frame,
    iter_frames,
    pack,
    unpack,
)

VALUES = [b"", b"one", b"x" * 300]
STREAM = b"".join(map(encode_frame, VALUES)) + END


@pytest.mark.parametrize("size", [1, 2, 5, len(STREAM)])
def test_values_are_read_from_pieces_of_any_size(size: int) -> None:
    pieces = [STREAM[start : start + size] for start in range(0, len(STREAM), size)]
    assert [unpack(frame, bytes) for frame in iter_frames(pieces)] == VALUES


def test_a_value_is_read_as_soon_as_it_is_complete() -> None:
    frames = [encode_frame(b"one"), encode_frame(b"two")]

    def receive() -> Iterator[bytes]:
        yield frames[0]
        received.append("more")
        yield frames[1] + END

    received: list[str] = []
    values = iter_frames(receive())
    assert unpack(next(values), bytes) == b"one"
    assert not received


@pytest.mark.parametrize("missing", range(1, 9))
def test_stream_without_its_end_is_incomplete(missing: int) -> None:
    with pytest.raises(ValueError, match="the rest is missing"):
        list(iter_frames([STREAM[:-missing]]))


def test_bytes_after_the_end_are_not_read() -> None:
    assert len(list(iter_frames([STREAM + encode_frame(b"more")]))) == len(VALUES)


@pytest.mark.parametrize(("excess", "problem"), [(0, "the rest is missing"), (1, "an object of")])
def test_length_of_a_value_is_limited_before_it_is_received(excess: int, problem: str) -> None:
    """A value is an object of the largest size, with its name and kind."""
    length = MAX_OBJECT_BYTES + 1024 + excess
    with pytest.raises(ValueError, match=problem):
        list(iter_frames([length.to_bytes(4, "big") + b"x"]))


def test_number_of_names_in_a_request_is_limited() -> None:
    names = ["0" * 64] * MAX_NAMES
    assert unpack(pack(NamesRequest(names)), NamesRequest).names == names
    with pytest.raises(ValueError, match="invalid MessagePack"):
        unpack(pack(NamesRequest([*names, "0" * 64])), NamesRequest)
