"""Resources of servers. `SERVER/URI` names a resource, for tools and for `mcp:`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

import mcp_types as types
from mcp import Client
from mcp.shared.exceptions import MCPError

from harken.core.arguments import format_existing
from harken.core.messages import Content, TextPart
from harken.core.untrusted import escape_hook_markers
from harken.world.mcp.connection import McpConnection
from harken.world.mcp.content import MAX_CHARACTERS, limit_parts, resource_parts
from harken.world.mcp.errors import one_line
from harken.world.result import ToolError

MAX_SHOWN = 200
"""The maximum number of resources of a page that are listed."""


def parse_resource_uri(
    resource: str, connections: Mapping[str, McpConnection]
) -> tuple[McpConnection, str]:
    """Return the connection and the URI that `SERVER/URI` names. Raises ToolError."""
    name, slash, uri = resource.strip().partition("/")
    if name not in connections or not slash or not uri:
        existing = format_existing(connections, "servers with resources")
        raise ToolError(f"{resource!r} is not SERVER/URI{existing}")
    return connections[name], uri


async def listing(connections: Iterable[McpConnection], cursor: str | None) -> str:
    """Return a page of resources, one per line, with the next cursor. Raises ToolError."""
    lines: list[str] = []
    for connection in connections:
        lines += await _list_page(connection, cursor)
    return "\n".join(lines) or "(no resources)"


async def _list_page(connection: McpConnection, cursor: str | None) -> list[str]:
    name = connection.server.name

    async def list_page(client: Client) -> tuple[types.ListResourcesResult, list[Any]]:
        page = await client.list_resources(cursor=cursor)
        templates: list[types.ResourceTemplate] = []
        if cursor is None:
            with suppress(MCPError):  # not all servers have them
                templates = (await client.list_resource_templates()).resource_templates
        return page, templates

    page, templates = await connection.request("resources/list", list_page)
    lines = [_format_line(name, resource.uri, resource) for resource in page.resources[:MAX_SHOWN]]
    lines += [
        f"{_format_line(name, resource.uri_template, resource)} (fill in the {{...}})"
        for resource in templates
    ]
    if len(page.resources) > MAX_SHOWN:
        lines.append(f"[{len(page.resources) - MAX_SHOWN} more of {name} are not shown]")
    if page.next_cursor is not None:
        lines.append(f"[more of {name}: server={name!r}, cursor={page.next_cursor!r}]")
    return lines


def _format_line(server: str, uri: str, resource: types.Resource | types.ResourceTemplate) -> str:
    description = resource.description or resource.title or resource.name
    kind = f" [{resource.mime_type}]" if resource.mime_type else ""
    return one_line(f"{server}/{uri}{kind} {description}")


async def _read_resource(connection: McpConnection, uri: str) -> types.ReadResourceResult:
    async def read_resource(client: Client) -> types.ReadResourceResult:
        return await client.read_resource(uri)

    result: types.ReadResourceResult = await connection.request(
        f"the resource {uri[:200]!r}", read_resource
    )
    return result


async def content(connection: McpConnection, uri: str) -> Content:
    """Return a resource for a model. Raises ToolError."""
    result = await _read_resource(connection, uri)
    is_multiple = len(result.contents) > 1
    return limit_parts(resource_parts(result.contents, named=is_multiple), connection.host.outputs)


async def text(connection: McpConnection, uri: str) -> str:
    """Return the full text of a resource. Raises ToolError if it is no text."""
    parts = resource_parts((await _read_resource(connection, uri)).contents, named=False)
    texts = [part.text for part in parts if isinstance(part, TextPart)]
    if len(texts) != len(parts) or not any(text_part.strip() for text_part in texts):
        raise ToolError(f"the resource {uri!r} is not text")
    full_text = "\n".join(texts)
    if len(full_text) > MAX_CHARACTERS:
        raise ToolError(f"the resource {uri!r} has more than {MAX_CHARACTERS:,} characters")
    return escape_hook_markers(full_text)
