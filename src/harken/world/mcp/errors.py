"""What went wrong with a server, on one line, whatever it was."""

from __future__ import annotations

from collections.abc import Iterator

import httpx2
from mcp.shared.exceptions import MCPError
from mcp_types import CONNECTION_CLOSED
from pydantic import ValidationError

from harken.errors import ConfigError
from harken.world.shell.output import readable

MAX_CHARACTERS = 400
_URL_NEEDED = -32042


def is_closed(error: MCPError) -> bool:
    """Whether an error says that the connection is at its end."""
    return error.code == CONNECTION_CLOSED or error.message == "Session terminated"


def reason_of(error: BaseException) -> str:
    """Say on one line why something failed."""
    first = next(_leaves(error))
    match first:
        case ConfigError():
            return one_line(str(first))
        case MCPError():
            return _of_server(first)
        case ValidationError():
            where = ".".join(str(step) for step in first.errors()[0]["loc"])
            return one_line(f"it answers what is not of the protocol (at {where or 'the top'})")
        case httpx2.HTTPStatusError():
            return f"it answers HTTP {first.response.status_code}"
        case httpx2.LocalProtocolError():
            return "it cannot be sent what its description says"  # the error repeats a header
        case httpx2.TransportError():
            return one_line(f"it cannot be reached ({str(first) or type(first).__name__})")
        case RuntimeError():
            return one_line(str(first).split("\n", 1)[0] or "RuntimeError")
        case _:
            text = str(first).split("\n", 1)[0]
            return one_line(f"{type(first).__name__}: {text}" if text else type(first).__name__)


def _of_server(error: MCPError) -> str:
    text = one_line(error.message) or f"error {error.code}"
    if error.code == _URL_NEEDED and isinstance(error.error.data, dict):
        pages = error.error.data.get("elicitations")
        urls = [one.get("url") for one in pages or () if isinstance(one, dict)]
        return one_line(f"{text}: the user has to open {' '.join(map(repr, urls))} first")
    return text


def _leaves(error: BaseException) -> Iterator[BaseException]:
    """Yield the errors that a group is made of."""
    if isinstance(error, BaseExceptionGroup):
        for one in error.exceptions:
            yield from _leaves(one)
    else:
        yield error


def one_line(text: str) -> str:
    """Return the beginning of a text from outside, on one line."""
    plain = " ".join(readable(text[: 4 * MAX_CHARACTERS]).split())
    return plain if len(plain) <= MAX_CHARACTERS else f"{plain[:MAX_CHARACTERS]}..."
