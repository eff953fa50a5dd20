"""Recorded paths have no credentials, and bodies are decompressed."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from harken.errors import FormatError
from harken.recording.body import decompress_body, sanitize_path


@pytest.mark.parametrize(
    ("target", "path"),
    [
        ("/v1/messages", "/v1/messages"),
        ("/v1/messages?beta=true", "/v1/messages?beta=true"),
        ("/v1beta/models/g:streamGenerateContent?alt=sse&key=AIza1", "/v1beta/models/g:streamGenerateContent?alt=sse"),
        ("/x?api-version=2026-01-01&api_key=1&access_token=2", "/x?api-version=2026-01-01"),
        ("/x?%6Bey=1", "/x"),
        ("/x?a=1&X-Amz-Signature=5f&X-Amz-Credential=c", "/x?a=1"),
        ("/x?max_tokens=5", "/x?max_tokens=5"),
        ("/x?note=AKIAQ7WZX5T2MN3BVC4D", "/x"),
    ],
)  # fmt: skip
def test_path_has_its_query_without_credentials(target: str, path: str) -> None:
    assert sanitize_path(target) == path


def test_credential_within_a_path_is_not_recorded() -> None:
    assert "AKIA" not in sanitize_path("/proxy/AKIAQ7WZX5T2MN3BVC4D/v1/messages")


def _raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


PACKED: dict[str, Callable[[bytes], bytes]] = {
    "": lambda data: data,
    "identity": lambda data: data,
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "Deflate": _raw_deflate,
    "zstd": zstandard.compress,
    "gzip, zstd": lambda data: zstandard.compress(gzip.compress(data)),
}


@pytest.mark.parametrize("encoding", PACKED)
@given(data=st.binary(max_size=10_000))
def test_body_is_decompressed(encoding: str, data: bytes) -> None:
    assert decompress_body(PACKED[encoding](data), encoding) == data


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "zstd"])
def test_truncated_body_is_decompressed_to_its_end(encoding: str) -> None:
    data = bytes(range(256)) * 4000
    part = decompress_body(PACKED[encoding](data)[:-20], encoding)
    assert data.startswith(part)


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "zstd"])
def test_decompression_bomb_is_refused(encoding: str) -> None:
    with pytest.raises(FormatError, match="more than 1000 bytes"):
        decompress_body(PACKED[encoding](b" " * 10_000_000), encoding, most_bytes=1000)


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "zstd", "rot13"])
def test_body_that_contradicts_its_encoding_is_refused(encoding: str) -> None:
    with pytest.raises(FormatError):
        decompress_body(b"plain text", encoding)
