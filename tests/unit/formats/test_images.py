"""Only images that a provider can read are sent, with their real type."""

from __future__ import annotations

import base64

import pytest

from harken.core.messages import ImagePart, TextPart
from harken.formats.images import MAX_BASE64_CHARS, to_sendable_image
from tests.unit.formats.context_kit import GIF, PNG
from tests.unit.formats.image_kit import make_gif, make_jpeg, make_png, make_webp


def encode_base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


JPEG = encode_base64(make_jpeg(30, 20))
WEBP = encode_base64(make_webp(b"VP8 ", 30, 20))


@pytest.mark.parametrize(
    ("data", "kind"),
    [(PNG, "image/png"), (GIF, "image/gif"), (JPEG, "image/jpeg"), (WEBP, "image/webp")],
)
@pytest.mark.parametrize("expected", [None, "image/png", "text/html"])
def test_type_of_an_image_is_detected_from_its_bytes(
    data: str, kind: str, expected: str | None
) -> None:
    """A provider rejects an image of another type than the declared one."""
    assert to_sendable_image(ImagePart(expected, data)) == ImagePart(kind, data)


def test_data_url_is_an_embedded_image() -> None:
    assert to_sendable_image(ImagePart(url=f"data:image/png;base64,{PNG}")) == ImagePart(
        "image/png", PNG
    )


def test_white_space_in_base64_is_ignored() -> None:
    assert to_sendable_image(ImagePart("image/png", f" {PNG[:40]}\n{PNG[40:]}\n")) == ImagePart(
        "image/png", PNG
    )


def test_external_image_is_referenced_by_its_url() -> None:
    image = ImagePart("image/png", url="https://example.org/a.png")
    assert to_sendable_image(image) == ImagePart(url="https://example.org/a.png")


@pytest.mark.parametrize(
    "image",
    [
        ImagePart("image/tiff", "SUkqAA=="),
        ImagePart("image/png", PNG[:-3]),
        ImagePart("image/png", "no base64!"),
        ImagePart("image/png", "é"),
        ImagePart("image/png", ""),
        ImagePart("image/png", url="file:///etc/passwd"),
        ImagePart("image/png", url="https://example.org/a b"),
        ImagePart("image/png\nevil", None),
        ImagePart(),
    ],
)
def test_unsupported_image_becomes_a_note(image: ImagePart) -> None:
    note = to_sendable_image(image)
    assert isinstance(note, TextPart)
    assert note.text.startswith("[an image")
    assert "\n" not in note.text


@pytest.mark.parametrize(
    "image", [make_png(30, 20), make_gif(30, 20), make_jpeg(30, 20), make_webp(b"VP8L", 30, 20)]
)
def test_truncated_image_is_not_sent(image: bytes) -> None:
    """A provider rejects it, and with it all later requests of the conversation."""
    for size in (len(image) // 2, len(image) - 8):
        note = to_sendable_image(ImagePart("image/x", encode_base64(image[:size])))
        assert note == TextPart("[an image (image/x) that cannot be shown]")


@pytest.mark.parametrize(("width", "is_sent"), [(8000, True), (8001, False)])
def test_image_with_too_many_pixels_is_not_sent(width: int, is_sent: bool) -> None:
    for image in (make_png(width, 1), make_jpeg(1, width), make_webp(b"VP8X", width, 1)):
        output = to_sendable_image(ImagePart(None, encode_base64(image)))
        assert isinstance(output, ImagePart) is is_sent
        assert is_sent or "8001" in repr(output)


@pytest.mark.parametrize("excess", [0, 1])
def test_size_of_an_image_is_limited_in_base64(excess: int) -> None:
    size = MAX_BASE64_CHARS // 4 * 3 + excess
    data = encode_base64(make_png(1, 1, size - len(make_png(1, 1))))
    output = to_sendable_image(ImagePart("image/png", data))
    assert isinstance(output, ImagePart) is not bool(excess)


def test_image_of_too_many_bytes_is_not_sent() -> None:
    data = PNG + "A" * MAX_BASE64_CHARS
    note = to_sendable_image(ImagePart("image/png", data))
    assert note == TextPart(f"[an image of {len(data) * 3 // 4} bytes, too large to be shown]")
