"""An MCP server on standard input and output, which have nothing but messages of the protocol.

It ends when the client closes its input or our output, and on SIGINT and SIGTERM. Calls that still
run at the end of the input have some seconds to be answered. The standard streams are diverted
before the first message: a program that a tool starts inherits neither of them, and a stray output
is written to stderr.

The SDK has a transport of its own (`mcp.server.stdio`). It ignores a request that it cannot parse,
so that the client waits for ever, and its threads cannot be ended by a signal.

Source: https://modelcontextprotocol.io/specification/2025-11-25/basic/transports;
https://www.jsonrpc.org/specification.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import suppress
from io import FileIO
from queue import SimpleQueue
from threading import Thread
from typing import Any, BinaryIO

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server.lowlevel import Server
from mcp.shared.message import SessionMessage
from mcp.types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError

MAX_LINE_BYTES = 8 * 1024 * 1024
"""The size limit of a message of the client. A longer one is refused, as one that is malformed."""
DRAIN_S = 5.0
"""How long calls may run after the end of the input."""
_TOO_LONG = ""
_STDIN, _STDOUT, _STDERR = 0, 1, 2


def serve_stdio(server: Server[Any]) -> None:
    """Serve one client, until its input ends, it closes our output, or a signal arrives."""
    asyncio.run(_serve(server))


async def _serve(server: Server[Any]) -> None:
    task = asyncio.current_task()
    assert task is not None
    loop = asyncio.get_running_loop()
    for stop_signal in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(stop_signal, task.cancel)
    connection = _Connection(LineReader(_divert_stdin()), OutputWriter(_divert_stdout()))
    with suppress(asyncio.CancelledError):
        await connection.serve(server)


class _Connection:
    """The messages of a client and of the server, and the requests without a response."""

    def __init__(self, lines: LineReader, output: OutputWriter) -> None:
        self._lines, self._output = lines, output
        self._open: set[RequestId] = set()
        self._answered = asyncio.Event()

    async def serve(self, server: Server[Any]) -> None:
        """Run a server until the client leaves. Raises asyncio.CancelledError."""
        to_server, received = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        sent, from_server = anyio.create_memory_object_stream[SessionMessage](0)
        async with anyio.create_task_group() as group:
            group.start_soon(self._read, to_server, sent.clone())
            group.start_soon(self._write, from_server, group.cancel_scope)
            async with received, sent:
                await server.run(received, sent, server.create_initialization_options())

    async def _read(
        self,
        to_server: MemoryObjectSendStream[SessionMessage | Exception],
        sent: MemoryObjectSendStream[SessionMessage],
    ) -> None:
        """Pass the messages of the client on, and answer those that are malformed."""
        with suppress(anyio.BrokenResourceError):  # The server has ended.
            async with to_server, sent:
                async for line in self._lines:
                    message = _parse(line)
                    if isinstance(message, _Refusal):
                        await sent.send(SessionMessage(message.response))
                        continue
                    self._note_request(message)
                    await to_server.send(SessionMessage(message))
                with anyio.move_on_after(DRAIN_S):
                    while self._open:
                        self._answered.clear()
                        await self._answered.wait()

    async def _write(
        self, from_server: MemoryObjectReceiveStream[SessionMessage], scope: anyio.CancelScope
    ) -> None:
        """Write the messages of the server, until it ends or the client has closed our output."""
        async with from_server:
            async for sent in from_server:
                message = sent.message
                try:
                    await self._output.write(
                        message.model_dump_json(by_alias=True, exclude_unset=True)
                    )
                except OSError:
                    scope.cancel()
                    return
                if isinstance(message, JSONRPCResponse | JSONRPCError) and message.id is not None:
                    self._close_request(message.id)

    def _note_request(self, message: JSONRPCMessage) -> None:
        match message:
            case JSONRPCRequest(id=id_):
                self._open.add(id_)
            case JSONRPCNotification(
                method="notifications/cancelled", params={"requestId": int() | str() as id_}
            ):  # It gets no response.
                self._close_request(id_)

    def _close_request(self, id_: RequestId) -> None:
        self._open.discard(id_)
        self._answered.set()


class _Refusal:
    """The response to a line that is no message."""

    def __init__(self, id_: RequestId | None, code: int, reason: str) -> None:
        error = ErrorData(code=code, message=reason)
        self.response = JSONRPCError(jsonrpc="2.0", id=id_, error=error)


def _parse(line: str) -> JSONRPCMessage | _Refusal:
    """Read a message. The result of one that is malformed has its id where that can be read."""
    if line == _TOO_LONG:
        return _Refusal(None, INVALID_REQUEST, f"a message has at most {MAX_LINE_BYTES} bytes")
    try:
        return jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValidationError:
        pass
    try:
        value = json.loads(line)
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        return _Refusal(_find_id(value), PARSE_ERROR, "a text has an unpaired surrogate")
    except (ValueError, RecursionError):
        return _Refusal(None, PARSE_ERROR, "the line is not JSON")
    return _Refusal(_find_id(value), INVALID_REQUEST, "the line is not a message of JSON-RPC 2.0")


def _find_id(value: object) -> RequestId | None:
    """Return the id of a request. The id of a response of the client is one of our own ids."""
    id_ = value.get("id") if isinstance(value, dict) and "method" in value else None
    is_id = isinstance(id_, int | str) and not isinstance(id_, bool)
    return id_ if is_id else None


class LineReader:
    """The lines of a file as an asynchronous iterator. A thread reads them, and ends with us.

    Empty lines are left out. A line that is longer than MAX_LINE_BYTES is an empty string.
    """

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
                if not data.endswith(b"\n") and len(data) == MAX_LINE_BYTES:
                    self._skip_line()
                    self._put(_TOO_LONG)
                elif line := data.strip():
                    self._put(line.decode("utf-8", "replace"))
        except (OSError, ValueError):
            pass  # The input cannot be read any more, as at its end.
        self._put(None)

    def _skip_line(self) -> None:
        while (data := self._file.readline(MAX_LINE_BYTES)) and not data.endswith(b"\n"):
            pass

    def _put(self, line: str | None) -> None:
        with suppress(RuntimeError):  # The loop is closed: the server has ended.
            self._loop.call_soon_threadsafe(self._lines.put_nowait, line)


class OutputWriter:
    """Writes lines to an unbuffered file. A thread writes them, and ends with us."""

    def __init__(self, file: FileIO) -> None:
        self._file = file
        self._loop = asyncio.get_running_loop()
        self._queue: SimpleQueue[tuple[bytes, asyncio.Future[None]]] = SimpleQueue()
        Thread(target=self._write, name="harken mcp output", daemon=True).start()

    async def write(self, line: str) -> None:
        """Write a line. Raises OSError if the reader has closed the file."""
        future: asyncio.Future[None] = self._loop.create_future()
        self._queue.put((line.encode() + b"\n", future))
        await future

    def _write(self) -> None:
        while True:
            data, future = self._queue.get()
            error: OSError | None = None
            try:
                while data:
                    data = data[self._file.write(data) :]
            except OSError as caught:
                error = caught
            with suppress(RuntimeError):  # The loop is closed: the server has ended.
                self._loop.call_soon_threadsafe(_complete, future, error)


def _complete(future: asyncio.Future[None], error: OSError | None) -> None:
    if future.cancelled():
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)


def _divert_stdin() -> BinaryIO:
    """Return the input of the process. File descriptor 0 is the null device from now on."""
    private = os.dup(_STDIN)  # `sys.stdin` is None if the process began without an input.
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, _STDIN)
    os.close(null)
    return os.fdopen(private, "rb")


def _divert_stdout() -> FileIO:
    """Return the output of the process. File descriptor 1 is stderr from now on."""
    private = os.dup(_STDOUT)
    os.dup2(_STDERR, _STDOUT)
    return FileIO(private, "wb")
