"""Recorded bodies are decompressed, as far as they arrived."""

from __future__ import annotations

import gzip
import zlib
from typing import Any

import pytest
import zstandard

from harken.recording.body import decode_body

TEXT = b'data: {"delta": "The kettle whistles"}\n\n' * 100
RAW = zlib.compressobj(wbits=-15)
PACKED = {
    "": TEXT,
    "identity": TEXT,
    "gzip": gzip.compress(TEXT),
    "X-GZIP": gzip.compress(TEXT),
    "deflate": zlib.compress(TEXT),
    "Deflate ": RAW.compress(TEXT) + RAW.flush(),
    "zstd": zstandard.compress(TEXT),
    "deflate, gzip": gzip.compress(zlib.compress(TEXT)),
}


@pytest.mark.parametrize("encoding", PACKED)
def test_compressed_body_round_trips(encoding: str) -> None:
    assert decode_body(PACKED[encoding], encoding, 10**6) == decode_body(TEXT, "", 10**6)
    assert decode_body(PACKED[encoding], encoding, 10**6).data == TEXT


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_truncated_body_is_decompressed_to_its_end(encoding: str) -> None:
    step = zlib.compressobj(wbits=31 if encoding == "gzip" else 15)
    data = step.compress(b"one") + step.flush(zlib.Z_SYNC_FLUSH) + step.compress(TEXT)
    decoded = decode_body(data, encoding, 10**6)
    assert (decoded.data, decoded.problem) == (b"one", "")


@pytest.mark.parametrize("encoding", ["gzip", "zstd", "deflate"])
def test_invalid_compressed_body_is_an_error(encoding: str) -> None:
    decoded = decode_body(b"\xff no, this is plain", encoding, 10**6)
    assert decoded.data == b""
    assert decoded.problem.startswith(f"decompression failed ({encoding}: ")


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_decompression_bomb_is_truncated(encoding: str) -> None:
    pack: Any = {"gzip": gzip.compress, "zstd": zstandard.compress}[encoding]
    decoded = decode_body(pack(b"\0" * 10_000_000), encoding, 1000)
    assert len(decoded.data) == 1000
    assert decoded.problem == "decompressed, it has more than 1000 bytes"


def test_unknown_encoding_is_an_error() -> None:
    assert decode_body(b"x", "lzma", 10).problem.endswith("'lzma' is not supported")


def test_brotli_is_decoded_if_installed() -> None:
    brotli: Any = pytest.importorskip("brotli")
    assert decode_body(brotli.compress(TEXT), "br", 10**6) == decode_body(TEXT, "", 10**6)
    assert decode_body(brotli.compress(b"\0" * 10**6), "br", 1000).problem.startswith(
        "decompressed,"
    )
    assert decode_body(TEXT, "br", 1000).problem.startswith("decompression failed (br: ")
