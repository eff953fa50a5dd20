"""Streaming responses that are generated in a thread while they are sent.

A blocking generator runs in one thread from start to end, because a store may use objects that
belong to one thread. A slow client blocks only that thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import suppress

import anyio
from anyio import from_thread, to_thread
from anyio.streams.memory import MemoryObjectSendStream
from fastapi.responses import Response, StreamingResponse

_MAX_BUFFERED_PIECES = 2
_PIECE_BYTES = 64 * 1024


class StreamInterrupted(Exception):  # Not a HarkenError: the client can no longer be informed.
    """A response failed after it had started."""


async def stream_response(
    make: Callable[[], Iterable[bytes]], threads: anyio.CapacityLimiter, kind: str
) -> Response:
    """Return a response with the bytes that `make` yields.

    An exception before the first piece is raised; a later one closes the connection.
    """
    pieces = _iter_from_thread(make, threads)
    first = await anext(pieces, b"")
    return StreamingResponse(_prepend(first, pieces), media_type=kind)


def join_pieces(frames: Iterable[bytes]) -> Iterator[bytes]:
    """Join small pieces into larger ones."""
    pending: list[bytes] = []
    size = 0
    for frame in frames:
        pending.append(frame)
        size += len(frame)
        if size >= _PIECE_BYTES:
            yield b"".join(pending)
            pending, size = [], 0
    yield b"".join(pending)


async def _prepend(first: bytes, remaining: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    try:
        async for piece in remaining:
            yield piece
    except Exception as error:
        raise StreamInterrupted(type(error).__name__) from error


async def _iter_from_thread(
    make: Callable[[], Iterable[bytes]], threads: anyio.CapacityLimiter
) -> AsyncIterator[bytes]:
    outgoing, incoming = anyio.create_memory_object_stream[bytes](_MAX_BUFFERED_PIECES)
    work = asyncio.create_task(to_thread.run_sync(_send_pieces, make, outgoing, limiter=threads))
    # If the client disconnects, the thread ends at its next piece, and its error is ignored.
    work.add_done_callback(lambda done: done.cancelled() or done.exception())
    with incoming:
        async for piece in incoming:
            yield piece
    await work


def _send_pieces(
    make: Callable[[], Iterable[bytes]], outgoing: MemoryObjectSendStream[bytes]
) -> None:
    try:
        for piece in make():
            from_thread.run(outgoing.send, piece)
    except anyio.BrokenResourceError:
        pass  # The client has disconnected.
    finally:
        with suppress(RuntimeError):  # The event loop may be closed.
            from_thread.run_sync(outgoing.close)
