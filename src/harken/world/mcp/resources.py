"""Resources: what servers have to read. `SERVER/URI` names one, for tools and for `mcp:`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

import mcp_types as types
from mcp import Client
from mcp.shared.exceptions import MCPError

from harken.core.messages import Content, TextPart
from harken.core.untrusted import from_outside
from harken.world.mcp.connection import McpConnection
from harken.world.mcp.content import MAX_CHARACTERS, bounded, resource_parts
from harken.world.mcp.errors import one_line
from harken.world.result import ToolError

MAX_SHOWN = 200
"""How many of a page are listed."""


def parse_resource_uri(
    resource: str, connections: Mapping[str, McpConnection]
) -> tuple[McpConnection, str]:
    """Return the server and the URI that `SERVER/URI` names. Raises ToolError."""
    name, slash, uri = resource.strip().partition("/")
    if name not in connections or not slash or not uri:
        there = ", ".join(connections) or "none"
        raise ToolError(f"{resource!r} is no SERVER/URI; the servers with resources are: {there}")
    return connections[name], uri


async def listing(connections: Iterable[McpConnection], cursor: str | None) -> str:
    """Return a page of resources, a line each, and how to get the next. Raises ToolError."""
    lines: list[str] = []
    for connection in connections:
        lines += await _page(connection, cursor)
    return "\n".join(lines) or "(no resources)"


async def _page(connection: McpConnection, cursor: str | None) -> list[str]:
    name = connection.server.name

    async def get(client: Client) -> tuple[types.ListResourcesResult, list[Any]]:
        page = await client.list_resources(cursor=cursor)
        templates: list[types.ResourceTemplate] = []
        if cursor is None:
            with suppress(MCPError):  # not all servers have them
                templates = (await client.list_resource_templates()).resource_templates
        return page, templates

    page, templates = await connection.request("resources/list", get)
    lines = [_line(name, one.uri, one) for one in page.resources[:MAX_SHOWN]]
    lines += [f"{_line(name, one.uri_template, one)} (fill in the {{...}})" for one in templates]
    if len(page.resources) > MAX_SHOWN:
        lines.append(f"[{len(page.resources) - MAX_SHOWN} more of {name} are not shown]")
    if page.next_cursor is not None:
        lines.append(f"[more of {name}: server={name!r}, cursor={page.next_cursor!r}]")
    return lines


def _line(server: str, uri: str, one: types.Resource | types.ResourceTemplate) -> str:
    about = one.description or one.title or one.name
    kind = f" [{one.mime_type}]" if one.mime_type else ""
    return one_line(f"{server}/{uri}{kind} {about}")


async def _read(connection: McpConnection, uri: str) -> types.ReadResourceResult:
    async def get(client: Client) -> types.ReadResourceResult:
        return await client.read_resource(uri)

    found: types.ReadResourceResult = await connection.request(f"the resource {uri[:200]!r}", get)
    return found


async def content(connection: McpConnection, uri: str) -> Content:
    """Return what a resource is, as a model reads it. Raises ToolError."""
    found = await _read(connection, uri)
    several = len(found.contents) > 1
    return bounded(resource_parts(found.contents, named=several), connection.around.outputs)


async def text(connection: McpConnection, uri: str) -> str:
    """Return a resource that is a text, whole. Raises ToolError where it is none."""
    parts = resource_parts((await _read(connection, uri)).contents, named=False)
    texts = [part.text for part in parts if isinstance(part, TextPart)]
    if len(texts) != len(parts) or not any(one.strip() for one in texts):
        raise ToolError(f"the resource {uri!r} is no text")
    whole = "\n".join(texts)
    if len(whole) > MAX_CHARACTERS:
        raise ToolError(f"the resource {uri!r} has more than {MAX_CHARACTERS:,} characters")
    return from_outside(whole)
