"""Answers that are made while they are read: one thread makes them, a few pieces ahead at most.

One idea: what blocks, blocks in a thread of its own from beginning to end, since a store may read
with what belongs to one thread. Whoever reads slowly holds that thread back, and nobody else.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import suppress

import anyio
from anyio import from_thread, to_thread
from anyio.streams.memory import MemoryObjectSendStream
from fastapi.responses import Response, StreamingResponse

_AHEAD = 2
_PIECE_BYTES = 64 * 1024


class StreamInterrupted(Exception):  # no HarkenError: nobody can be told any more
    """An answer that had begun could not be ended."""


async def streamed(
    make: Callable[[], Iterable[bytes]], threads: anyio.CapacityLimiter, kind: str
) -> Response:
    """Return an answer with what `make` yields.

    What it raises before its first piece is raised here; later, the connection is cut.
    """
    pieces = _from_thread(make, threads)
    first = await anext(pieces, b"")
    return StreamingResponse(_chained(first, pieces), media_type=kind)


def gathered(frames: Iterable[bytes]) -> Iterator[bytes]:
    """Put small pieces together, so that few are passed on."""
    waiting: list[bytes] = []
    size = 0
    for frame in frames:
        waiting.append(frame)
        size += len(frame)
        if size >= _PIECE_BYTES:
            yield b"".join(waiting)
            waiting, size = [], 0
    yield b"".join(waiting)


async def _chained(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    try:
        async for piece in rest:
            yield piece
    except Exception as error:
        raise StreamInterrupted(type(error).__name__) from error


async def _from_thread(
    make: Callable[[], Iterable[bytes]], threads: anyio.CapacityLimiter
) -> AsyncIterator[bytes]:
    outgoing, incoming = anyio.create_memory_object_stream[bytes](_AHEAD)
    work = asyncio.create_task(to_thread.run_sync(_pass_on, make, outgoing, limiter=threads))
    # Where the reader is gone, the thread ends at its next piece, and nobody asks how.
    work.add_done_callback(lambda done: done.cancelled() or done.exception())
    with incoming:
        async for piece in incoming:
            yield piece
    await work


def _pass_on(make: Callable[[], Iterable[bytes]], outgoing: MemoryObjectSendStream[bytes]) -> None:
    try:
        for piece in make():
            from_thread.run(outgoing.send, piece)
    except anyio.BrokenResourceError:
        pass  # the reader is gone
    finally:
        with suppress(RuntimeError):  # and so may the loop be
            from_thread.run_sync(outgoing.close)
