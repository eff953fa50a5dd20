"""Type and size in the header of an image."""

import pytest

from harken.formats.images import ImageHeader, read_image_header
from tests.unit.formats.image_kit import make_gif, make_jpeg, make_png, make_webp

MADE = {
    "image/png": make_png(300, 20),
    "image/gif": make_gif(300, 20),
    "image/jpeg": make_jpeg(300, 20),
    "image/webp": make_webp(b"VP8 ", 300, 20),
}


@pytest.mark.parametrize("media_type", MADE)
def test_type_and_size_are_read_from_the_header(media_type: str) -> None:
    assert read_image_header(MADE[media_type]) == ImageHeader(media_type, 300, 20, is_whole=True)


@pytest.mark.parametrize("kind", [b"VP8 ", b"VP8L", b"VP8X"])
def test_each_kind_of_webp_has_its_size(kind: bytes) -> None:
    assert read_image_header(make_webp(kind, 301, 22)) == ImageHeader(
        "image/webp", 301, 22, is_whole=True
    )


@pytest.mark.parametrize("media_type", MADE)
def test_truncated_image_is_incomplete_and_never_an_exception(media_type: str) -> None:
    data = MADE[media_type]
    for size in range(len(data)):
        image = read_image_header(data[:size])
        assert image is None or not image.is_whole or size > len(data) - 8


def test_scaling_bits_of_a_lossy_webp_are_not_part_of_its_size() -> None:
    """RFC 6386, 9.1: two bits above the 14 of each side. imagesize returns 16685 x 32790."""
    scaled = make_webp(b"VP8 ", 301 | 1 << 14, 22 | 2 << 14)
    assert read_image_header(scaled) == ImageHeader("image/webp", 301, 22, is_whole=True)


def test_gif_may_be_wider_than_32767() -> None:
    """GIF89a, 18: the sides are unsigned. imagesize returns -25536, which passes every limit."""
    header = ImageHeader("image/gif", 40_000, 20, is_whole=True)
    assert read_image_header(make_gif(40_000, 20)) == header


def test_byte_without_a_marker_ends_a_jpeg() -> None:
    """ITU T.81, B.1.1.2: a segment starts with a marker. imagesize searches for the next one."""
    start, size = b"\xff\xd8\xff\xe0\0\x02", make_jpeg(30, 20)[2:]
    assert read_image_header(start + size) == ImageHeader("image/jpeg", 30, 20, is_whole=True)
    damaged = ImageHeader("image/jpeg", 0, 0, is_whole=False)
    assert read_image_header(start + b"junk" + size) == damaged


def test_other_bytes_are_no_image() -> None:
    assert read_image_header(b"") is None
    assert read_image_header(b"plain text") is None
    assert read_image_header(b"RIFF\x04\0\0\0WAVE") is None


def test_jpeg_of_garbage_terminates() -> None:
    assert read_image_header(b"\xff\xd8\xff" + b"\0" * 1000) == ImageHeader(
        "image/jpeg", 0, 0, is_whole=False
    )
    assert read_image_header(b"\xff\xd8\xff" + b"\xff" * 100_000) == ImageHeader(
        "image/jpeg", 0, 0, is_whole=False
    )
