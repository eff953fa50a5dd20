"""Read objects of which each member is an attribute: `gen_ai.prompt.0.role`.

Two families of libraries write them: OpenLLMetry, and OpenInference, which wraps each object in one
with a single member. A member others such a wrapper, and a value that stands where others have an
object, stay members.

Source: OpenInference, "Messages and Content"; OpenLLMetry, "GenAI Semantic Conventions".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harken.capture.otlp.span import Attributes
from harken.formats.json_records import Record
from harken.formats.providers.otel_messages import parse_attribute_value

_MAX_DEPTH = 12
_VALUE = "#value"
"""The member with the value of an attribute whose name begins the names of others."""


def read_flat_records(attributes: Attributes, prefix: str) -> list[Any]:
    """Return the values that attributes such as `PREFIX0.role` spell out, by index."""
    tree: Record = {}
    for name, value in attributes.items():
        if name.startswith(prefix) and value is not None:
            path = name[len(prefix) :].split(".", _MAX_DEPTH)
            if path[0].isdecimal():
                _insert_path(tree, path, value)
    records = _as_list(tree)
    return records if isinstance(records, list) else []


def _insert_path(tree: Record, path: Sequence[str], value: Any) -> None:
    *parents, leaf = path
    for step in parents:
        child = tree.get(step)
        if not isinstance(child, _Node):
            child = tree[step] = _Node({} if child is None else {_VALUE: child})
        tree = child
    if isinstance(tree.get(leaf), _Node):
        tree = tree[leaf]
        leaf = _VALUE
    tree[leaf] = value


class _Node(dict[str, Any]):
    """An object that attributes spell out, in contrast to one that is the value of an attribute."""


def _as_list(tree: Any) -> Any:
    """Return a tree with numeric names as a list, in numeric order."""
    if not isinstance(tree, dict):
        return tree
    if tree and all(name.isdecimal() and name.isascii() for name in tree):
        ordered = sorted(tree.items(), key=lambda pair: (len(pair[0]), pair[0]))
        return [_as_list(child) for _, child in ordered]
    return {name: _as_list(child) for name, child in tree.items()}


def unwrap_message(wrapper: Any) -> Any:
    """Return a message without the wrapper objects of OpenInference."""
    record = unwrap(wrapper, "message")
    if not isinstance(record, dict):
        return record
    calls, contents = record.get("tool_calls"), record.get("contents")
    if isinstance(calls, list):
        record = {**record, "tool_calls": [unwrap(call, "tool_call") for call in calls]}
    if isinstance(contents, list) and "content" not in record:
        blocks = [_unwrap_content(block) for block in contents]
        record = {n: v for n, v in record.items() if n != "contents"} | {"content": blocks}
    return record


def unwrap(wrapper: Any, name: str) -> Any:
    """Return the object in a wrapper, with the members others it.

    A member that both have has a number in its outer name.
    """
    if not isinstance(wrapper, dict) or not isinstance(wrapper.get(name), dict):
        return wrapper
    others = {key: value for key, value in wrapper.items() if key != name}
    clashes = {f"{key}#1": others.pop(key) for key in [*others] if key in wrapper[name]}
    return {**others, **clashes, **wrapper[name]}


def _unwrap_content(wrapper: Any) -> Any:
    block = unwrap(wrapper, "message_content")
    if not isinstance(block, dict) or not isinstance(block.get("image"), dict):
        return block
    others = {name: value for name, value in block.items() if name not in ("image", "type")}
    return {"type": "image_url", "image_url": unwrap(block["image"], "image"), **others}


def unwrap_tool(definition: Any) -> Any:
    """Return a tool definition. OpenInference stores it as the JSON text of its schema."""
    tool = unwrap(definition, "tool")
    if not isinstance(tool, dict):
        return tool
    schema = parse_attribute_value(tool.get("json_schema"))
    if isinstance(schema, dict):
        tool = unwrap({**tool, "json_schema": schema}, "json_schema")
    if "parameters" in tool:
        tool = {**tool, "parameters": parse_attribute_value(tool["parameters"])}
    return tool
