"""Images of a log: their identity, size and data."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator

from blake3 import blake3

from harken.core.events import Event, TranscriptEntry
from harken.core.messages import Content, ImagePart
from harken.views.conversation.items import ImageItem

_IMAGE_STARTS = {
    "image/png": (b"\x89PNG\r\n\x1a\n",),
    "image/jpeg": (b"\xff\xd8\xff",),
    "image/gif": (b"GIF87a", b"GIF89a"),
    "image/webp": (b"RIFF",),
}
"""The types of images that are shown, and how their data begins: SVG may contain scripts."""


def iter_images(event: Event) -> Iterator[ImagePart]:
    """Yield the images of an event."""
    content: Content = event.content if isinstance(event, TranscriptEntry) else None
    for part in content if isinstance(content, list) else ():
        if isinstance(part, ImagePart):
            yield part


def describe_image(part: ImagePart) -> ImageItem:
    """Return the row of an image."""
    media_type, data = _split_data(part)
    if data is None:
        return ImageItem(hash=None, media_type=media_type, size=None, is_shown=False, url=part.url)
    return ImageItem(
        hash=hash_image(part),
        media_type=media_type,
        size=len(data.rstrip("=")) * 3 // 4,
        is_shown=read_shown_image(part) is not None,
    )


def hash_image(part: ImagePart) -> str | None:
    """Return the identity of an image. Return None if its data is not in the log."""
    _, data = _split_data(part)
    return None if data is None else blake3(data.encode("utf-8", "surrogatepass")).hexdigest()


def decode_image(part: ImagePart) -> bytes | None:
    """Return the bytes of an image. Return None if the log does not have them, or not as base64."""
    _, data = _split_data(part)
    try:
        return None if data is None else base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return None


def read_shown_image(part: ImagePart) -> tuple[str, bytes] | None:
    """Return the media type and the data of an image. Return None for a type that is not shown."""
    data = decode_image(part) or b""
    for media_type, starts in _IMAGE_STARTS.items():
        if data.startswith(starts) and (media_type != "image/webp" or data[8:12] == b"WEBP"):
            return media_type, data
    return None


def _split_data(part: ImagePart) -> tuple[str | None, str | None]:
    """Return the media type and the base64 data of an image."""
    if part.data is not None:
        return part.media_type, part.data
    if part.url is None or not part.url.startswith("data:"):
        return part.media_type, None
    head, _, data = part.url.removeprefix("data:").partition(",")
    media_type, *flags = head.split(";")
    return part.media_type or media_type or None, data if "base64" in flags else None
