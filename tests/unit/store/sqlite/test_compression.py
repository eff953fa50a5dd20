"""Compressed packs: what is compressed comes back, and a damaged or false frame is refused."""

from __future__ import annotations

from random import Random

import pytest
import zstandard

from harken.store.sqlite.compression import (
    MAX_CONTENT_BYTES,
    SMALL_BYTES,
    WORDS,
    DecompressionError,
    compress,
    compress_parts,
    decompress,
    decompress_first,
    read_content_size,
)

TEXT = Random(1).randbytes(3 * SMALL_BYTES).hex().encode()


def frame_with_size(size: int) -> bytes:
    """Return the beginning of a frame with an 8-byte content size, and no content (RFC 8878)."""
    return b"\x28\xb5\x2f\xfd\xe0" + size.to_bytes(8, "little")


@pytest.mark.parametrize("size", [0, 1, SMALL_BYTES - 1, SMALL_BYTES, SMALL_BYTES + 1, len(TEXT)])
def test_bytes_of_any_size_come_back(size: int) -> None:
    frame = compress(TEXT[:size])
    assert read_content_size(frame) == size
    assert decompress(frame) == TEXT[:size]


def test_dictionary_is_used() -> None:
    assert len(compress(WORDS)) < 200 < len(zstandard.compress(WORDS))


@pytest.mark.parametrize(("excess", "problem"), [(0, "."), (1, "has a content size of")])
def test_false_content_size_is_refused(excess: int, problem: str) -> None:
    with pytest.raises(DecompressionError, match=problem) as error:
        decompress(frame_with_size(MAX_CONTENT_BYTES + excess))
    assert bool(excess) == ("content size of" in str(error.value))


@pytest.mark.parametrize("read", [decompress, lambda data: decompress_first(data, 5)])
@pytest.mark.parametrize("data", [b"", b"text", compress(TEXT)[:-9], frame_with_size(10)])
def test_damaged_frame_is_refused(read: object, data: bytes) -> None:
    with pytest.raises(DecompressionError):
        read(data)  # type: ignore[operator]


def test_frame_without_content_size_is_refused() -> None:
    frame = zstandard.ZstdCompressor(write_content_size=False).compress(TEXT)
    with pytest.raises(DecompressionError, match="no content size"):
        decompress(frame)


@pytest.mark.parametrize("first", [0, 1, 100])
def test_first_part_is_read_without_the_others(first: int) -> None:
    frame = compress_parts([TEXT[:first], TEXT[first:]])
    assert decompress_first(frame, first) == TEXT[:first]
    assert zstandard.decompress(frame) == TEXT


@pytest.mark.parametrize("first", [-1, len(TEXT) + 1])
def test_first_part_outside_of_the_content_is_refused(first: int) -> None:
    with pytest.raises(DecompressionError, match="its first part has"):
        decompress_first(compress_parts([TEXT]), first)
