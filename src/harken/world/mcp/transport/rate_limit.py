"""`MessageFilter`: limit the rate of unsolicited messages from an MCP server.

Responses to our requests always pass. For notifications and requests of the server there is a burst
limit and a rate; other messages are dropped, which is reported once.

Lists of tools are repaired: invalid tools are removed before the SDK sees them.

The SDK refuses a whole list because of one invalid tool, and the server may have others.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

import anyio
import msgspec
from mcp.client._transport import ReadStream
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from harken.core import canonical

MAX_SCHEMA_BYTES = 64 << 10


def repair_tool_list(result: dict[str, Any]) -> list[str]:
    """Remove invalid tools from a result, in place; return a note for each."""
    tools = result.get("tools")
    if not isinstance(tools, list):
        return []
    notes: list[str] = []
    valid_tools: list[Any] = []
    for tool in tools:
        if defect := _find_defect(tool):
            name = str(tool.get("name"))[:64] if isinstance(tool, dict) else "?"
            notes.append(f"its tool {name!r} is omitted: {defect}")
        else:
            valid_tools.append(tool)
    result["tools"] = valid_tools
    return notes


def _find_defect(tool: Any) -> str:
    """Return why a tool is invalid, empty if it is valid.

    >>> _find_defect({"name": "x", "inputSchema": {"type": "array"}})
    'the schema of its arguments is not an object'
    """
    if not isinstance(tool, dict) or not isinstance(tool.get("name"), str):
        return "it has no name"
    if not tool["name"].strip():
        return "it has no name"
    for label, schema in (("arguments", "inputSchema"), ("result", "outputSchema")):
        if schema == "outputSchema" and tool.get(schema) is None:
            continue
        if defect := _find_schema_defect(tool.get(schema)):
            return f"the schema of its {label} {defect}"
    return ""


def _find_schema_defect(schema: Any) -> str:
    is_object = isinstance(schema, dict) and schema.get("type") == "object"
    if not is_object or not isinstance(schema.get("properties", {}), dict):
        return "is not an object"
    try:
        size = len(canonical.to_json_line(schema))
    except (TypeError, ValueError, RecursionError):
        return "is not JSON"
    return f"is longer than {MAX_SCHEMA_BYTES >> 10} KB" if size > MAX_SCHEMA_BYTES else ""


class RateLimit(msgspec.Struct):
    """A token bucket."""

    at_once: float
    per_s: float
    tokens: float = 0.0
    since: float = 0.0

    def try_acquire(self, now: float) -> bool:
        """Whether a token is available at this time, in seconds of a monotonic clock.

        >>> twice = RateLimit(at_once=2, per_s=0.5)
        >>> [twice.try_acquire(time_s) for time_s in (10, 10, 10, 12)]
        [True, True, False, True]
        """
        if not self.since:
            self.tokens = self.at_once
        else:
            self.tokens = min(self.at_once, self.tokens + (now - self.since) * self.per_s)
        self.since = now
        if self.tokens < 1:
            return False
        self.tokens -= 1
        return True


class MessageFilter:
    """A stream of incoming messages without those above the rate limits."""

    def __init__(
        self, stream: ReadStream[SessionMessage | Exception], tell: Callable[[str], None]
    ) -> None:
        """Wrap a stream; `tell` is called when messages are dropped."""
        self._stream, self._tell = stream, tell
        self._notifications = RateLimit(at_once=2000, per_s=200)
        self._requests = RateLimit(at_once=50, per_s=5)
        self._invalid_messages = RateLimit(at_once=20, per_s=1)
        self._repair_notes = RateLimit(at_once=20, per_s=0)
        self.dropped = 0
        """The number of dropped messages."""

    async def receive(self) -> SessionMessage | Exception:
        """Return the next message. Raises anyio.EndOfStream at the end."""
        while True:
            item = await self._stream.receive()
            if self._should_pass(item):
                return item
            if not self.dropped:
                self._tell("it sends too many notices: the others are omitted")
            self.dropped += 1

    def _should_pass(self, item: SessionMessage | Exception) -> bool:
        if isinstance(item, Exception):
            return self._invalid_messages.try_acquire(time.monotonic())
        if isinstance(item.message, JSONRPCNotification):
            return self._notifications.try_acquire(time.monotonic())
        if isinstance(item.message, JSONRPCRequest):
            return self._requests.try_acquire(time.monotonic())
        if isinstance(item.message, JSONRPCResponse):
            for note in repair_tool_list(item.message.result):
                is_told = self._repair_notes.try_acquire(time.monotonic())
                self._tell(note if is_told else "more of its tools are omitted")
        return True

    @property
    def last_context(self) -> Any:
        """The context of the sender of the last message, if the stream has it."""
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
