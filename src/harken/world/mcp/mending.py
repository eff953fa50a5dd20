"""Mending: of a list of tools, those that nobody can use are taken out before the SDK sees it.

The SDK refuses a whole list for one tool in it that is not of the protocol. A server with one such
tool has others, too.
"""

from __future__ import annotations

from typing import Any

from harken.core import codec

MAX_SCHEMA_BYTES = 64 << 10


def mend(result: dict[str, Any]) -> list[str]:
    """Take out, in place, the tools of an answer that cannot be used; return a line for each."""
    tools = result.get("tools")
    if not isinstance(tools, list):
        return []
    notes: list[str] = []
    kept: list[Any] = []
    for tool in tools:
        if why := _odd(tool):
            name = str(tool.get("name"))[:64] if isinstance(tool, dict) else "?"
            notes.append(f"its tool {name!r} is left out: {why}")
        else:
            kept.append(tool)
    result["tools"] = kept
    return notes


def _odd(tool: Any) -> str:
    """Say why a tool cannot be used; empty where it can.

    >>> _odd({"name": "x", "inputSchema": {"type": "array"}})
    'the schema of its arguments is no object'
    """
    if not isinstance(tool, dict) or not isinstance(tool.get("name"), str):
        return "it has no name"
    if not tool["name"].strip():
        return "it has no name"
    for what, schema in (("arguments", "inputSchema"), ("result", "outputSchema")):
        if schema == "outputSchema" and tool.get(schema) is None:
            continue
        if why := _odd_schema(tool.get(schema)):
            return f"the schema of its {what} {why}"
    return ""


def _odd_schema(schema: Any) -> str:
    is_object = isinstance(schema, dict) and schema.get("type") == "object"
    if not is_object or not isinstance(schema.get("properties", {}), dict):
        return "is no object"
    try:
        size = len(codec.encode(schema))
    except (TypeError, ValueError, RecursionError):
        return "is no JSON"
    return f"is longer than {MAX_SCHEMA_BYTES >> 10} KB" if size > MAX_SCHEMA_BYTES else ""
