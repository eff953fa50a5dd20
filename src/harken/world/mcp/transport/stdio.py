"""`Stdio`: a local server process that exchanges messages as lines on stdin and stdout.

It replaces the transport of the SDK, which has no limit on lines, ends at invalid UTF-8, and logs
unreadable lines to the standard logger, which prints on the terminal.
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
"""The interval of checks of the process."""
_VERSION_REGEX = rb'"jsonrpc"\s*:\s*"2\.0"'
_ID_REGEX = rb'"id"\s*:\s*(\d{1,15})\b'
_LEADING_ID_PATTERN = re.compile(rb"\s*\{\s*(?:%b\s*,\s*)?%b" % (_VERSION_REGEX, _ID_REGEX))
_TRAILING_ID_PATTERN = re.compile(rb"%b\s*(?:,\s*%b\s*)?\}\s*\Z" % (_ID_REGEX, _VERSION_REGEX))


class InvalidMessageLine(ValueError):
    """A line that is no message; its text is the beginning of that line."""


class Stdio:
    """A transport for the SDK: an async context manager that returns two streams."""

    def __init__(
        self,
        server: McpServerConfig,
        around: McpHost,
        tell: Callable[[str], None],
    ) -> None:
        """Create it; `tell` is called with notices for a person."""
        self._server, self._around, self._tell = server, around, tell
        self.on_end: Callable[[], None] | None = None
        """Called when the process has ended or closed its output."""
        self.child: ServerProcess | None = None
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def ending(self) -> str:
        """The exit status of the process; empty if it was not started."""
        return self.child.ending if self.child is not None else ""

    async def __aenter__(self) -> TransportStreams:
        """Start the process. Raises ConfigError."""
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
            if self._tasks:  # The last message may be a cancellation of a call.
                await asyncio.wait(self._tasks[1:2], timeout=0.2)
            if self.child is not None:
                await self.child.end()
        finally:
            for task in self._tasks:
                task.cancel()
            if self.child is not None:
                self.child.kill()

    async def _watch(self, child: ServerProcess) -> None:
        """Detect the end of the process even if another process holds its output open.

        A descendant may do so, and a caller would wait for a response without end.
        """
        checks = 0
        while checks < 2:  # A second check lets the last output be read.
            await asyncio.sleep(LOOK_S)
            checks += child.processes.exit_code is not None
        if self.on_end is not None:
            self.on_end()

    async def _read(
        self, child: ServerProcess, to_session: MemoryObjectSendStream[SessionMessage | Exception]
    ) -> None:
        """Forward messages of the process; close the stream at the end of its output."""
        with to_session, suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            async for line in lines(child.stdout):
                message = read_line(line)
                if message is not None:
                    await to_session.send(message)
        if self.on_end is not None:
            self.on_end()

    async def _write(
        self,
        child: ServerProcess,
        from_session: MemoryObjectReceiveStream[SessionMessage],
        to_session: MemoryObjectSendStream[SessionMessage | Exception],
    ) -> None:
        """Send messages of the session to the process."""
        try:
            with from_session:
                async for item in from_session:
                    text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                    child.stdin.write(text.encode() + b"\n")
                    await child.stdin.drain()
        except (OSError, RuntimeError):
            to_session.close()  # The process reads no more, so no request will get a response.


def read_line(line: MessageLine) -> SessionMessage | Exception | None:
    """Parse a line. Return None if it is blank, an exception if it is no message.

    An unreadable response becomes an error for its request. A lone surrogate, which programs
    produce when they truncate text, becomes a question mark.
    """
    if line.is_too_long:
        return _build_read_error(line.data, f"is longer than {MAX_LINE_BYTES >> 20} MB")
    if not line.data.strip():
        return None
    if is_too_much(line.data):
        return _build_read_error(line.data, f"has more than {MAX_PIECES:,} pieces")
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line.data, by_name=False))
    except ValueError:
        pass
    try:
        data = json.dumps(json.loads(line.data), ensure_ascii=False).encode(errors="replace")
        return SessionMessage(jsonrpc_message_adapter.validate_json(data, by_name=False))
    except (ValueError, RecursionError):
        return _build_read_error(line.data, "is not valid JSON")


def _build_read_error(data: bytes, why: str) -> SessionMessage | InvalidMessageLine:
    """Return an error response if the line names its request, else an exception."""
    match = _LEADING_ID_PATTERN.match(data) or (
        data.startswith(b"{") and _TRAILING_ID_PATTERN.search(data[-200:])
    )
    if not match or b'"method"' in data[:200]:
        return InvalidMessageLine(data[:80].decode(errors="replace").strip())
    error = ErrorData(code=INTERNAL_ERROR, message=f"the response {why}, and was discarded")
    return SessionMessage(JSONRPCError(jsonrpc="2.0", id=int(match[1]), error=error))
