"""What a model is given of a file: numbered lines, an image, or why it is neither."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator
from io import FileIO
from pathlib import Path
from threading import Event

from harken.core.messages import ContentPart, ImagePart, TextPart
from harken.formats.images import LARGEST_BYTES, LARGEST_SIDE, Image, image_of
from harken.world.files.line_window import LINES, LONGEST_LINE, LineWindow, line_count, window
from harken.world.files.read_state import FileReadState, meta_of
from harken.world.files.regular_file import WHOLE, binary_kind, hash_of, open_regular, read_up_to
from harken.world.files.root import Root, size_text
from harken.world.result import ToolError

SCANNED = 4 << 30
"""Bytes in which a line is looked for."""


def read_file(
    root: Root, path: Path, offset: int, limit: int | None, stop: Event
) -> tuple[list[ContentPart], FileReadState | None]:
    """Return what a model is given, and what it knows by it; of a large file it knows nothing.

    Ends early when `stop` is set: nobody waits any more. Raises ToolError.
    """
    name = root.shown(path)
    with open_regular(root, path) as file:
        data = read_up_to(file, WHOLE + 1)
        size = max(len(data), os.fstat(file.fileno()).st_size)
        image = image_of(data)
        if image is not None:
            return _image(root, path, data, image, size)
        kind = binary_kind(data)
        if kind is not None:
            raise ToolError(f"{name} is {kind}, {size_text(size)}: it is not text")
        if len(data) > WHOLE:
            shown = window(_chunks(file, data, name, stop), offset, limit or LINES)
            _check_reached(shown, name, None)
            return [TextPart("\n".join([shown.text, *_notes(shown, None, size)]))], None
    total = line_count(data)
    shown = window([data], offset, limit or LINES)
    if data:
        _check_reached(shown, name, total)
    known = _known(hash_of(data), shown, total)
    text = "\n".join([*([shown.text] if shown.lines else []), *_notes(shown, total, size)])
    return [TextPart(text, meta_of(root.name(path), known))], known


def _chunks(file: FileIO, begun: bytes, name: str, stop: Event) -> Iterator[bytes]:
    """Yield the file in pieces, as long as somebody waits for it."""
    yield begun
    read = len(begun)
    while not stop.is_set() and (piece := file.read(1 << 20)):
        read += len(piece)
        if read > SCANNED:
            raise ToolError(f"{name}: that line is not in the first {size_text(SCANNED)}")
        yield piece


def _check_reached(shown: LineWindow, name: str, total: int | None) -> None:
    if not shown.lines:
        has = "fewer lines" if total is None else f"{total} line{'' if total == 1 else 's'}"
        raise ToolError(f"{name} has {has}: line {shown.first} is beyond its end")


def _known(hash_: str, shown: LineWindow, total: int) -> FileReadState:
    if total == 0 or (shown.first == 1 and shown.at_end and not shown.shortened):
        return FileReadState(hash_)
    seen = () if shown.shortened else ((shown.first, shown.last),)
    return FileReadState(hash_, seen, total)


def _notes(shown: LineWindow, total: int | None, size_bytes: int) -> Iterator[str]:
    """Say what is not shown, and what cannot be seen."""
    if not shown.lines:
        yield "[the file is empty]"
    if not shown.at_end:
        of = f"{total}" if total is not None else f"more ({size_text(size_bytes)})"
        go_on = f"go on with offset={shown.last + 1}"
        yield f"[lines {shown.first} to {shown.last} of {of}; {go_on}]"
    if total is None:
        yield f"[larger than {size_text(WHOLE)}: `edit` and `write` do not take it]"
    if shown.shortened:
        lines = "1 line is" if shown.shortened == 1 else f"{shown.shortened} lines are"
        yield f"[{lines} longer than {LONGEST_LINE} characters and cut here]"
    if shown.crlf:
        yield r"[lines end with \r\n; `edit` keeps that]"
    if shown.not_utf8:
        yield "[not UTF-8: other bytes are shown as \ufffd; `edit` keeps them]"
    if shown.unfinished and shown.at_end:
        yield "[no newline at the end]"


def _image(
    root: Root, path: Path, data: bytes, image: Image, size_bytes: int
) -> tuple[list[ContentPart], FileReadState]:
    """Return an image as a part, and a text that says what it is. Raises ToolError."""
    what = f"{root.shown(path)}: {image.media_type}, {image.width} x {image.height} pixels"
    if image.is_damaged:
        raise ToolError(f"{what}: the image is damaged or not complete")
    if size_bytes > LARGEST_BYTES or max(image.width, image.height) > LARGEST_SIDE:
        raise ToolError(
            f"{what}, {size_text(size_bytes)}: too large to be looked at (at most "
            f"{size_text(LARGEST_BYTES)} and {LARGEST_SIDE} pixels a side); make a smaller copy "
            f"with a shell command, and read that"
        )
    known = FileReadState(hash_of(data))
    said = TextPart(f"{what}, {size_text(size_bytes)}", meta_of(root.name(path), known))
    return [said, ImagePart(image.media_type, base64.b64encode(data).decode())], known
