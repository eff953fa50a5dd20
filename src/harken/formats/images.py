"""Validation of images before they are sent to a provider.

A provider refuses a request with a broken, too large or unknown image in it, and so every later
request of the same conversation. So the media type, the size and the completeness of an image are
read from its bytes before it is sent, and a note replaces an image that no provider accepts.

Source: PNG 1.2 §5, ITU T.81 annex B, GIF89a, the WebP container specification.
"""

from __future__ import annotations

import binascii
import re
import struct
from collections.abc import Callable

import msgspec

from harken.core.messages import ImagePart, TextPart

MAX_IMAGE_BYTES = 5_242_880 * 3 // 4
"""The maximum size of an image for providers: 5 MiB in base64."""
MAX_IMAGE_SIDE_PX = 8000
"""The maximum width or height in pixels."""
_SOF = {*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}
"""Markers of the JPEG segments that hold the image size."""


class ImageHeader(msgspec.Struct, frozen=True):
    """The media type and size of an image."""

    media_type: str
    width: int
    height: int
    is_whole: bool
    """Whether the data ends with the end marker of its format."""

    @property
    def is_damaged(self) -> bool:
        """Whether the header or the end of the image is missing."""
        return not (self.width and self.height and self.is_whole)


def read_image_header(data: bytes) -> ImageHeader | None:
    """Read the header of an image. Return None if it is no image type that providers accept.

    Width and height are 0 if the header is damaged.
    """
    for magic, (media_type, read_header) in _KINDS.items():
        if data.startswith(magic) and (magic != b"RIFF" or data[8:12] == b"WEBP"):
            try:
                width, height, is_whole = read_header(data)
            except (struct.error, IndexError):
                width, height, is_whole = 0, 0, False
            return ImageHeader(media_type, width, height, is_whole)
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
        width, height = (
            1 + int.from_bytes(data[offset : offset + 3], "little") for offset in (24, 27)
        )
    elif kind == b"VP8L":
        (bits,) = struct.unpack_from("<I", data, 21)
        width, height = 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    else:
        width, height = (side & 0x3FFF for side in struct.unpack_from("<HH", data, 26))
    return width, height, is_whole


def _jpeg(data: bytes) -> tuple[int, int, bool]:
    """Walk the segments until one holds the size."""
    offset = 2
    while True:
        while data[offset + 1] == 0xFF:
            offset += 1  # a fill byte
        start, marker, length = struct.unpack_from(">BBH", data, offset)
        if start != 0xFF:
            raise IndexError(offset)
        if marker in _SOF:
            height, width = struct.unpack_from(">HH", data, offset + 5)
            return width, height, data.rfind(b"\xff\xd9") > offset
        offset += 2 + length


_KINDS: dict[bytes, tuple[str, Callable[[bytes], tuple[int, int, bool]]]] = {
    b"\x89PNG\r\n\x1a\n": ("image/png", _png),
    b"\xff\xd8\xff": ("image/jpeg", _jpeg),
    b"GIF87a": ("image/gif", _gif),
    b"GIF89a": ("image/gif", _gif),
    b"RIFF": ("image/webp", _webp),
}
MAX_BASE64_CHARS = 5 * 1024 * 1024
"""The maximum length of the base64 text of one image: the limit of Anthropic, which is the lowest.
"""
_DATA_URL = re.compile(r"data:(?P<type>[^;,]*);base64,", re.IGNORECASE)


def to_sendable_image(image: ImagePart) -> ImagePart | TextPart:
    """Return an image with its true media type and clean base64, or its URL, or else a note.

    >>> to_sendable_image(ImagePart("image/tiff", "SUkqAA=="))
    TextPart(text='[an image (image/tiff) that cannot be shown]')
    """
    data, url = image.data, image.url or ""
    in_url = _DATA_URL.match(url)
    if data is None and in_url:
        data = url[in_url.end() :]
    if data is not None:
        return _check_inline(data, image.media_type or (in_url["type"] if in_url else None))
    if re.match(r"https?://\S+\Z", url, re.IGNORECASE) and url.isascii():
        return ImagePart(url=url)
    return _note(image.media_type)


def _check_inline(data: str, media_type: str | None) -> ImagePart | TextPart:
    data = "".join(data.split())
    if len(data) > MAX_BASE64_CHARS:
        return TextPart(f"[an image of {len(data) * 3 // 4} bytes, too large to be shown]")
    try:
        content = binascii.a2b_base64(data, strict_mode=True)
    except ValueError:
        return _note(media_type)
    image = read_image_header(content)
    if image is None or image.is_damaged:
        return _note(media_type)
    if max(image.width, image.height) > MAX_IMAGE_SIDE_PX:
        size = f"{image.width} x {image.height} pixels"
        return TextPart(f"[an image of {size}, too large to be shown]")
    return ImagePart(image.media_type, data)


def _note(media_type: str | None) -> TextPart:
    kind = re.sub(r"[^\w/+.-]", "", media_type or "", flags=re.ASCII)[:60]
    return TextPart(f"[an image{f' ({kind})' if kind else ''} that cannot be shown]")
