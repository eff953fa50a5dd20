"""Decode HTTP bodies and sanitize request paths for recording.

All recorders of calls (the proxy, a wrapped client) use these functions, so that they record the
same text: a path without credentials, a body decompressed. The traffic itself is not changed.
"""

from __future__ import annotations

import io
import re
import zlib
from importlib import import_module
from urllib.parse import quote_plus, unquote_plus

import msgspec
import zstandard

from harken.core.secrets.redaction import redact
from harken.errors import FormatError

_CHUNK_BYTES = 1 << 10
_GZIP, _RAW = 31, -15


class DecodedBody(msgspec.Struct, frozen=True):
    """A decompressed body."""

    data: bytes
    """The bytes received that could be decompressed."""
    problem: str = ""
    """Why decompression failed. Empty if it did not."""


def decode_body(data: bytes, encoding: str, most_bytes: int) -> DecodedBody:
    """Decompress a body. Never raises; `encoding` is the value of the header.

    >>> decode_body(zlib.compress(b"Hi"), "deflate", 100).data
    b'Hi'
    """
    names = [name.strip().lower() for name in encoding.split(",") if name.strip()]
    for name in reversed(names):  # Encodings are listed in the order they were applied.
        try:
            data = _decompress_once(data, name, most_bytes)
        except ImportError:
            return DecodedBody(b"", "it is compressed with br; to decode it: pip install brotli")
        except LookupError:
            return DecodedBody(b"", f"its content encoding {name[:40]!r} is not supported")
        except Exception as error:  # noqa: BLE001 - each library has its own; all mean damage
            return DecodedBody(b"", f"decompression failed ({name}: {error})")
        if len(data) > most_bytes:
            return DecodedBody(
                data[:most_bytes], f"decompressed, it has more than {most_bytes} bytes"
            )
    return DecodedBody(data)


def _decompress_once(data: bytes, name: str, most_bytes: int) -> bytes:
    """Undo one encoding.

    Return at most one byte, or one chunk, more than `most_bytes`: the data may be a decompression
    bomb.
    """
    if name == "identity":
        return data
    if name in {"gzip", "x-gzip"}:
        return _gzip(data, most_bytes)
    if name == "deflate":  # Some servers send raw deflate without the zlib header.
        has_head = data[:1] and data[0] & 0xF == 8 and int.from_bytes(data[:2], "big") % 31 == 0
        return zlib.decompressobj(15 if has_head else _RAW).decompress(data, most_bytes + 1)
    if name == "zstd":
        source = zstandard.ZstdDecompressor().stream_reader(
            io.BytesIO(data), read_across_frames=True
        )
        return source.read(most_bytes + 1)
    if name == "br":
        return _brotli(data, most_bytes)
    raise LookupError(name)


def _gzip(data: bytes, most_bytes: int) -> bytes:
    """Return the content of all gzip members. Some servers flush by starting a new member."""
    decoded = bytearray()
    while data and len(decoded) <= most_bytes:
        member = zlib.decompressobj(_GZIP)
        decoded += member.decompress(data, most_bytes + 1 - len(decoded))
        data = member.unused_data if member.eof else b""
    return bytes(decoded)


def _brotli(data: bytes, most_bytes: int) -> bytes:
    process, decoded = import_module("brotli").Decompressor().process, bytearray()
    for offset in range(0, len(data), _CHUNK_BYTES):
        decoded += process(data[offset : offset + _CHUNK_BYTES])
        if len(decoded) > most_bytes:
            break
    return bytes(decoded)


MAX_BODY_BYTES = 1 << 28
"""A body that is larger when decompressed is not recorded."""
_SECRET_PATTERN = re.compile(
    r"(?:^|[-_.])(?:(?:api)?key|(?:access|auth|security|id|refresh)?token|sig(?:nature)?|secret"
    r"|password|credentials?|auth(?:orization)?|code)$",
    re.IGNORECASE,
)


def sanitize_path(target: str) -> str:
    """Return the path of a request with its query, without parameters that may be credentials.

    >>> sanitize_path("/v1/messages?beta=true&key=AIza123&X-Amz-Signature=5f")
    '/v1/messages?beta=true'
    """
    path, _, query = target.partition("#")[0].partition("?")
    safe_pairs = [pair for pair in query.split("&") if pair and not _is_secret(pair)]
    path = path if redact(path).text == path else quote_plus(redact(path).text, safe="/")
    return f"{path}?{'&'.join(safe_pairs)}" if safe_pairs else path


def _is_secret(pair: str) -> bool:
    name, _, value = pair.partition("=")
    return bool(_SECRET_PATTERN.search(unquote_plus(name)) or redact(unquote_plus(value)).matches)


def decompress_body(data: bytes, encoding: str, *, most_bytes: int = MAX_BODY_BYTES) -> bytes:
    """Return a decompressed body. Of a truncated body, return the part received.

    encoding: the `Content-Encoding` header; empty if the body is not compressed. Raises FormatError
    for an unsupported encoding, for invalid data, and for more than `most_bytes`.
    """
    decoded = decode_body(data, encoding, most_bytes)
    if decoded.problem:
        raise FormatError("body", decoded.problem)
    return decoded.data
