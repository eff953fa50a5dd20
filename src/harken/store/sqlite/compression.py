"""Zstandard compression with a dictionary of text that is frequent in packs.

Source: docs/formats/store.md, "Packs"; docs/design/004-context-store.md has the measurements.

The dictionary lists frequent strings, the most frequent last. It is part of the format: a changed
byte makes every pack unreadable. Another dictionary is another form of packs.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

import zstandard

ENGLISH = (
    "because could should would however therefore although through between another something "
    "different important following question answer example number people without against during "
    "before after again always where there their these those which while being having other than "
    "then them they what when will with your from have this that only some such more most very "
    "into over about also been can did does had has her him his how its just like make may much "
    "must new not now off one our out own she should so time two up use used using was way we well "
    "were who why work you are but for all any and the is in of to a . The This That It I We You "
    "If In So Let me I will I'll need to want to going to there is there are it is does not do not "
    "is not can be should be has been have been will be to be of the in the to the on the for the "
    "and the with the from the at the by the that the is the into the as a in a of a with a for a "
)
CODE = (
    "function return import class self None True False def async await const let var string int "
    "list dict error Error: warning failed passed tests test file files line lines code command "
    "output result results value values name path directory changed commit branch added removed "
    "updated created deleted read write found No such file or directory\\nTraceback (most recent "
    'call last):\\n  File \\"/src/main.py\\", line 1, in <module>\\n    for i in range(len( if not '
    'is None: else: raise ValueError(f\\" print( = [] = {} == != += => -> :\\n    \\n\\n- \\n1. ```'
    "python\\n```\\n## **Note** "
)
MESSAGES = (
    '{"data":"","kind":"","type":"other"}{"data":"","media_type":"image/png","type":"image",'
    '"url":null}{"text":"","type":"thinking"}{"arguments":"{\\"path\\": \\"\\", \\"command\\": '
    '\\"\\", \\"pattern\\": \\"\\", \\"content\\": \\"}","kind":"function","name":"read_file",'
    '"type":"tool_call"}{"content":[{"text":"","type":"text"}],"is_error":false,"type":'
    '"tool_result"}","source":{"input_tokens":,"output_tokens":,"message_id":"msg_0"},"time":"'
    '"metas":{"0":{"signature":"","meta":{"id":"","calls":[{"id":"call_toolu_01"}],"name":"",'
    '"shape":"none"},"shape":"list","tool_call_id":"'
    '{"artifact":"art-\x01000000","checkpoint":"session_end","checkpoint":"tool_call","checkpoint":'
    '"turn_boundary","created_at":"2026-0T:.000Z","format":"claude-code-v1","machine":"",'
    '"message_count":2,"parent":"ctx-\x01000000","principal":"","session_id":"","template":"",'
    '"thread_id":"","ticket_id":"tkt-","token_count":,"type":"compaction"}'
    '[{"message":"\x01000002","occurrence":{},"time":"2026-"},{"message":"\x01000004","occurrence":{}}]'
    '{"parts":["\x01000001"],"role":"system"}{"parts":["\x01000003"],"role":"tool"}'
    '{"parts":["\x01000001"],"role":"user"}{"parts":["\x01000003"],"role":"assistant"}'
    '.","type":"text"}{"text":"'
)
WORDS = (ENGLISH + CODE + MESSAGES).encode()
MAX_CONTENT_BYTES = 512 * 1024 * 1024
"""Larger frames are rejected: a false size would only exhaust the memory."""
SMALL_BYTES = 12 * 1024
"""Smaller data is compressed quickly, since it will be merged with other packs."""
_QUICK_LEVEL, _STREAM_LEVEL, _THOROUGH_LEVEL = 1, 3, 6


class DecompressionError(ValueError):
    """Compressed bytes are damaged."""


class _Zstandard(threading.local):
    """The compressors of one thread, which are expensive to create."""

    def __init__(self) -> None:
        self._compressors: dict[int, zstandard.ZstdCompressor] = {}
        self._stream_compressor = zstandard.ZstdCompressor(level=_STREAM_LEVEL)
        self._decompressor = zstandard.ZstdDecompressor(dict_data=_create_dictionary_data())
        self._stream_decompressor = zstandard.ZstdDecompressor()

    def compressed(self, data: bytes) -> bytes:
        level = _QUICK_LEVEL if len(data) < SMALL_BYTES else _THOROUGH_LEVEL
        compressor = self._compressors.get(level)
        if compressor is None:
            compressor = self._compressors[level] = zstandard.ZstdCompressor(
                dict_data=_create_dictionary(level), compression_params=_create_parameters(level)
            )
        return compressor.compress(data)

    def woven(self, parts: Sequence[bytes]) -> bytes:
        compressor = self._stream_compressor.compressobj(size=sum(map(len, parts)))
        chunks = [
            compressor.compress(parts[0]),
            compressor.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK),
        ]
        chunks += [compressor.compress(part) for part in parts[1:]]
        return b"".join([*chunks, compressor.flush()])

    def decompress(self, data: bytes) -> bytes:
        size = read_content_size(data)
        if size > MAX_CONTENT_BYTES:
            raise DecompressionError(f"its header has a content size of {size} bytes")
        return self._decompressor.decompress(data)

    def unwoven(self, data: bytes, first: int) -> bytes:
        if not 0 <= first <= min(read_content_size(data), MAX_CONTENT_BYTES):
            raise DecompressionError(
                f"its first part has {first} bytes, its content {read_content_size(data)}"
            )
        content = self._stream_decompressor.stream_reader(data).read(first)
        if len(content) < first:
            raise DecompressionError(f"it has only {len(content)} of {first} bytes")
        return content


def compress(data: bytes) -> bytes:
    """Compress bytes into a Zstandard frame that contains the content size."""
    return _zstandard.compressed(data)


def compress_parts(parts: Sequence[bytes]) -> bytes:
    """Compress similar parts into one frame, the first part as a block of its own.

    The dictionary is not used: its matches would take precedence over distant ones.
    """
    return _zstandard.woven(parts)


def read_content_size(data: bytes) -> int:
    """Return the content size in the header of a frame. Raises DecompressionError."""
    try:
        size = zstandard.frame_content_size(data)
    except zstandard.ZstdError as error:
        raise DecompressionError(str(error)) from None
    if size < 0:
        raise DecompressionError("its header has no content size")
    return size


def decompress(data: bytes) -> bytes:
    """Decompress a frame. Raises DecompressionError."""
    try:
        return _zstandard.decompress(data)
    except zstandard.ZstdError as error:
        raise DecompressionError(str(error)) from None


def decompress_first(data: bytes, first: int) -> bytes:
    """Return the first `first` bytes in a `woven` frame. Raises DecompressionError."""
    try:
        return _zstandard.unwoven(data, first)
    except zstandard.ZstdError as error:
        raise DecompressionError(str(error)) from None


def _create_parameters(level: int) -> zstandard.ZstdCompressionParameters:
    options = {"write_checksum": 0, "write_content_size": 1, "write_dict_id": 0}
    if level == _QUICK_LEVEL:
        options |= {"source_size": SMALL_BYTES, "dict_size": len(WORDS)}
    return zstandard.ZstdCompressionParameters.from_level(level, **options)


def _create_dictionary(level: int) -> zstandard.ZstdCompressionDict:
    dictionary = _create_dictionary_data()
    dictionary.precompute_compress(compression_params=_create_parameters(level))
    return dictionary


def _create_dictionary_data() -> zstandard.ZstdCompressionDict:
    return zstandard.ZstdCompressionDict(WORDS, dict_type=zstandard.DICT_TYPE_RAWCONTENT)


_zstandard = _Zstandard()
