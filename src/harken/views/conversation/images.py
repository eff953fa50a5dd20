"""Images of a log: their identity, size and data."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator

from blake3 import blake3

from harken.core.events import Event, TranscriptEntry
from harken.core.messages import Content, ImagePart
from harken.views.conversation.items import ImageItem


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
        return ImageItem(hash=None, media_type=media_type, size=None, url=part.url)
    return ImageItem(
        hash=hash_image(part), media_type=media_type, size=len(data.rstrip("=")) * 3 // 4
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


def _split_data(part: ImagePart) -> tuple[str | None, str | None]:
    """Return the media type and the base64 data of an image."""
    if part.data is not None:
        return part.media_type, part.data
    if part.url is None or not part.url.startswith("data:"):
        return part.media_type, None
    head, _, data = part.url.removeprefix("data:").partition(",")
    media_type, *flags = head.split(";")
    return part.media_type or media_type or None, data if "base64" in flags else None
