"""Small images of each kind, generated."""

import struct
import zlib


def make_png(width: int, height: int, padding: int = 0) -> bytes:
    """Return a black PNG. A comment of `padding` bytes makes it larger."""
    raw = b"".join(b"\0" + b"\0" * width for _ in range(height))
    chunks = [
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)),
        (b"tEXt", b"c\0" + b"x" * padding),
        (b"IDAT", zlib.compress(raw)),
        (b"IEND", b""),
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in chunks)


def _chunk(kind: bytes, data: bytes) -> bytes:
    crc = struct.pack(">I", zlib.crc32(kind + data))
    return struct.pack(">I", len(data)) + kind + data + crc


def make_gif(width: int, height: int) -> bytes:
    """Return a GIF without image data."""
    return b"GIF89a" + struct.pack("<HHBBB", width, height, 0, 0, 0) + b";"


def make_jpeg(width: int, height: int) -> bytes:
    """Return the segments of a JPEG, with fill bytes, and the size of a thumbnail before its own."""
    exif = b"\xff\xe1" + struct.pack(">H", 12) + b"\xff\xc0\0\x08\x08\0\x01\0\x01\x01"
    size = b"\xff\xff\xff\xc2" + struct.pack(">HBHHB", 8, 8, height, width, 1)
    return b"\xff\xd8" + exif + size + b"\xff\xda\0\x02data\xff\xd9"


def make_webp(kind: bytes, width: int, height: int) -> bytes:
    """Return a WebP of one of its three kinds."""
    if kind == b"VP8X":
        data = b"\0\0\0\0" + (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    elif kind == b"VP8L":
        data = b"\x2f" + struct.pack("<I", (width - 1) | (height - 1) << 14)
    else:
        data = b"\0\0\0\x9d\x01\x2a" + struct.pack("<HH", width, height)
    inner = b"WEBP" + kind + struct.pack("<I", len(data)) + data
    return b"RIFF" + struct.pack("<I", len(inner)) + inner
