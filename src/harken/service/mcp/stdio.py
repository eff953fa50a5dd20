"""An MCP server on standard input and output, which have nothing but messages of the protocol.

It ends when the client closes its input, and on SIGINT and SIGTERM. The standard streams are
diverted before the first message: a program that a tool starts inherits neither of them, and a
stray output is written to stderr.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import suppress
from threading import Thread
from typing import Any, BinaryIO, cast

import anyio
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

MAX_LINE_BYTES = 8 * 1024 * 1024
"""The size limit of a message of the client. A longer one is ignored, as one that is malformed."""
_MALFORMED = "\n"
_STDIN = 0


def serve_stdio(server: Server[Any]) -> None:
    """Serve one client, until its input ends or a signal arrives."""
    asyncio.run(_serve(server))


async def _serve(server: Server[Any]) -> None:
    task = asyncio.current_task()
    assert task is not None
    loop = asyncio.get_running_loop()
    for stop_signal in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(stop_signal, task.cancel)
    lines = LineReader(_divert_stdin())
    try:
        # The SDK's own reader waits for a line in a thread that a signal cannot end.
        async with stdio_server(stdin=cast(anyio.AsyncFile[str], lines)) as (received, sent):
            await server.run(received, sent, server.create_initialization_options())
    except asyncio.CancelledError:
        return


class LineReader:
    """The lines of a file as an asynchronous iterator. A thread reads them, and ends with us."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        self._loop = asyncio.get_running_loop()
        Thread(target=self._read, name="harken mcp input", daemon=True).start()

    async def __aiter__(self) -> AsyncIterator[str]:
        """Yield lines until the end of the file."""
        while (line := await self._lines.get()) is not None:
            yield line

    def _read(self) -> None:
        try:
            while data := self._file.readline(MAX_LINE_BYTES):
                if data.endswith(b"\n") or len(data) < MAX_LINE_BYTES:
                    self._put(data.decode("utf-8", "replace"))
                else:
                    self._skip_line()
                    self._put(_MALFORMED)
        except (OSError, ValueError):
            pass  # The input cannot be read any more, as at its end.
        self._put(None)

    def _skip_line(self) -> None:
        while (data := self._file.readline(MAX_LINE_BYTES)) and not data.endswith(b"\n"):
            pass

    def _put(self, line: str | None) -> None:
        with suppress(RuntimeError):  # The loop is closed: the server has ended.
            self._loop.call_soon_threadsafe(self._lines.put_nowait, line)


def _divert_stdin() -> BinaryIO:
    """Return the input of the process. File descriptor 0 is the null device from now on."""
    private = os.dup(_STDIN)  # `sys.stdin` is None if the process began without an input.
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, _STDIN)
    os.close(null)
    return os.fdopen(private, "rb")
