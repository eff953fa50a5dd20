"""Format errors of MCP servers on one line."""

from __future__ import annotations

from collections.abc import Iterator

import httpx2
from mcp.shared.exceptions import MCPError
from mcp_types import CONNECTION_CLOSED
from pydantic import ValidationError

from harken.errors import ConfigError
from harken.world.shell.output import readable

MAX_CHARACTERS = 400
_URL_REQUIRED_CODE = -32042


def is_closed(error: MCPError) -> bool:
    """Whether an error means that the connection is closed."""
    return error.code == CONNECTION_CLOSED or error.message == "Session terminated"


def reason_of(error: BaseException) -> str:
    """Return the reason of a failure on one line."""
    leaf = next(_iter_leaves(error))
    match leaf:
        case ConfigError():
            return one_line(str(leaf))
        case MCPError():
            return _format_server_error(leaf)
        case ValidationError():
            location = ".".join(str(step) for step in leaf.errors()[0]["loc"])
            return one_line(f"it violates the protocol (at {location or 'the top'})")
        case httpx2.HTTPStatusError():
            return f"HTTP {leaf.response.status_code}"
        case httpx2.LocalProtocolError():
            return "its description cannot be sent"  # the error repeats a header
        case httpx2.TransportError():
            return one_line(f"it cannot be reached ({str(leaf) or type(leaf).__name__})")
        case RuntimeError():
            return one_line(str(leaf).split("\n", 1)[0] or "RuntimeError")
        case _:
            text = str(leaf).split("\n", 1)[0]
            return one_line(f"{type(leaf).__name__}: {text}" if text else type(leaf).__name__)


def _format_server_error(error: MCPError) -> str:
    text = one_line(error.message) or f"error {error.code}"
    if error.code == _URL_REQUIRED_CODE and isinstance(error.error.data, dict):
        pages = error.error.data.get("elicitations")
        urls = [page.get("url") for page in pages or () if isinstance(page, dict)]
        return one_line(f"{text}: the user has to open {' '.join(map(repr, urls))} first")
    return text


def _iter_leaves(error: BaseException) -> Iterator[BaseException]:
    """Yield the leaf exceptions of an exception group."""
    if isinstance(error, BaseExceptionGroup):
        for inner_error in error.exceptions:
            yield from _iter_leaves(inner_error)
    else:
        yield error


def one_line(text: str) -> str:
    """Return the beginning of a text from outside, on one line."""
    line = " ".join(readable(text[: 4 * MAX_CHARACTERS]).split())
    return line if len(line) <= MAX_CHARACTERS else f"{line[:MAX_CHARACTERS]}..."
