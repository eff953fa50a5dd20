"""Images on the wire: the ones that providers take, and a note in place of all others.

A request with an image that a provider cannot read is refused, and so is every later request of
the same conversation. So an image is looked at before it is sent: its bytes say what it is, how
large, and whether it is whole.

What the bytes of an image say: its kind, how large it is, and whether it is whole.

A provider refuses a request with a broken or too large image in it, and so every later request
of that conversation. So whoever reads an image, or sends one, looks at it first.

Source: PNG 1.2 §5, ITU T.81 annex B, GIF89a, the WebP container specification.
"""

from __future__ import annotations

import binascii
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass

from harken.core.messages import ImagePart, TextPart

LARGEST_BYTES = 5_242_880 * 3 // 4
"""5 MiB in base64: what providers take of one image."""


LARGEST_SIDE = 8000
"""Pixels."""


_SOF = {*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}
"""The segments of a JPEG that have its size in them."""


@dataclass(frozen=True, slots=True)
class Image:
    """What kind of image a content is, and how large."""

    media_type: str
    width: int
    height: int
    is_whole: bool
    """Whether it ends as such an image ends."""

    @property
    def is_damaged(self) -> bool:
        """Whether something of it is missing, as far as its beginning and end tell."""
        return not (self.width and self.height and self.is_whole)


def image_of(data: bytes) -> Image | None:
    """Return what image a content is; None where it is none that providers take.

    Width and height are 0 where its beginning is damaged.
    """
    for magic, (media_type, read) in _KINDS.items():
        if data.startswith(magic) and (magic != b"RIFF" or data[8:12] == b"WEBP"):
            try:
                width, height, is_whole = read(data)
            except (struct.error, IndexError):
                width, height, is_whole = 0, 0, False
            return Image(media_type, width, height, is_whole)
    return None


def _png(data: bytes) -> tuple[int, int, bool]:
    width, height = struct.unpack_from(">II", data, 16)
    return width, height, data.rfind(b"IEND", -64) != -1


def _gif(data: bytes) -> tuple[int, int, bool]:
    width, height = struct.unpack_from("<HH", data, 6)
    return width, height, data.rstrip(b"\0").endswith(b";")


def _webp(data: bytes) -> tuple[int, int, bool]:
    (size,) = struct.unpack_from("<I", data, 4)
    is_whole = len(data) >= size + 8
    kind = data[12:16]
    if kind == b"VP8X":
        width, height = (1 + int.from_bytes(data[at : at + 3], "little") for at in (24, 27))
    elif kind == b"VP8L":
        (bits,) = struct.unpack_from("<I", data, 21)
        width, height = 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    else:
        width, height = (side & 0x3FFF for side in struct.unpack_from("<HH", data, 26))
    return width, height, is_whole


def _jpeg(data: bytes) -> tuple[int, int, bool]:
    """Go from segment to segment until one has the size in it."""
    at = 2
    while True:
        while data[at + 1] == 0xFF:
            at += 1  # a fill byte
        start, marker, length = struct.unpack_from(">BBH", data, at)
        if start != 0xFF:
            raise IndexError(at)
        if marker in _SOF:
            height, width = struct.unpack_from(">HH", data, at + 5)
            return width, height, data.rfind(b"\xff\xd9") > at
        at += 2 + length


_KINDS: dict[bytes, tuple[str, Callable[[bytes], tuple[int, int, bool]]]] = {
    b"\x89PNG\r\n\x1a\n": ("image/png", _png),
    b"\xff\xd8\xff": ("image/jpeg", _jpeg),
    b"GIF87a": ("image/gif", _gif),
    b"GIF89a": ("image/gif", _gif),
    b"RIFF": ("image/webp", _webp),
}


MAX_BASE64 = 5 * 1024 * 1024
"""How long the base64 text of one image may be: what Anthropic takes, the least of all."""
_DATA_URL = re.compile(r"data:(?P<type>[^;,]*);base64,", re.IGNORECASE)


def sendable(image: ImagePart) -> ImagePart | TextPart:
    """Return an image with its true media type and clean base64, or its URL, or else a note.

    >>> sendable(ImagePart("image/tiff", "SUkqAA=="))
    TextPart(text='[an image (image/tiff) that cannot be shown]', meta=None)
    """
    data, url = image.data, image.url or ""
    in_url = _DATA_URL.match(url)
    if data is None and in_url:
        data = url[in_url.end() :]
    if data is not None:
        return _inline(data, image.media_type or (in_url["type"] if in_url else None))
    if re.match(r"https?://\S+\Z", url, re.IGNORECASE) and url.isascii():
        return ImagePart(url=url)
    return _note(image.media_type)


def _inline(data: str, said: str | None) -> ImagePart | TextPart:
    data = "".join(data.split())
    if len(data) > MAX_BASE64:
        return TextPart(f"[an image of {len(data) * 3 // 4} bytes, too large to be shown]")
    try:
        content = binascii.a2b_base64(data, strict_mode=True)
    except ValueError:
        return _note(said)
    image = image_of(content)
    if image is None or image.is_damaged:
        return _note(said)
    if max(image.width, image.height) > LARGEST_SIDE:
        size = f"{image.width} x {image.height} pixels"
        return TextPart(f"[an image of {size}, too large to be shown]")
    return ImagePart(image.media_type, data)


def _note(said: str | None) -> TextPart:
    kind = re.sub(r"[^\w/+.-]", "", said or "", flags=re.ASCII)[:60]
    return TextPart(f"[an image{f' ({kind})' if kind else ''} that cannot be shown]")
