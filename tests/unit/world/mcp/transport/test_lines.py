"""Lines: none is lost, and none is longer than can be held."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCResponse

from harken.world.mcp.transport.lines import MessageLine, lines
from harken.world.mcp.transport.stdio import InvalidMessageLine, read_line


def cut(chunks: list[bytes], most: int = 100) -> list[MessageLine]:
    async def scene() -> list[MessageLine]:
        stream = asyncio.StreamReader()
        for chunk in chunks:
            stream.feed_data(chunk)
        stream.feed_eof()
        return [line async for line in lines(stream, most)]

    return asyncio.run(scene())


@given(st.lists(st.binary(max_size=50), max_size=10))
def test_lines_are_those_that_were_written_however_they_come(chunks: list[bytes]) -> None:
    *whole, _ = b"".join(chunks).split(b"\n")
    assert [line.data for line in cut(chunks, 10_000)] == whole


def test_of_a_line_that_is_too_long_beginning_and_end_are_kept() -> None:
    [long, short] = cut([b"a" * 2000, b"b" * 2000 + b"end\n", b"short\nrest"], 1000)
    assert long.is_too_long
    assert long.data.startswith(b"aaa")
    assert long.data.endswith(b"bbbend")
    assert len(long.data) <= 1024
    assert short == MessageLine(b"short")


def test_an_answer_that_is_too_long_is_an_error_for_whoever_waits() -> None:
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
def test_an_answer_that_cannot_be_read_is_an_error_for_whoever_waits(result: bytes) -> None:
    first = b'{"jsonrpc":"2.0","id":7,"result":%b}' % result
    last = b'{"result":{"id": 5, "is": %b},"jsonrpc":"2.0","id":7}' % result
    for data in (first, last):
        message = read_line(MessageLine(data))
        assert isinstance(message, SessionMessage)
        assert isinstance(message.message, JSONRPCError)
        assert message.message.id == 7
    assert isinstance(read_line(MessageLine(b"DEBUG " + last)), InvalidMessageLine)


def test_an_answer_with_half_a_letter_in_it_is_read_all_the_same() -> None:
    message = read_line(
        MessageLine(rb'{"jsonrpc":"2.0","id":7,"result":{"x":"tea \\ud83d \ud83d"}}')
    )
    assert isinstance(message, SessionMessage)
    assert isinstance(message.message, JSONRPCResponse)
    assert message.message.result == {"x": r"tea \ud83d ?"}


@given(st.binary(max_size=200))
def test_whatever_a_line_is_reading_it_does_not_fail(data: bytes) -> None:
    read_line(MessageLine(data))
