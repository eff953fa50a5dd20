"""Message lines: none is lost, and none exceeds the buffer."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCResponse

from harken.world.mcp.transport.lines import MessageLine, lines
from harken.world.mcp.transport.stdio import InvalidMessageLine, read_line


def split_chunks(chunks: list[bytes], limit: int = 100) -> list[MessageLine]:
    async def scene() -> list[MessageLine]:
        stream = asyncio.StreamReader()
        for chunk in chunks:
            stream.feed_data(chunk)
        stream.feed_eof()
        return [line async for line in lines(stream, limit)]

    return asyncio.run(scene())


@given(st.lists(st.binary(max_size=50), max_size=10))
def test_lines_do_not_depend_on_chunk_borders(chunks: list[bytes]) -> None:
    *full, _ = b"".join(chunks).split(b"\n")
    assert [line.data for line in split_chunks(chunks, 10_000)] == full


def test_overlong_line_keeps_its_start_and_end() -> None:
    [long, short] = split_chunks([b"a" * 2000, b"b" * 2000 + b"end\n", b"short\nrest"], 1000)
    assert long.is_too_long
    assert long.data.startswith(b"aaa")
    assert long.data.endswith(b"bbbend")
    assert len(long.data) <= 1024
    assert short == MessageLine(b"short")


def test_overlong_response_is_an_error_for_its_caller() -> None:
    for data in (b'{"jsonrpc":"2.0","id":7,"result":{"x', b'{"result":{...},"id": 7}'):
        message = read_line(MessageLine(data, is_too_long=True))
        assert isinstance(message, SessionMessage)
        assert isinstance(message.message, JSONRPCError)
        assert message.message.id == 7
    for data in (b'{"id":7,"method":"x","params":{', b"garbage"):
        assert isinstance(read_line(MessageLine(data, is_too_long=True)), InvalidMessageLine)


@pytest.mark.parametrize(
    "result",
    [
        b'{"x": %b}' % (5000 * b"[" + 5000 * b"]"),
        b'{"x": %b}' % (9000 * b"9"),
        b'{"x": [%b0]}' % (300_000 * b"0,"),
    ],
)
def test_undecodable_response_is_an_error_for_its_caller(result: bytes) -> None:
    first = b'{"jsonrpc":"2.0","id":7,"result":%b}' % result
    last = b'{"result":{"id": 5, "is": %b},"jsonrpc":"2.0","id":7}' % result
    for data in (first, last):
        message = read_line(MessageLine(data))
        assert isinstance(message, SessionMessage)
        assert isinstance(message.message, JSONRPCError)
        assert message.message.id == 7
    assert isinstance(read_line(MessageLine(b"DEBUG " + last)), InvalidMessageLine)


def test_response_with_a_split_character_is_read() -> None:
    message = read_line(
        MessageLine(rb'{"jsonrpc":"2.0","id":7,"result":{"x":"tea \\ud83d \ud83d"}}')
    )
    assert isinstance(message, SessionMessage)
    assert isinstance(message.message, JSONRPCResponse)
    assert message.message.result == {"x": r"tea \ud83d ?"}


@given(st.binary(max_size=200))
def test_reading_any_line_never_fails(data: bytes) -> None:
    read_line(MessageLine(data))
