"""Images on the wire: the ones that providers take, and a note in place of all others.

A request with an image that a provider cannot read is refused, and so is every later request of
the same conversation. So an image is looked at before it is sent: its bytes say what it is, how
large, and whether it is whole.
"""

from __future__ import annotations

import binascii
import re

from harken.core.messages import ImagePart, TextPart
from harken.formats.image_header import LARGEST_SIDE, image_of

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
