"""Read the paginated lists of a server, up to a limit."""

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
"""The total size of all tools of a server: they are part of every model request."""

Item = TypeVar("Item")


class ListPage(Protocol):
    """A page of a list."""

    next_cursor: str | None


PageType = TypeVar("PageType", bound=ListPage)


async def read_all_pages(
    fetch: Callable[[str | None], Awaitable[PageType]],
    items: Callable[[PageType], Sequence[Item]],
    most: int,
) -> tuple[list[Item], bool]:
    """Return the items of all pages up to a limit, and whether there are more."""
    collected: list[Item] = []
    cursors: set[str] = set()
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        page = await fetch(cursor)
        collected += items(page)
        cursor = page.next_cursor
        if cursor is None or cursor in cursors or len(collected) > most:
            break
        cursors.add(cursor)
    return collected[:most], len(collected) > most or cursor is not None


async def tools_of(client: Client) -> tuple[list[Tool], list[str]]:
    """Return the tools of a server, and a note for each omission."""
    if client.server_capabilities.tools is None:
        return [], []
    listing, is_truncated = await read_all_pages(
        lambda cursor: client.list_tools(cursor=cursor), lambda page: page.tools, MAX_TOOLS
    )
    notes = [f"it has more than {MAX_TOOLS} tools: the others are omitted"] if is_truncated else []
    tools: dict[str, Tool] = {}
    remaining_bytes = MAX_BYTES
    for tool in listing:
        remaining_bytes -= len(canonical.to_json_line(tool.input_schema)) + len(
            tool.description or ""
        )
        if remaining_bytes < 0:
            notes.append(f"its tools are longer than {MAX_BYTES >> 10} KB: the others are omitted")
            break
        if tools.setdefault(tool.name, tool) is not tool:
            notes.append(f"its tool {tool.name[:64]!r} is omitted: another tool has this name")
        if tool.output_schema is not None:
            _clear_if_pattern(tool.output_schema)
    return list(tools.values()), notes


async def prompts_of(client: Client) -> list[Prompt]:
    """Return the prompts of a server."""
    if client.server_capabilities.prompts is None:
        return []
    prompts, _ = await read_all_pages(
        lambda cursor: client.list_prompts(cursor=cursor), lambda page: page.prompts, MAX_PROMPTS
    )
    return prompts


def _clear_if_pattern(schema: dict[str, Any]) -> None:
    """Clear a schema, in place, if it contains regular expressions, which may be too slow.

    The SDK validates results with this object in the thread of the event loop.
    """
    for level in _iter_objects(schema):
        if isinstance(level.get("pattern"), str) or "patternProperties" in level:
            schema.clear()
            return


def _iter_objects(schema: Any) -> Iterator[dict[str, Any]]:
    pending = [schema]
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            yield value
            pending += value.values()
        elif isinstance(value, list):
            pending += value
