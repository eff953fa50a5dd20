"""An MCP server made with the official SDK: in this process, as a program, or over HTTP."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.resolve import Elicit, Resolve
from mcp_types import ToolAnnotations
from pydantic import BaseModel


class Sum(BaseModel):
    """What a structured tool gives."""

    total: int


class Wanted(BaseModel):
    """What the user is asked."""

    city: str
    days: int = 2


def add(a: int, b: int) -> Sum:
    """Add two numbers."""
    return Sum(total=a + b)


async def count(to: int, context: Context[Any]) -> str:
    """Count, and say how far it is."""
    for number in range(to):
        await context.report_progress(number + 1, to, f"at {number + 1}")
    return f"counted to {to}"


def where() -> Elicit[Wanted]:
    return Elicit("Where to?", Wanted)


async def book(wanted: Annotated[Wanted, Resolve(where)]) -> str:
    """Ask where the user wants to go."""
    return repr(wanted)


async def learn(name: str, context: Context[Any]) -> str:
    """Get a new tool."""
    context.mcp_server.add_tool(lambda: f"I am {name}", name=name, description="New.")
    if context.protocol_version == "2026-07-28":
        await context.notify_tools_changed()
    else:
        await context.session.send_tool_list_changed()
    return "learnt"


async def wait() -> str:
    """Wait until it is cancelled."""
    await asyncio.sleep(60)
    return "waited"


def headers(context: Context[Any]) -> str:
    """Say with which headers it was called."""
    return repr(dict(context.headers or {}))


def grumble() -> str:
    """Fail."""
    raise ToolError("not today")


def welcome() -> str:
    """What is said first."""
    return "You are a librarian."


def picture() -> bytes:
    return b"\x89PNG"


def shelf(name: str) -> str:
    """What is on a shelf."""
    return f"books on {name}"


def review(title: str, tone: str = "calm") -> str:
    """Review a book."""
    return f"Review {title}, {tone}."


def greet() -> list[dict[str, Any]]:
    return [
        {"role": "user", "content": {"type": "text", "text": "Hello"}},
        {"role": "assistant", "content": {"type": "text", "text": "Good day"}},
    ]


def make_server() -> MCPServer:
    """Return a new server."""
    server = MCPServer("library", version="7")
    server.add_tool(add, annotations=ToolAnnotations(read_only_hint=True))
    for tool in (count, book, learn, wait, headers, grumble):
        server.add_tool(tool)
    server.resource("notes://welcome", mime_type="text/markdown")(welcome)
    server.resource("notes://picture", mime_type="image/png")(picture)
    server.resource("notes://shelf/{name}")(shelf)
    server.prompt()(review)
    server.prompt()(greet)
    return server


if __name__ == "__main__":
    make_server().run()
