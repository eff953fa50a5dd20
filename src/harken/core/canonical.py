r"""Canonical bytes and hashes: the only module that derives an identity from content.

A value is encoded as JSON by RFC 8785: members sorted, no white space, UTF-8, escapes only
where JSON requires them; a lone surrogate is written as its `\\udxxx` escape. An identity is
BLAKE3 over a domain line and the canonical bytes, so that a shell can check it:

    printf 'harken.part.v1\\n{"text":"hi","type":"text"}' | b3sum

A changed hash is a change of format (docs/formats/session-log.md, "Identity").
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import msgspec
from blake3 import blake3

PART_DOMAIN = b"harken.part.v1\n"
MESSAGE_DOMAIN = b"harken.message.v1\n"
CONTEXT_DOMAIN = b"harken.context.v1\n"
TOOLS_DOMAIN = b"harken.tools.v1\n"
REQUEST_DOMAIN = b"harken.request.v1\n"
DELTA_DOMAIN = b"harken.delta.v1\n"
SEQUENCE_DOMAIN = b"harken.sequence.v1\n"
RAW_DOMAIN = b"harken.raw.v1\n"
COMMIT_DOMAIN = b"harken.commit.v1\n"


def _encode_str_subclass(value: object) -> object:
    """Convert an instance of a str subclass to str, because msgspec encodes only str itself."""
    if isinstance(value, str):
        return str(value)
    raise TypeError(f"{type(value).__name__} is not a JSON value")


_encoder = msgspec.json.Encoder(enc_hook=_encode_str_subclass)
_sorted_encoder = msgspec.json.Encoder(enc_hook=_encode_str_subclass, order="sorted")
_decoder = msgspec.json.Decoder()


def to_json_line(value: object) -> bytes:
    """Encode `value` as one line of JSON, members in their order. Lone surrogates are kept."""
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:
        return _encode_with_surrogates(
            msgspec.to_builtins(value, enc_hook=_encode_str_subclass), sort=False
        )


def to_canonical_bytes(value: object) -> bytes:
    """Return the canonical bytes of a JSON value (RFC 8785 for all but numbers, which parts lack).

    >>> to_canonical_bytes({"b": 1, "a": [True, None]})
    b'{"a":[true,null],"b":1}'
    """
    try:
        return _sorted_encoder.encode(value)
    except UnicodeEncodeError:
        return _encode_with_surrogates(
            msgspec.to_builtins(value, enc_hook=_encode_str_subclass), sort=True
        )


def from_json(data: bytes, join: Callable[[list[tuple[str, Any]]], Any] | None = None) -> Any:
    """Decode the JSON value in `data`. Raises ValueError if it is not JSON.

    A number that is not finite becomes null, as `to_json_line` writes it. Of a repeated member, the
    last value counts.

    join: returns an object for its members, to treat repeated ones in another way.

    >>> from_json(b"[NaN, 1e999, 1.5]")
    [None, None, 1.5]
    """
    try:
        try:
            if join is None:
                return _decoder.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError):
            pass  # msgspec rejects lone surrogates and NaN.
        return json.loads(
            data,
            parse_constant=_parse_finite,
            parse_float=_parse_finite,
            object_pairs_hook=join,
        )
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _parse_finite(number: str) -> float | None:
    value = float(number)
    return value if math.isfinite(value) else None


def hash_bytes(domain: bytes, data: bytes) -> bytes:
    """Return the 32 bytes of BLAKE3 over a domain line and the data."""
    return blake3(domain + data).digest()


def hash_value(domain: bytes, value: object) -> str:
    """Return the identity of a JSON value in a domain: 64 hex digits."""
    return blake3(domain + to_canonical_bytes(value)).hexdigest()


def _encode_with_surrogates(value: object, *, sort: bool) -> bytes:
    text = json.dumps(value, ensure_ascii=False, sort_keys=sort, separators=(",", ":"))
    return text.encode("utf-8", "backslashreplace")  # only lone surrogates are unencodable
