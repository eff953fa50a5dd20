"""Write docs/reference/service.md from the OpenAPI description of the service.

`--check` writes nothing, and exits with code 1 if the page is not up to date.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from fastapi import FastAPI

from harken.service.access import AccessCheck
from harken.service.app import make_app
from harken.service.openapi import describe
from harken.store.memory import MemoryStore

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "service.md"
HEAD = """<!-- Written by tools/api_docs.py. Change the source and run it again. -->

# Service

What `harken serve` answers, see
[Serve the store over HTTP](../how-to/serve-the-store.md). The page is
made from the OpenAPI description, which a service gives at `/v1/openapi.json`; what both cannot say
stands in [the format](../formats/service.md). A type in italics may be left out.
"""


def page() -> str:
    """Return the page."""
    app = make_app(MemoryStore(), AccessCheck(None)).inner
    assert isinstance(app, FastAPI)
    description = describe(app)
    lines = [HEAD]
    by_tag: dict[str, list[str]] = {}
    for path, operations in description["paths"].items():
        for method, operation in operations.items():
            text = "\n".join(entry(f"{method.upper()} {path}", operation))
            by_tag.setdefault(operation["tags"][0], []).append(text)
    for tag, entries in by_tag.items():
        lines += [f"## {tag.capitalize()}\n", *entries]
    lines.append("## Types\n")
    for name, schema in description["components"]["schemas"].items():
        lines += type_entry(name, schema)
    return "\n".join(lines)


def entry(title: str, operation: Mapping[str, Any]) -> Iterator[str]:
    """Yield the section of an operation."""
    yield f"### `{title}`\n"
    yield operation["description"] + "\n"
    rows = [
        f"| {one['in']} | `{one['name']}` | {shown(one['schema'], required=one['required'])} |"
        for one in operation.get("parameters", ())
    ]
    if body := operation.get("requestBody"):
        rows.append(f"| request body | | {contents(body['content'])} |")
    for status, response in operation["responses"].items():
        if status == "200":
            rows.append(f"| response | | {contents(response['content'])} |")
    fails = ", ".join(status for status in operation["responses"] if status != "200")
    yield "\n".join(["| | name | type |", "|---|---|---|", *rows, f"| errors | | {fails} |"]) + "\n"


def type_entry(name: str, schema: Mapping[str, Any]) -> Iterator[str]:
    """Yield the section of a type."""
    yield f"### {name}\n"
    yield " ".join(schema.get("description", "").split()) + "\n"
    required = schema.get("required", ())
    members = schema.get("properties", {}).items()
    if members:
        yield "| member | type |\n|---|---|"
        yield "".join(
            f"| `{member}` | {shown(inner, required=member in required)} |\n"
            for member, inner in members
        )


def contents(content: Mapping[str, Any]) -> str:
    """Return the type of a body."""
    json = content.get("application/json")
    said = [shown(json["schema"])] if json else []
    if "application/msgpack" in content:
        said.append("or MessagePack")
    return " ".join(said) or "bytes"


def shown(schema: Mapping[str, Any], *, required: bool = True) -> str:
    """Return a short description of a schema."""
    text = words(schema)
    bounds = {key: schema[key] for key in ("minimum", "maximum", "maxItems") if key in schema}
    named = {"minimum": "from", "maximum": "to", "maxItems": "at most"}
    text += "".join(f" {named[key]} {value:,}" for key, value in bounds.items())
    if not required:
        text = f"*{text}*"
        default = schema.get("default")
        if default not in (None, "", [], {}, False):
            text += f", otherwise `{default}`"
    return text


def words(schema: Mapping[str, Any]) -> str:
    """Return the type of a schema."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(words(one) for one in schema["anyOf"]))
    if "enum" in schema:
        return ", ".join(f"`{one}`" for one in schema["enum"])
    match schema.get("type"):
        case "array":
            return f"list of {words(schema.get('items') or {})}"
        case "object" if isinstance(schema.get("additionalProperties"), dict):
            return f"map of {words(schema['additionalProperties'])}"
        case "string" if schema.get("contentEncoding") == "base64":
            return "base64"
        case None:
            return "any"
        case other:
            return str(other)


def main() -> int:
    """Write the page, or check it."""
    text = re.sub(r"\n{3,}", "\n\n", page())
    old = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    if "--check" in sys.argv[1:]:
        if old != text:
            print("docs/reference/service.md is not up to date: run python tools/api_docs.py")
        return int(old != text)
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
