"""What the first bytes of an image say."""

import pytest

from harken.formats.images import ImageHeader, read_image_header
from tests.unit.formats.pictures import gif, jpeg, png, webp

MADE = {
    "image/png": png(300, 20),
    "image/gif": gif(300, 20),
    "image/jpeg": jpeg(300, 20),
    "image/webp": webp(b"VP8 ", 300, 20),
}


@pytest.mark.parametrize("media_type", MADE)
def test_kind_and_size_are_read_from_the_beginning(media_type: str) -> None:
    assert read_image_header(MADE[media_type]) == ImageHeader(media_type, 300, 20, is_whole=True)


@pytest.mark.parametrize("kind", [b"VP8 ", b"VP8L", b"VP8X"])
def test_each_kind_of_webp_says_its_size(kind: bytes) -> None:
    assert read_image_header(webp(kind, 301, 22)) == ImageHeader(
        "image/webp", 301, 22, is_whole=True
    )


@pytest.mark.parametrize("media_type", MADE)
def test_an_image_cut_anywhere_is_not_whole_and_never_a_crash(media_type: str) -> None:
    data = MADE[media_type]
    for size in range(len(data)):
        image = read_image_header(data[:size])
        assert image is None or not image.is_whole or size > len(data) - 8


def test_the_scaling_bits_of_a_lossy_webp_are_no_part_of_its_size() -> None:
    """RFC 6386, 9.1: two bits above the 14 of each side. imagesize reads 16685 x 32790 here."""
    scaled = webp(b"VP8 ", 301 | 1 << 14, 22 | 2 << 14)
    assert read_image_header(scaled) == ImageHeader("image/webp", 301, 22, is_whole=True)


def test_a_gif_may_be_wider_than_half_of_16_bits() -> None:
    """GIF89a, 18: the sides are unsigned. imagesize reads -25536 here, which no limit refuses."""
    header = ImageHeader("image/gif", 40_000, 20, is_whole=True)
    assert read_image_header(gif(40_000, 20)) == header


def test_what_is_no_segment_ends_a_jpeg() -> None:
    """ITU T.81, B.1.1.2: a segment begins with a marker. imagesize looks for the next one."""
    start, size = b"\xff\xd8\xff\xe0\0\x02", jpeg(30, 20)[2:]
    assert read_image_header(start + size) == ImageHeader("image/jpeg", 30, 20, is_whole=True)
    damaged = ImageHeader("image/jpeg", 0, 0, is_whole=False)
    assert read_image_header(start + b"junk" + size) == damaged


def test_what_is_no_image_is_none() -> None:
    assert read_image_header(b"") is None
    assert read_image_header(b"plain text") is None
    assert read_image_header(b"RIFF\x04\0\0\0WAVE") is None


def test_a_jpeg_of_garbage_ends() -> None:
    assert read_image_header(b"\xff\xd8\xff" + b"\0" * 1000) == ImageHeader(
        "image/jpeg", 0, 0, is_whole=False
    )
    assert read_image_header(b"\xff\xd8\xff" + b"\xff" * 100_000) == ImageHeader(
        "image/jpeg", 0, 0, is_whole=False
    )
