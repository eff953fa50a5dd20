"""Which images are sent: those that a provider can read, as what they are."""

from __future__ import annotations

import base64

import pytest

from harken.core.messages import ImagePart, TextPart
from harken.formats.images import MAX_BASE64, sendable
from tests.unit.formats.contexts import GIF, PNG

JPEG = base64.b64encode(b"\xff\xd8\xff\xe0" + b"\0" * 20).decode()
WEBP = base64.b64encode(b"RIFF\x24\0\0\0WEBPVP8 ").decode()


@pytest.mark.parametrize(
    ("data", "kind"),
    [(PNG, "image/png"), (GIF, "image/gif"), (JPEG, "image/jpeg"), (WEBP, "image/webp")],
)
@pytest.mark.parametrize("said", [None, "image/png", "text/html"])
def test_the_bytes_say_what_an_image_is(data: str, kind: str, said: str | None) -> None:
    """A provider refuses an image that is not of the type that it is said to be."""
    assert sendable(ImagePart(said, data)) == ImagePart(kind, data)


def test_an_image_in_a_url_is_one_like_any_other() -> None:
    assert sendable(ImagePart(url=f"data:image/png;base64,{PNG}")) == ImagePart("image/png", PNG)


def test_white_space_in_base64_means_nothing() -> None:
    assert sendable(ImagePart("image/png", f" {PNG[:40]}\n{PNG[40:]}\n")) == ImagePart(
        "image/png", PNG
    )


def test_an_image_elsewhere_is_named_by_its_url() -> None:
    image = ImagePart("image/png", url="https://example.org/a.png")
    assert sendable(image) == ImagePart(url="https://example.org/a.png")


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
    note = sendable(image)
    assert isinstance(note, TextPart)
    assert note.text.startswith("[an image")
    assert "\n" not in note.text


def test_an_image_that_is_too_large_is_not_sent() -> None:
    data = PNG + "A" * MAX_BASE64
    note = sendable(ImagePart("image/png", data))
    assert note == TextPart(f"[an image of {len(data) * 3 // 4} bytes, too large to be shown]")
