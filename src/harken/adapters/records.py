"""The rows of a checkpoint file, and their encoding.

A row is MessagePack, compressed with a dictionary of words that checkpoints repeat, and sealed with
a checksum over its bytes and its key. So a damaged or exchanged row is an error, never another
checkpoint.

Source: docs/formats/checkpoints.md.
"""

from __future__ import annotations

import threading
from typing import Any, TypeAlias, TypeVar
from uuid import UUID

import msgspec
import zstandard
from blake3 import blake3

from harken.core.commits import ArtifactRef, CommitId

TypedBytes: TypeAlias = tuple[str, bytes]
"""A value as the serializer of the framework wrote it: the kind of encoding, and the bytes."""
SEAL_BYTES = 8
REPLACED_MARK = b"\x03"
"""The first byte of the id of a checkpoint that was written again. A number of 8 bytes follows."""
MAX_BODY_BYTES = 1 << 30
"""Larger bodies are rejected: a false size would only exhaust the memory."""
_LEVEL = 3
_WORDS = (
    b"langchain_core.messages.tool\xabToolMessage\xa6artifact\xa6status\xa7success\xactool_call_id"
    b"\xa2v\x01\xa3seen__interrupt____error__\xa7__pregel_tasks\xaf__pregel_resuming"
    b"\xa7parents\x80\xa6run_id\xb4langgraph_auth_user\xa5input\xa6update\xa4fork"
    b"\xaeinput_tokens\xadoutput_tokens\xactotal_tokens\xb3input_token_details\xaacache_read"
    b"\xa5model\xaamodel_name\xadfinish_reason\xa4stop\xaatool_calls\xa4args\xa9function"
    b"\xa4role\xa4user\xa9assistant\xa6system\xa4tool\xa7content\xa4text\xa4type"
    b"\xbdlangchain_core.messages.human\xacHumanMessage\x86\xa7content\xda\x01"
    b"\xb1additional_kwargs\x80\xb1response_metadata\x80\xa4type\xa5human\xa4name\xc0\xa2id"
    b"\xb3model_validate_json\xc8\x02\xa3\x05\x94"
    b"\xbalangchain_core.messages.ai\xa9AIMessage\x89\xa7content\xda\x01"
    b"\xb1additional_kwargs\x80\xb1response_metadata\x80\xa4type\xa2ai\xa4name\xc0\xa2id"
    b"\xaatool_calls\x90\xb2invalid_tool_calls\x90\xaeusage_metadata\xc0\xb3model_validate_json"
    b"\xa9__input__\x81\xa9__start__\x01\xaabranch:to:\xa5agent\xa5tools\xa8messages"
    b"\xadversions_seen\xb0channel_versions\xb0updated_channels\x91\xa8messages"
    b"\xa6source\xa4loop\xa4step\xa7parents\x80\xa7msgpack\xa4null\xc4"
    b"\x82\xa1v\x04\xa2ts\xd9 2026-01-01T00:00:00.000000+00:00\xa2id\xd9$1f1"
)
"""The dictionary, part of the format: the most frequent words stand last."""


class InlineValue(msgspec.Struct, frozen=True, array_like=True, tag="value"):
    """The value of a channel that changed in this checkpoint."""

    kind: str
    data: bytes


class SharedValue(msgspec.Struct, frozen=True, array_like=True, tag="same"):
    """The value of a channel that is that of an earlier checkpoint."""

    holder: int
    """The number of the row that has the value."""


class ListChange(msgspec.Struct, frozen=True, array_like=True, tag="list"):
    """The value of a channel that is a list: the beginning of an earlier list, and new items."""

    base: int
    """The number of the row that has the earlier list. 0 if there is none."""
    keep: int
    """The number of items of the earlier list."""
    count: int
    """The number of items in all. If it exceeds `keep`, the row has new items."""


Value: TypeAlias = InlineValue | SharedValue | ListChange


class CheckpointBody(msgspec.Struct, frozen=True, array_like=True):
    """The content of a checkpoint."""

    head: TypedBytes
    """All members of the checkpoint except for the values of its channels."""
    metadata: TypedBytes
    values: dict[str, Value]
    delta_channels: tuple[str, ...] = ()
    """Channels whose value is computed from the writes of earlier checkpoints."""


PLAIN = "plain"
"""The kind of data that needs no serializer of a framework: MessagePack."""


class ListPiece(msgspec.Struct, frozen=True, array_like=True):
    """The items that one checkpoint added to a list."""

    checkpoint: str
    """The id of the checkpoint."""
    time: str
    keep: int
    items: TypedBytes | None
    """None if it only removed items."""


class FoldedList(msgspec.Struct, frozen=True, array_like=True):
    """The changes of one list in a chain of checkpoints."""

    base: str
    """The checkpoint before them that has the list. Empty if there is none."""
    pieces: list[ListPiece]
    """Oldest first."""


class FoldContent(msgspec.Struct, frozen=True, array_like=True):
    """The new items of a chain of checkpoints, as one artifact of the store."""

    lists: dict[str, FoldedList]


class Fold(msgspec.Struct, frozen=True):
    """A chain of checkpoints whose new items are in the store."""

    number: int
    """The number of its last checkpoint."""
    previous: int
    """The fold that has the checkpoint before its first one. 0 if there is none."""
    artifact: ArtifactRef
    ctx: CommitId | None
    """The commit whose context is that of its last checkpoint. None if it has no messages."""
    messages: int
    """The number of messages in this context."""
    start: str = ""
    """The id of the checkpoint before its first one. Empty if there is none."""
    title: str = ""
    """The beginning of the first text of the conversation that a user wrote."""
    time: str = ""
    """The time of its last checkpoint: UTC, RFC 3339."""


class ThreadListing(msgspec.Struct, frozen=True):
    """A thread as a list of sessions shows it."""

    folds: list[Fold]
    """The folds of its last checkpoints, the latest checkpoint first."""
    size_bytes: int
    is_complete: bool
    """Whether all its last checkpoints are folded."""


T = TypeVar("T")
_encoder = msgspec.msgpack.Encoder()
_dictionary = zstandard.ZstdCompressionDict(_WORDS, zstandard.DICT_TYPE_RAWCONTENT)
_dictionary.precompute_compress(level=_LEVEL)  # Otherwise each thread would index the dictionary.


class _Codec(threading.local):
    """The compressors of a thread: they may not be shared."""

    def __init__(self) -> None:
        self.compress = zstandard.ZstdCompressor(level=_LEVEL, dict_data=_dictionary).compress
        self.decompress = zstandard.ZstdDecompressor(
            dict_data=_dictionary, max_window_size=MAX_BODY_BYTES
        ).decompress


_codec = _Codec()
_decoders: dict[Any, msgspec.msgpack.Decoder[Any]] = {}


def pack(value: object) -> bytes:
    """Encode a value as MessagePack."""
    return _encoder.encode(value)


def unpack(data: bytes, kind: type[T]) -> T:
    """Decode a value of this type. Raises ValueError if the bytes are invalid."""
    decoder = _decoders.get(kind)
    if decoder is None:
        decoder = _decoders[kind] = msgspec.msgpack.Decoder(kind)
    value: T = decoder.decode(data)
    return value


def seal(key: bytes, body: bytes) -> bytes:
    """Compress the body of a row, and put a checksum over it and its key before it."""
    data = _codec.compress(body)
    return _checksum(key, data) + data


def unseal(key: bytes, row: object) -> bytes:
    """Return the body of a row. Raises ValueError if the row was changed."""
    if not isinstance(row, bytes) or row[:SEAL_BYTES] != _checksum(key, row[SEAL_BYTES:]):
        raise ValueError("checksum mismatch")
    try:
        size = zstandard.frame_content_size(row[SEAL_BYTES:])
        if not 0 <= size <= MAX_BODY_BYTES:
            raise ValueError("it has an impossible size")
        return _codec.decompress(row[SEAL_BYTES:])
    except zstandard.ZstdError as error:
        raise ValueError(str(error)) from None


def _checksum(key: bytes, data: bytes) -> bytes:
    return blake3(key + b"\0" + data).digest(SEAL_BYTES)


def encode_id(text: str) -> bytes:
    r"""Encode the id of a checkpoint or a task. The ids of LangGraph are UUIDs: 17 bytes.

    >>> len(encode_id("1f0a1d4e-0000-6000-8000-000000000000")), encode_id("7")
    (17, b'\x027')
    """
    if len(text) == 36:
        try:
            value = UUID(text)
        except ValueError:
            value = None
        if value is not None and str(value) == text:
            return b"\x01" + value.bytes
    return b"\x02" + text.encode("utf-8", "surrogatepass")


def decode_id(data: bytes) -> str:
    """Decode an id. Raises ValueError if it is invalid."""
    if data[:1] == b"\x01":
        return str(UUID(bytes=data[1:]))
    if data[:1] == REPLACED_MARK:
        return f"replaced {data.hex()}"
    return data[1:].decode("utf-8", "surrogatepass")
