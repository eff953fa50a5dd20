"""`Stdio`: a server that is a program here; messages are lines on its stdin and stdout.

The SDK has such a transport. Its lines may be as long as memory, a byte that is no UTF-8 ends it,
and what it cannot read goes to the standard logger, which is somebody's terminal: so this one.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client._transport import TransportStreams
from mcp.shared.message import SessionMessage
from mcp_types import INTERNAL_ERROR, ErrorData, JSONRPCError, jsonrpc_message_adapter

from harken.world.mcp.host import McpHost
from harken.world.mcp.server_config import McpServerConfig
from harken.world.mcp.transport.child_process import ServerProcess
from harken.world.mcp.transport.lines import (
    MAX_LINE_BYTES,
    MAX_PIECES,
    MessageLine,
    is_too_much,
    lines,
)
from harken.world.mcp.transport.rate_limit import MessageFilter

LOOK_S = 1.0
"""How often is looked whether a program runs still."""
_VERSION = rb'"jsonrpc"\s*:\s*"2\.0"'
_ID = rb'"id"\s*:\s*(\d{1,15})\b'
_ID_FIRST = re.compile(rb"\s*\{\s*(?:%b\s*,\s*)?%b" % (_VERSION, _ID))
_ID_LAST = re.compile(rb"%b\s*(?:,\s*%b\s*)?\}\s*\Z" % (_ID, _VERSION))


class InvalidMessageLine(ValueError):
    """A line that is no message; its text is the beginning of that line."""


class Stdio:
    """A transport for the SDK: an async context manager that gives two streams."""

    def __init__(
        self,
        server: McpServerConfig,
        around: McpHost,
        tell: Callable[[str], None],
    ) -> None:
        """Prepare it. `tell` is told what a person should know."""
        self._server, self._around, self._tell = server, around, tell
        self.ended: Callable[[], None] | None = None
        """Told when the program says no more."""
        self.child: ServerProcess | None = None
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def ending(self) -> str:
        """How the program ended; empty where it was not started."""
        return self.child.ending if self.child is not None else ""

    async def __aenter__(self) -> TransportStreams:
        """Start the program. Raises ConfigError."""
        self.child = await ServerProcess.start(self._server, self._around)
        to_session, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        outgoing, from_session = anyio.create_memory_object_stream[SessionMessage](0)
        self._tasks = [
            asyncio.create_task(self._read(self.child, to_session)),
            asyncio.create_task(self._write(self.child, from_session, to_session)),
            asyncio.create_task(self._watch(self.child)),
        ]
        return MessageFilter(incoming, self._tell), outgoing

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if self._tasks:  # what was said last, such as that a call is cancelled
                await asyncio.wait(self._tasks[1:2], timeout=0.2)
            if self.child is not None:
                await self.child.end()
        finally:
            for task in self._tasks:
                task.cancel()
            if self.child is not None:
                self.child.let_go()

    async def _watch(self, child: ServerProcess) -> None:
        """Notice that the program has ended though somebody else holds its output open.

        What it started may do so, and who waits for an answer would wait in vain.
        """
        looks = 0
        while looks < 2:  # once more, so that what it said last is read
            await asyncio.sleep(LOOK_S)
            looks += child.processes.exit_code is not None
        if self.ended is not None:
            self.ended()

    async def _read(
        self, child: ServerProcess, to_session: MemoryObjectSendStream[SessionMessage | Exception]
    ) -> None:
        """Give on what the program says; when it says no more, so does the stream."""
        with to_session, suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            async for line in lines(child.stdout):
                message = read_line(line)
                if message is not None:
                    await to_session.send(message)
        if self.ended is not None:
            self.ended()

    async def _write(
        self,
        child: ServerProcess,
        from_session: MemoryObjectReceiveStream[SessionMessage],
        to_session: MemoryObjectSendStream[SessionMessage | Exception],
    ) -> None:
        """Tell the program what the session says."""
        try:
            with from_session:
                async for item in from_session:
                    text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                    child.stdin.write(text.encode() + b"\n")
                    await child.stdin.drain()
        except (OSError, RuntimeError):
            to_session.close()  # nobody reads: no request will be answered


def read_line(line: MessageLine) -> SessionMessage | Exception | None:
    """Return the message of a line; None where it is blank, an exception where it is none.

    An answer that cannot be read becomes an error for whoever waits for it. Half a letter in it,
    which is what programs leave that cut texts, is a question mark.
    """
    if line.is_too_long:
        return _not_read(line.data, f"is longer than {MAX_LINE_BYTES >> 20} MB")
    if not line.data.strip():
        return None
    if is_too_much(line.data):
        return _not_read(line.data, f"is made of more than {MAX_PIECES:,} pieces")
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line.data, by_name=False))
    except ValueError:
        pass
    try:
        data = json.dumps(json.loads(line.data), ensure_ascii=False).encode(errors="replace")
        return SessionMessage(jsonrpc_message_adapter.validate_json(data, by_name=False))
    except (ValueError, RecursionError):
        return _not_read(line.data, "is no JSON that can be read")


def _not_read(data: bytes, why: str) -> SessionMessage | InvalidMessageLine:
    """Return an error in place of an answer, where it says to which request."""
    found = _ID_FIRST.match(data) or (data.startswith(b"{") and _ID_LAST.search(data[-200:]))
    if not found or b'"method"' in data[:200]:
        return InvalidMessageLine(data[:80].decode(errors="replace").strip())
    error = ErrorData(code=INTERNAL_ERROR, message=f"the answer {why}, and was not read")
    return SessionMessage(JSONRPCError(jsonrpc="2.0", id=int(found[1]), error=error))
