"""Listing: what a server says that it has, page by page, and no more than anybody can use."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

from mcp import Client
from mcp_types import Prompt, Tool

from harken.core import canonical

MAX_PAGES = 50
MAX_TOOLS = 256
MAX_PROMPTS = 256
MAX_BYTES = 512 << 10
"""Of all tools of a server together: a model reads them with every request."""

Item = TypeVar("Item")


class ListPage(Protocol):
    """A page of a list."""

    next_cursor: str | None


PageType = TypeVar("PageType", bound=ListPage)


async def listed(
    fetch: Callable[[str | None], Awaitable[PageType]],
    items: Callable[[PageType], Sequence[Item]],
    most: int,
) -> tuple[list[Item], bool]:
    """Return the items of all pages, and whether there are more than may be."""
    found: list[Item] = []
    seen: set[str] = set()
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        page = await fetch(cursor)
        found += items(page)
        cursor = page.next_cursor
        if cursor is None or cursor in seen or len(found) > most:
            break
        seen.add(cursor)
    return found[:most], len(found) > most or cursor is not None


async def tools_of(client: Client) -> tuple[list[Tool], list[str]]:
    """Return the tools of a server, and a line for what is left out."""
    if client.server_capabilities.tools is None:
        return [], []
    found, more = await listed(
        lambda cursor: client.list_tools(cursor=cursor), lambda page: page.tools, MAX_TOOLS
    )
    notes = [f"it has more than {MAX_TOOLS} tools: the rest is left out"] if more else []
    kept: dict[str, Tool] = {}
    left = MAX_BYTES
    for tool in found:
        left -= len(canonical.to_json_line(tool.input_schema)) + len(tool.description or "")
        if left < 0:
            notes.append(f"its tools are longer than {MAX_BYTES >> 10} KB: the rest is left out")
            break
        if kept.setdefault(tool.name, tool) is not tool:
            notes.append(f"its tool {tool.name[:64]!r} is left out: another one has its name")
        if tool.output_schema is not None:
            _without_patterns(tool.output_schema)
    return list(kept.values()), notes


async def prompts_of(client: Client) -> list[Prompt]:
    """Return the prompts of a server."""
    if client.server_capabilities.prompts is None:
        return []
    found, _ = await listed(
        lambda cursor: client.list_prompts(cursor=cursor), lambda page: page.prompts, MAX_PROMPTS
    )
    return found


def _without_patterns(schema: dict[str, Any]) -> None:
    """Empty a schema, in place, that has regular expressions in it: one may take for ever.

    The SDK checks results against this very object, in the thread of the event loop.
    """
    for level in _levels(schema):
        if isinstance(level.get("pattern"), str) or "patternProperties" in level:
            schema.clear()
            return


def _levels(schema: Any) -> Iterator[dict[str, Any]]:
    waiting = [schema]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            yield one
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one
