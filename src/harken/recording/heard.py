"""What passes on the wire, as it may be recorded: a path without credentials, a body decompressed.

Whoever sees calls (the proxy, a wrapped client) uses it, so that all write the same down.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Mapping
from importlib import import_module
from urllib.parse import quote_plus, unquote_plus

from harken.core.redaction import redact
from harken.errors import FormatError

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


def body_of(data: bytes, encoding: str, *, most_bytes: int = MOST_BYTES) -> bytes:
    """Return a body as it was before it was compressed; one that was cut off, as far as it came.

    encoding: the header `Content-Encoding`; empty: it was not. Raises FormatError for an encoding
    that cannot be read here, for data that is not of it, and for more than `most_bytes`.
    """
    for name in reversed([one.strip().lower() for one in encoding.split(",")]):
        if name in ("", "identity"):
            continue
        read = _READERS.get(name)
        if read is None:
            raise FormatError("body", f"it is encoded as {name[:40]!r}, which is not read here")
        try:
            data = read(data, most_bytes)
        except FormatError:
            raise
        except Exception as error:  # noqa: BLE001 - of three libraries, each with its own
            raise FormatError("body", f"it is not {name} ({error})"[:120]) from None
    _bounded(data, most_bytes)
    return data


def _bounded(data: bytes | bytearray, most_bytes: int) -> None:
    if len(data) > most_bytes:
        raise FormatError("body", f"it has more than {most_bytes} bytes")


def _gzip(data: bytes, most_bytes: int) -> bytes:
    whole = b""
    while data:
        one = zlib.decompressobj(wbits=47)  # gzip or zlib, as its header says
        whole += one.decompress(data, most_bytes + 1 - len(whole))
        data = one.unused_data if one.eof else b""
        _bounded(whole, most_bytes)
    return whole


def _deflate(data: bytes, most_bytes: int) -> bytes:
    try:
        return _gzip(data, most_bytes)
    except zlib.error:  # some send it without a header
        return zlib.decompressobj(wbits=-15).decompress(data, most_bytes + 1)


def _zstd(data: bytes, most_bytes: int) -> bytes:
    import zstandard  # noqa: PLC0415 - for the rare answer that needs it

    reader = zstandard.ZstdDecompressor(max_window_size=_WINDOW_BYTES).decompressobj()
    whole = bytearray()
    for at in range(0, len(data), _STEP_BYTES):
        whole += reader.decompress(data[at : at + _STEP_BYTES])
        if reader.eof or len(whole) > most_bytes:
            break
    return bytes(whole)


def _brotli(data: bytes, most_bytes: int) -> bytes:
    for name in ("brotli", "brotlicffi"):
        try:
            reader = import_module(name).Decompressor()
        except ImportError:
            continue
        whole = bytearray()
        for at in range(0, len(data), _STEP_BYTES):
            whole += reader.process(data[at : at + _STEP_BYTES])
            _bounded(whole, most_bytes)
        return bytes(whole)
    raise FormatError("body", "it is encoded as brotli: pip install brotli")


_STEP_BYTES = 4096
"""Of a compressed body, so that one that unpacks to a thousand times its size is seen in time."""
_WINDOW_BYTES = 1 << 27
_READERS: Mapping[str, Callable[[bytes, int], bytes]] = {
    "gzip": _gzip,
    "x-gzip": _gzip,
    "deflate": _deflate,
    "zstd": _zstd,
    "br": _brotli,
}
