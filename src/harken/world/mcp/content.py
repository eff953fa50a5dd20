"""Convert the content of a server to message parts; long text goes into a file."""

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
"""The maximum text in a result."""
MAX_IMAGES = 8
MAX_IMAGE_BYTES = 5_000_000
_IMAGE_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""The media types that providers accept."""


def content_of(result: CallToolResult, outputs: Path) -> Content:
    """Return the result of a tool as text, or as parts if it contains an image."""
    if len(result.content) == 1 and isinstance(block := result.content[0], TextContent):
        text = block.text if block.text.isprintable() else readable(block.text)
        if text.strip() and len(text) <= MAX_CHARACTERS:  # fast path for most results
            return text
    parts = [part for block in result.content for part in block_parts(block)]
    has_text = any(isinstance(item, TextContent) and item.text.strip() for item in result.content)
    if result.structured_content is not None and not has_text:
        parts.append(TextPart(_encode_json(result.structured_content)))
    return limit_parts(parts, outputs)


def block_parts(block: ContentBlock) -> list[ContentPart]:
    """Convert a content block to message parts."""
    match block:
        case TextContent():
            return [TextPart(readable(block.text))]
        case ImageContent():
            return [_build_image_part(block.data, block.mime_type, "an image")]
        case AudioContent():
            return [TextPart(f"[audio, {block.mime_type[:60]}: not supported]")]
        case ResourceLink():
            description_note = f": {block.description}" if block.description else ""
            text = f"[a resource, {block.name!r}, at {block.uri}{description_note}]"
            return [TextPart(readable(text)[:1000])]
        case EmbeddedResource():
            return resource_parts([block.resource])


def resource_parts(
    contents: Sequence[TextResourceContents | BlobResourceContents], *, named: bool = True
) -> list[ContentPart]:
    """Convert resources to message parts; `named` adds the URI of each."""
    parts: list[ContentPart] = []
    for resource in contents:
        if isinstance(resource, TextResourceContents):
            head = f"[{resource.uri}]\n" if named else ""
            parts.append(TextPart(readable(head + resource.text)))
        else:
            parts.append(
                _build_image_part(
                    resource.blob, resource.mime_type or "", readable(resource.uri)[:200]
                )
            )
    return parts


def _build_image_part(data: str, media_type: str, label: str) -> ContentPart:
    """Return an image that providers accept, else a text that describes it."""
    kind = media_type.lower().partition(";")[0].strip()
    try:
        size = len(base64.b64decode(data, validate=True))
    except (binascii.Error, ValueError):
        return TextPart(f"[{label}, {kind[:60]}: damaged, not base64]")
    if kind not in _IMAGE_TYPES or size > MAX_IMAGE_BYTES:
        return TextPart(f"[{label}, {kind[:60] or 'of no kind'}, {size:,} bytes: not shown]")
    return ImagePart(media_type=kind, data=data)


def limit_parts(parts: Iterable[ContentPart], outputs: Path) -> Content:
    """Limit parts for a model: one text if there are no images.

    A text that is too long is shortened; the full text is in a file in `outputs`.
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
        text = _store_long_text(text, outputs)
    if not images:
        return text or "(nothing)"
    return [*([TextPart(text)] if text else []), *images]


def _store_long_text(text: str, outputs: Path) -> str:
    """Return head and tail of a text, and the path of a file with the full text."""
    output = Output.create(outputs)
    try:
        with open(output.descriptor, "wb", closefd=False) as file:
            file.write(text.encode("utf-8", "replace"))
        return output.read_shortened(MAX_CHARACTERS)
    finally:
        output.close(keep=True)


def text_of(blocks: Iterable[ContentBlock]) -> str:
    """Return the text of some blocks; other blocks are described."""
    parts = [part for block in blocks for part in block_parts(block)]
    return "\n".join(part.text if isinstance(part, TextPart) else "[an image]" for part in parts)


def _encode_json(value: object) -> str:
    try:
        return canonical.to_json_line(value).decode()
    except (TypeError, ValueError, OverflowError, RecursionError):
        return str(value)
