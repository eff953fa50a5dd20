"""Content: what a server gave, as a model reads it. Too long a text goes into a file."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Sequence
from pathlib import Path

from mcp_types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

from harken.core import canonical
from harken.core.messages import Content, ContentPart, ImagePart, TextPart
from harken.world.shell.output import Output, readable

MAX_CHARACTERS = 30_000
"""Of text in a result."""
MAX_IMAGES = 8
MAX_IMAGE_BYTES = 5_000_000
_IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""The kinds that providers take."""


def content_of(result: CallToolResult, outputs: Path) -> Content:
    """Return what a tool gave: text, or parts where there is an image in it."""
    if len(result.content) == 1 and isinstance(only := result.content[0], TextContent):
        plain = only.text if only.text.isprintable() else readable(only.text)
        if plain.strip() and len(plain) <= MAX_CHARACTERS:  # most are so, and calls are many
            return plain
    parts = [part for block in result.content for part in block_parts(block)]
    said = any(isinstance(one, TextContent) and one.text.strip() for one in result.content)
    if result.structured_content is not None and not said:
        parts.append(TextPart(_json(result.structured_content)))
    return bounded(parts, outputs)


def block_parts(block: ContentBlock) -> list[ContentPart]:
    """Return one block as parts."""
    match block:
        case TextContent():
            return [TextPart(readable(block.text))]
        case ImageContent():
            return [_image(block.data, block.mime_type, "an image")]
        case AudioContent():
            return [TextPart(f"[a sound, {block.mime_type[:60]}: it cannot be heard here]")]
        case ResourceLink():
            about = f": {block.description}" if block.description else ""
            text = f"[a resource, {block.name!r}, at {block.uri}{about}]"
            return [TextPart(readable(text)[:1000])]
        case EmbeddedResource():
            return resource_parts([block.resource])


def resource_parts(
    contents: Sequence[TextResourceContents | BlobResourceContents], *, named: bool = True
) -> list[ContentPart]:
    """Return resources as parts; `named` says of each where it is from."""
    parts: list[ContentPart] = []
    for one in contents:
        if isinstance(one, TextResourceContents):
            head = f"[{one.uri}]\n" if named else ""
            parts.append(TextPart(readable(head + one.text)))
        else:
            parts.append(_image(one.blob, one.mime_type or "", readable(one.uri)[:200]))
    return parts


def _image(data: str, media_type: str, what: str) -> ContentPart:
    """Return an image that providers take; else a text that says what it is."""
    kind = media_type.lower().partition(";")[0].strip()
    try:
        size = len(base64.b64decode(data, validate=True))
    except (binascii.Error, ValueError):
        return TextPart(f"[{what}, {kind[:60]}: it is damaged, no base64]")
    if kind not in _IMAGES or size > MAX_IMAGE_BYTES:
        return TextPart(f"[{what}, {kind[:60] or 'of no kind'}, {size:,} bytes: not shown]")
    return ImagePart(media_type=kind, data=data)


def bounded(parts: Iterable[ContentPart], outputs: Path) -> Content:
    """Return parts that a model can read: one text where there is nothing else.

    A text that is too long is shortened, and all of it is in a file in `outputs`.
    """
    texts: list[str] = []
    images: list[ContentPart] = []
    for part in parts:
        if isinstance(part, TextPart):
            texts.append(part.text)
        elif len(images) < MAX_IMAGES:
            images.append(part)
        else:
            texts.append("[one more image: not shown]")
    text = "\n".join(texts)
    if len(text) > MAX_CHARACTERS:
        text = _kept(text, outputs)
    if not images:
        return text or "(nothing)"
    return [*([TextPart(text)] if text else []), *images]


def _kept(text: str, outputs: Path) -> str:
    """Return head and tail of a text, and where all of it is."""
    output = Output.create(outputs)
    try:
        with open(output.descriptor, "wb", closefd=False) as file:
            file.write(text.encode("utf-8", "replace"))
        return output.shortened(MAX_CHARACTERS)
    finally:
        output.close(keep=True)


def text_of(blocks: Iterable[ContentBlock]) -> str:
    """Return the texts of some blocks; of others, what they are."""
    parts = [part for block in blocks for part in block_parts(block)]
    return "\n".join(one.text if isinstance(one, TextPart) else "[an image]" for one in parts)


def _json(value: object) -> str:
    try:
        return canonical.to_json_line(value).decode()
    except (TypeError, ValueError, OverflowError, RecursionError):
        return str(value)
