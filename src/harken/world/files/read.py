"""Read a file for a model: numbered lines, an image, or the reason why it is neither."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator
from io import FileIO
from pathlib import Path
from threading import Event

from harken.core.messages import ContentPart, ImagePart, TextPart
from harken.formats.images import MAX_IMAGE_BYTES, MAX_IMAGE_SIDE_PX, ImageHeader, read_image_header
from harken.world.files.line_window import (
    DEFAULT_LINES,
    MAX_LINE_CHARS,
    LineWindow,
    line_count,
    read_window,
)
from harken.world.files.read_state import FileReadState, meta_of
from harken.world.files.regular_file import (
    MAX_FILE_BYTES,
    binary_kind,
    hash_of,
    open_regular,
    read_up_to,
)
from harken.world.files.root import Root, size_text
from harken.world.result import ToolError

MAX_SCANNED_BYTES = 4 << 30
"""The number of bytes of a large file that are searched for a line."""


def read_file(
    root: Root, path: Path, offset: int, limit: int | None, stop: Event
) -> tuple[list[ContentPart], FileReadState | None]:
    """Return the content for the model, and the read state, which is None for a large file.

    Ends early when `stop` is set, because no task waits any more. Raises ToolError.
    """
    name = root.format_name(path)
    with open_regular(root, path) as file:
        data = read_up_to(file, MAX_FILE_BYTES + 1)
        size = max(len(data), os.fstat(file.fileno()).st_size)
        image = read_image_header(data)
        if image is not None:
            return _build_image_parts(root, path, data, image, size)
        kind = binary_kind(data)
        if kind is not None:
            raise ToolError(f"{name} is {kind}, {size_text(size)}: it is not text")
        if len(data) > MAX_FILE_BYTES:
            line_window = read_window(
                _iter_chunks(file, data, name, stop), offset, limit or DEFAULT_LINES
            )
            _check_not_beyond_end(line_window, name, None)
            return [
                TextPart("\n".join([line_window.text, *_iter_notes(line_window, None, size)]))
            ], None
    total = line_count(data)
    line_window = read_window([data], offset, limit or DEFAULT_LINES)
    if data:
        _check_not_beyond_end(line_window, name, total)
    read_state = _build_read_state(hash_of(data), line_window, total)
    text = "\n".join(
        [*([line_window.text] if line_window.lines else []), *_iter_notes(line_window, total, size)]
    )
    return [TextPart(text, meta_of(root.name(path), read_state))], read_state


def _iter_chunks(file: FileIO, first_chunk: bytes, name: str, stop: Event) -> Iterator[bytes]:
    """Yield the chunks of a file, until `stop` is set."""
    yield first_chunk
    read_bytes = len(first_chunk)
    while not stop.is_set() and (piece := file.read(1 << 20)):
        read_bytes += len(piece)
        if read_bytes > MAX_SCANNED_BYTES:
            raise ToolError(f"{name}: that line is not in the first {size_text(MAX_SCANNED_BYTES)}")
        yield piece


def _check_not_beyond_end(line_window: LineWindow, name: str, total: int | None) -> None:
    if not line_window.lines:
        line_count_text = (
            "fewer lines" if total is None else f"{total} line{'' if total == 1 else 's'}"
        )
        raise ToolError(f"{name} has {line_count_text}: line {line_window.first} is beyond the end")


def _build_read_state(hash_: str, line_window: LineWindow, total: int) -> FileReadState:
    if total == 0 or (line_window.first == 1 and line_window.at_end and not line_window.shortened):
        return FileReadState(hash_)
    spans = () if line_window.shortened else ((line_window.first, line_window.last),)
    return FileReadState(hash_, spans, total)


def _iter_notes(line_window: LineWindow, total: int | None, size_bytes: int) -> Iterator[str]:
    """Yield notes about hidden lines and invisible properties."""
    if not line_window.lines:
        yield "[the file is empty]"
    if not line_window.at_end:
        total_text = f"{total}" if total is not None else f"more ({size_text(size_bytes)})"
        continuation = f"continue with offset={line_window.last + 1}"
        yield f"[lines {line_window.first} to {line_window.last} of {total_text}; {continuation}]"
    if total is None:
        yield (f"[larger than {size_text(MAX_FILE_BYTES)}: `edit` and `write` cannot change it]")
    if line_window.shortened:
        lines = "1 line is" if line_window.shortened == 1 else f"{line_window.shortened} lines are"
        yield f"[{lines} longer than {MAX_LINE_CHARS} characters, truncated here]"
    if line_window.crlf:
        yield r"[lines end with \r\n; `edit` keeps that]"
    if line_window.not_utf8:
        yield "[not UTF-8: other bytes are shown as \ufffd; `edit` keeps them]"
    if line_window.unfinished and line_window.at_end:
        yield "[no newline at the end]"


def _build_image_parts(
    root: Root, path: Path, data: bytes, image: ImageHeader, size_bytes: int
) -> tuple[list[ContentPart], FileReadState]:
    """Return an image part, and a text that describes it. Raises ToolError."""
    description = (
        f"{root.format_name(path)}: {image.media_type}, {image.width} x {image.height} pixels"
    )
    if image.is_damaged:
        raise ToolError(f"{description}: the image is damaged or incomplete")
    if size_bytes > MAX_IMAGE_BYTES or max(image.width, image.height) > MAX_IMAGE_SIDE_PX:
        raise ToolError(
            f"{description}, {size_text(size_bytes)}: too large to read (at most "
            f"{size_text(MAX_IMAGE_BYTES)} and {MAX_IMAGE_SIDE_PX} pixels per side); "
            "create a smaller copy with a shell command, and read that"
        )
    read_state = FileReadState(hash_of(data))
    text_part = TextPart(
        f"{description}, {size_text(size_bytes)}", meta_of(root.name(path), read_state)
    )
    return [text_part, ImagePart(image.media_type, base64.b64encode(data).decode())], read_state
