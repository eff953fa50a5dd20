"""Tool names of servers, in the form that all providers accept."""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import blake2s

from harken.world.permissions.pattern import compile_pattern

MAX_NAME_CHARS = 64
_INVALID_PATTERN = re.compile(r"[^A-Za-z0-9_-]")


def tool_names(server: str, tools: Iterable[str]) -> dict[str, str]:
    """Return the names of a server's tools for agents: `mcp__SERVER__TOOL`.

    Invalid characters are replaced. A hash suffix distinguishes changed or truncated names. A name
    depends only on its own tool, not on other tools.

    >>> tool_names("docs", ["search", "get page", "x" * 80])["get page"]
    'mcp__docs__get_page_7d24'
    """
    return {tool: _build_name(server, tool) for tool in tools}


def _build_name(server: str, tool: str) -> str:
    full_name = f"mcp__{server}__{_INVALID_PATTERN.sub('_', tool)}"
    if full_name.endswith(tool) and len(full_name) <= MAX_NAME_CHARS:
        return full_name
    digits = blake2s(tool.encode("utf-8", "surrogatepass"), digest_size=2).hexdigest()
    return f"{full_name[: MAX_NAME_CHARS - 5]}_{digits}"


def server_in(name: str) -> str | None:
    """Return the server in a tool name. Return None for other tools.

    >>> server_in("mcp__docs__search"), server_in("read")
    ('docs', None)
    """
    kind, _, tail = name.partition("__")
    server, separator, _ = tail.partition("__")
    return server if kind == "mcp" and separator else None


def is_allowed_tool(tool: str, patterns: Iterable[str] | None) -> bool:
    """Whether a pattern matches a tool. A pattern of None matches all tools.

    >>> is_allowed_tool("read_file", ["read_*"]), is_allowed_tool("write_file", ["read_*"])
    (True, False)
    """
    return patterns is None or any(compile_pattern(pattern).matches(tool) for pattern in patterns)
