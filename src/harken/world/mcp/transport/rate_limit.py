"""`MessageFilter`: what a server says without being asked, as much of it as anybody can use.

Answers to our own requests always pass. Of notifications, and of requests of the server, so many
pass at once and so many a second; the rest is left out, and that is told of once. Lists of tools
are mended on their way.

Mending: of a list of tools, those that nobody can use are taken out before the SDK sees it.

The SDK refuses a whole list for one tool in it that is not of the protocol. A server with one such
tool has others, too.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import anyio
from mcp.client._transport import ReadStream
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from harken.core import canonical

MAX_SCHEMA_BYTES = 64 << 10


def mend(result: dict[str, Any]) -> list[str]:
    """Take out, in place, the tools of an answer that cannot be used; return a line for each."""
    tools = result.get("tools")
    if not isinstance(tools, list):
        return []
    notes: list[str] = []
    kept: list[Any] = []
    for tool in tools:
        if why := _odd(tool):
            name = str(tool.get("name"))[:64] if isinstance(tool, dict) else "?"
            notes.append(f"its tool {name!r} is left out: {why}")
        else:
            kept.append(tool)
    result["tools"] = kept
    return notes


def _odd(tool: Any) -> str:
    """Say why a tool cannot be used; empty where it can.

    >>> _odd({"name": "x", "inputSchema": {"type": "array"}})
    'the schema of its arguments is no object'
    """
    if not isinstance(tool, dict) or not isinstance(tool.get("name"), str):
        return "it has no name"
    if not tool["name"].strip():
        return "it has no name"
    for what, schema in (("arguments", "inputSchema"), ("result", "outputSchema")):
        if schema == "outputSchema" and tool.get(schema) is None:
            continue
        if why := _odd_schema(tool.get(schema)):
            return f"the schema of its {what} {why}"
    return ""


def _odd_schema(schema: Any) -> str:
    is_object = isinstance(schema, dict) and schema.get("type") == "object"
    if not is_object or not isinstance(schema.get("properties", {}), dict):
        return "is no object"
    try:
        size = len(canonical.to_json_line(schema))
    except (TypeError, ValueError, RecursionError):
        return "is no JSON"
    return f"is longer than {MAX_SCHEMA_BYTES >> 10} KB" if size > MAX_SCHEMA_BYTES else ""


@dataclass(slots=True)
class RateLimit:
    """How often something may be done."""

    at_once: float
    per_s: float
    left: float = 0.0
    since: float = 0.0

    def take(self, now: float) -> bool:
        """Whether it may be done once more at this time, in seconds of a clock that only goes on.

        >>> twice = RateLimit(at_once=2, per_s=0.5)
        >>> [twice.take(10), twice.take(10), twice.take(10), twice.take(12)]
        [True, True, False, True]
        """
        if not self.since:
            self.left = self.at_once
        else:
            self.left = min(self.at_once, self.left + (now - self.since) * self.per_s)
        self.since = now
        if self.left < 1:
            return False
        self.left -= 1
        return True


class MessageFilter:
    """A stream of incoming messages without those that are too many."""

    def __init__(
        self, stream: ReadStream[SessionMessage | Exception], tell: Callable[[str], None]
    ) -> None:
        """Take from a stream; `tell` is told where something is left out."""
        self._stream, self._tell = stream, tell
        self._notifications = RateLimit(at_once=2000, per_s=200)
        self._requests = RateLimit(at_once=50, per_s=5)
        self._noise = RateLimit(at_once=20, per_s=1)
        self._mended = RateLimit(at_once=20, per_s=0)
        self.left_out = 0
        """How many messages were left out so far."""

    async def receive(self) -> SessionMessage | Exception:
        """Return the next message. Raises anyio.EndOfStream where there will be none."""
        while True:
            item = await self._stream.receive()
            if self._passes(item):
                return item
            if not self.left_out:
                self._tell("it sends more than anybody can use: the rest is left out")
            self.left_out += 1

    def _passes(self, item: SessionMessage | Exception) -> bool:
        if isinstance(item, Exception):
            return self._noise.take(time.monotonic())
        if isinstance(item.message, JSONRPCNotification):
            return self._notifications.take(time.monotonic())
        if isinstance(item.message, JSONRPCRequest):
            return self._requests.take(time.monotonic())
        if isinstance(item.message, JSONRPCResponse):
            for note in mend(item.message.result):
                is_told = self._mended.take(time.monotonic())
                self._tell(note if is_told else "more of its tools are left out")
        return True

    @property
    def last_context(self) -> Any:
        """The context of whoever sent the last message, where the stream knows."""
        return getattr(self._stream, "last_context", None)

    async def aclose(self) -> None:
        """Close the stream."""
        await self._stream.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()
