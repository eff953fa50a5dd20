"""Which images are sent: those that a provider can read, as what they are."""

from __future__ import annotations

import base64

import pytest

from harken.core.messages import ImagePart, TextPart
from harken.formats.images import MAX_BASE64_CHARS, to_sendable_image
from tests.unit.formats.contexts import GIF, PNG
from tests.unit.formats.pictures import gif, jpeg, png, webp


def base64_of(data: bytes) -> str:
    return base64.b64encode(data).decode()


JPEG = base64_of(jpeg(30, 20))
WEBP = base64_of(webp(b"VP8 ", 30, 20))


@pytest.mark.parametrize(
    ("data", "kind"),
    [(PNG, "image/png"), (GIF, "image/gif"), (JPEG, "image/jpeg"), (WEBP, "image/webp")],
)
@pytest.mark.parametrize("said", [None, "image/png", "text/html"])
def test_the_bytes_say_what_an_image_is(data: str, kind: str, said: str | None) -> None:
    """A provider refuses an image that is not of the type that it is said to be."""
    assert to_sendable_image(ImagePart(said, data)) == ImagePart(kind, data)


def test_an_image_in_a_url_is_one_like_any_other() -> None:
    assert to_sendable_image(ImagePart(url=f"data:image/png;base64,{PNG}")) == ImagePart(
        "image/png", PNG
    )


def test_white_space_in_base64_means_nothing() -> None:
    assert to_sendable_image(ImagePart("image/png", f" {PNG[:40]}\n{PNG[40:]}\n")) == ImagePart(
        "image/png", PNG
    )


def test_an_image_elsewhere_is_named_by_its_url() -> None:
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
def test_of_what_no_provider_reads_there_is_a_note(image: ImagePart) -> None:
    note = to_sendable_image(image)
    assert isinstance(note, TextPart)
    assert note.text.startswith("[an image")
    assert "\n" not in note.text


@pytest.mark.parametrize("image", [png(30, 20), gif(30, 20), jpeg(30, 20), webp(b"VP8L", 30, 20)])
def test_an_image_that_is_cut_is_not_sent(image: bytes) -> None:
    """A provider refuses it, and with it every later request of the conversation."""
    for size in (len(image) // 2, len(image) - 8):
        note = to_sendable_image(ImagePart("image/x", base64_of(image[:size])))
        assert note == TextPart("[an image (image/x) that cannot be shown]")


@pytest.mark.parametrize(("width", "sent"), [(8000, True), (8001, False)])
def test_an_image_of_too_many_pixels_is_not_sent(width: int, sent: bool) -> None:
    for image in (png(width, 1), jpeg(1, width), webp(b"VP8X", width, 1)):
        shown = to_sendable_image(ImagePart(None, base64_of(image)))
        assert isinstance(shown, ImagePart) is sent
        assert sent or "8001" in repr(shown)


def test_an_image_that_is_too_large_is_not_sent() -> None:
    data = PNG + "A" * MAX_BASE64_CHARS
    note = to_sendable_image(ImagePart("image/png", data))
    assert note == TextPart(f"[an image of {len(data) * 3 // 4} bytes, too large to be shown]")
