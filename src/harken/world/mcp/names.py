"""Names: what a server's tools are called here, so that every provider takes them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import blake2s

from harken.world.permissions.pattern import compiled

LONGEST = 64
_ODD = re.compile(r"[^A-Za-z0-9_-]")


def tool_names(server: str, tools: Iterable[str]) -> dict[str, str]:
    """Return what the tools of a server are called: `mcp__SERVER__TOOL`.

    What providers do not take is replaced; where that makes two alike, or one too long, a few
    digits tell them apart. A name depends on nothing but its own tool, whatever others there are.

    >>> tool_names("docs", ["search", "get page", "x" * 80])["get page"]
    'mcp__docs__get_page_7d24'
    """
    return {tool: _name(server, tool) for tool in tools}


def _name(server: str, tool: str) -> str:
    plain = f"mcp__{server}__{_ODD.sub('_', tool)}"
    if plain.endswith(tool) and len(plain) <= LONGEST:
        return plain
    digits = blake2s(tool.encode("utf-8", "surrogatepass"), digest_size=2).hexdigest()
    return f"{plain[: LONGEST - 5]}_{digits}"


def server_in(name: str) -> str | None:
    """Return the server that a tool of this name is of; None for other tools.

    >>> server_in("mcp__docs__search"), server_in("read")
    ('docs', None)
    """
    kind, _, rest = name.partition("__")
    server, found, _ = rest.partition("__")
    return server if kind == "mcp" and found else None


def is_let_in(tool: str, patterns: Iterable[str] | None) -> bool:
    """Whether one of the patterns stands for a tool; None stands for all.

    >>> is_let_in("read_file", ["read_*"]), is_let_in("write_file", ["read_*"])
    (True, False)
    """
    return patterns is None or any(compiled(one).matches(tool) for one in patterns)
