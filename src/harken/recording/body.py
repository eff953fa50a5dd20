"""Bodies as their sender compressed them, decompressed: for the record only, what passes stays.

What passes on the wire, as it may be recorded: a path without credentials, a body decompressed.

Whoever sees calls (the proxy, a wrapped client) uses it, so that all write the same down.
"""

from __future__ import annotations

import io
import re
import zlib
from dataclasses import dataclass
from importlib import import_module
from urllib.parse import quote_plus, unquote_plus

import zstandard

from harken.core.secrets.redaction import redact
from harken.errors import FormatError

_PIECE = 1 << 10
_GZIP, _RAW = 31, -15


@dataclass(frozen=True, slots=True)
class DecodedBody:
    """What a body says."""

    data: bytes
    """As far as it came, and could be decompressed."""
    problem: str = ""
    """Why it could not; empty: it could."""


def decode_body(data: bytes, encoding: str, most_bytes: int) -> DecodedBody:
    """Decompress a body. Never raises; `encoding` is the value of the header.

    >>> decode_body(zlib.compress(b"Hi"), "deflate", 100).data
    b'Hi'
    """
    names = [name.strip().lower() for name in encoding.split(",") if name.strip()]
    for name in reversed(names):  # the last one was put on last
        try:
            data = _once(data, name, most_bytes)
        except ImportError:
            return DecodedBody(
                b"", "it is compressed with br, to read which takes: pip install brotli"
            )
        except LookupError:
            return DecodedBody(
                b"", f"it is compressed in a way that nobody here knows: {name[:40]!r}"
            )
        except Exception as error:  # noqa: BLE001 - each library has its own; all mean damage
            return DecodedBody(b"", f"it is not compressed as it says ({name}: {error})")
        if len(data) > most_bytes:
            return DecodedBody(
                data[:most_bytes], f"decompressed, it has more than {most_bytes} bytes"
            )
    return DecodedBody(data)


def _once(data: bytes, name: str, most_bytes: int) -> bytes:
    """Return no more than a byte too many, or a piece: who sends it may mean harm."""
    if name == "identity":
        return data
    if name in {"gzip", "x-gzip"}:
        return _gzip(data, most_bytes)
    if name == "deflate":  # some send it without the head that it should have
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
    """Return what all members hold: some servers flush by beginning a new one."""
    found = bytearray()
    while data and len(found) <= most_bytes:
        member = zlib.decompressobj(_GZIP)
        found += member.decompress(data, most_bytes + 1 - len(found))
        data = member.unused_data if member.eof else b""
    return bytes(found)


def _brotli(data: bytes, most_bytes: int) -> bytes:
    process, found = import_module("brotli").Decompressor().process, bytearray()
    for at in range(0, len(data), _PIECE):
        found += process(data[at : at + _PIECE])
        if len(found) > most_bytes:
            break
    return bytes(found)


MOST_BYTES = 1 << 28
"""What is larger, decompressed, is not recorded."""


_SECRET = re.compile(
    r"(?:^|[-_.])(?:(?:api)?key|(?:access|auth|security|id|refresh)?token|sig(?:nature)?|secret"
    r"|password|credentials?|auth(?:orization)?|code)$",
    re.IGNORECASE,
)


def path_of(target: str) -> str:
    """Return the path of a request with its query, without what could be a credential.

    >>> path_of("/v1/messages?beta=true&key=AIza123&X-Amz-Signature=5f")
    '/v1/messages?beta=true'
    """
    path, _, query = target.partition("#")[0].partition("?")
    kept = [pair for pair in query.split("&") if pair and not _is_secret(pair)]
    path = path if redact(path).text == path else quote_plus(redact(path).text, safe="/")
    return f"{path}?{'&'.join(kept)}" if kept else path


def _is_secret(pair: str) -> bool:
    name, _, value = pair.partition("=")
    return bool(_SECRET.search(unquote_plus(name)) or redact(unquote_plus(value)).found)


def body_from_bytes(data: bytes, encoding: str, *, most_bytes: int = MOST_BYTES) -> bytes:
    """Return a body as it was before it was compressed; one that was cut off, as far as it came.

    encoding: the header `Content-Encoding`; empty: it was not. Raises FormatError for an encoding
    that cannot be read here, for data that is not of it, and for more than `most_bytes`.
    """
    found = decode_body(data, encoding, most_bytes)
    if found.problem:
        raise FormatError("body", found.problem)
    return found.data
