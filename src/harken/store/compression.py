"""Zstandard, with the words that packs have in common.

Source: docs/formats/store.md, "Packs"; docs/design/004-context-store.md has what was measured.
"""

from __future__ import annotations

import threading

import zstandard

from harken.store.words import WORDS

LARGEST = 512 * 1024 * 1024
"""Nothing is opened that says that it is larger: it would only be a way to fill the memory."""
SMALL = 12 * 1024
"""What is smaller is compressed quickly: it will be put together with others."""
_QUICK, _THOROUGH = 1, 6


class Unopened(ValueError):
    """The bytes are not what they were."""


class _Zstandard(threading.local):
    """Compressors of one thread: making them anew costs more than compressing little."""

    def __init__(self) -> None:
        self._compressors: dict[int, zstandard.ZstdCompressor] = {}
        self._opener = zstandard.ZstdDecompressor(dict_data=_words())

    def compressed(self, data: bytes) -> bytes:
        level = _QUICK if len(data) < SMALL else _THOROUGH
        found = self._compressors.get(level)
        if found is None:
            found = self._compressors[level] = zstandard.ZstdCompressor(
                dict_data=_dictionary(level), compression_params=_parameters(level)
            )
        return found.compress(data)

    def opened(self, data: bytes) -> bytes:
        size = zstandard.frame_content_size(data)
        if not 0 <= size <= LARGEST:
            raise Unopened(f"it says that it has {size} bytes")
        return self._opener.decompress(data)


def compressed(data: bytes) -> bytes:
    """Return a Zstandard frame that says how long its content is."""
    return _zstandard.compressed(data)


def opened(data: bytes) -> bytes:
    """Return what was compressed. Raises Unopened."""
    try:
        return _zstandard.opened(data)
    except zstandard.ZstdError as error:
        raise Unopened(str(error)) from None


def _parameters(level: int) -> zstandard.ZstdCompressionParameters:
    how = {"write_checksum": 0, "write_content_size": 1, "write_dict_id": 0}
    if level == _QUICK:
        how |= {"source_size": SMALL, "dict_size": len(WORDS)}
    return zstandard.ZstdCompressionParameters.from_level(level, **how)


def _dictionary(level: int) -> zstandard.ZstdCompressionDict:
    found = _words()
    found.precompute_compress(compression_params=_parameters(level))
    return found


def _words() -> zstandard.ZstdCompressionDict:
    return zstandard.ZstdCompressionDict(WORDS, dict_type=zstandard.DICT_TYPE_RAWCONTENT)


_zstandard = _Zstandard()
