"""Small pictures of the page for the documentation: PNG files with a palette.

Chromium writes 24 bits for each pixel. A page has few colors, and the shades of its letters look the
same with a palette of 128, at a third of the size.
"""

from __future__ import annotations

import base64
import struct
import zlib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias

from tests.web.browser_kit import Page

Color: TypeAlias = tuple[int, int, int]
COLORS = 128
MAX_BYTES = 120_000
READ_PIXELS = """async (data) => {
    const blob = await (await fetch(`data:image/png;base64,${data}`)).blob();
    const image = await createImageBitmap(blob);
    const context = new OffscreenCanvas(image.width, image.height).getContext("2d");
    context.drawImage(image, 0, 0);
    const { data: pixels } = context.getImageData(0, 0, image.width, image.height);
    let text = "";
    for (let at = 0; at < pixels.length; at += 32768)
        text += String.fromCharCode(...pixels.subarray(at, at + 32768));
    return [image.width, image.height, btoa(text)];
}"""
"""Decode a picture in the browser: width, height, and four bytes for each pixel."""


def write_picture(page: Page, file: Path) -> None:
    """Write a picture of the page. Fails if it is too large for the documentation."""
    shot = page.screenshot(animations="disabled", caret="hide")
    blank = page.context.browser
    assert blank is not None
    decoder = blank.new_page()  # The policy of the page itself forbids `fetch` of data.
    width, height, text = decoder.evaluate(READ_PIXELS, base64.b64encode(shot).decode())
    decoder.close()
    data = encode_with_palette(width, height, base64.b64decode(text))
    assert len(data) <= MAX_BYTES, f"{file.name} has {len(data)} bytes"
    file.write_bytes(data)


def encode_with_palette(width: int, height: int, pixels: bytes) -> bytes:
    """Return a PNG image of pixels with four bytes each, whose last one is not used."""
    values = memoryview(pixels).cast("I")
    counts = Counter(values)
    colors = {value: (value & 255, value >> 8 & 255, value >> 16 & 255) for value in counts}
    palette = choose_palette({colors[value]: count for value, count in counts.items()}, COLORS)
    nearest = {value: find_nearest(palette, color) for value, color in colors.items()}
    indexes = bytes(map(nearest.__getitem__, values))
    rows = b"".join(b"\0" + indexes[at : at + width] for at in range(0, len(indexes), width))
    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        encode_chunk(kind, data)
        for kind, data in (
            (b"IHDR", header),
            (b"PLTE", bytes(part for color in palette for part in color)),
            (b"IDAT", zlib.compress(rows, 9)),
            (b"IEND", b""),
        )
    )


def encode_chunk(kind: bytes, data: bytes) -> bytes:
    """Return a chunk of a PNG file."""
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def choose_palette(counts: dict[Color, int], size: int) -> list[Color]:
    """Return at most `size` colors for a picture: the median cut of its colors.

    The most frequent colors, which are those of surfaces, are in it as they are.
    """
    exact = sorted(counts, key=lambda color: -counts[color])[: size // 4]
    boxes = [[color for color in counts if color not in {*exact}]]
    while len(boxes) < size - len(exact):
        box = max(boxes, key=lambda box: max(widths(box)) * len(box))
        if len(box) < 2:
            break
        boxes.remove(box)
        channel = widths(box).index(max(widths(box)))
        box.sort(key=lambda color: color[channel])
        boxes += [box[: len(box) // 2], box[len(box) // 2 :]]
    return exact + [average(box, counts) for box in boxes if box]


def widths(box: list[Color]) -> list[int]:
    """Return the range of each channel."""
    if not box:
        return [0, 0, 0]
    return [max(channel) - min(channel) for channel in zip(*box, strict=True)]


def average(box: Iterable[Color], counts: dict[Color, int]) -> Color:
    """Return the mean of colors, each as often as it occurs."""
    total = sum(counts[color] for color in box)
    red, green, blue = (
        sum(color[channel] * counts[color] for color in box) // total for channel in range(3)
    )
    return red, green, blue


def find_nearest(palette: list[Color], color: Color) -> int:
    """Return the position of the most similar color."""
    distances = [
        sum((one - other) ** 2 for one, other in zip(entry, color, strict=True))
        for entry in palette
    ]
    return distances.index(min(distances))
