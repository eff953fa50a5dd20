"""Tool calls on one line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harken.edits.tools import find_file_argument
from harken.formats.tool_calls import parse_json_object
from harken.views.message_text import format_count

_MAX_SUMMARY_CHARS = 300
_OTHER_NAMES = {"user_prompt": "prompt", "system_prompt": "instructions"}


def summarize_arguments(name: str, arguments: str) -> str:
    """Format the arguments of a call on one line: its subject instead of all of them.

    >>> summarize_arguments("bash", '{"command": "ls"}')
    'ls'
    >>> summarize_arguments("Edit", '{"file_path": "a.py", "old_string": "1", "new_string": "2"}')
    'a.py'
    >>> summarize_arguments("task", '{"name": "Ann", "prompt": "Tea?"}')
    'Ann: Tea?'
    """
    by_name = parse_json_object(arguments)
    if by_name:
        return _shorten(describe_subject(name, by_name))
    text = arguments[: 4 * _MAX_SUMMARY_CHARS].strip()
    return "" if text == "{}" else _shorten(text)


def describe_subject(name: str, arguments: Mapping[str, Any], *, subject: str | None = None) -> str:
    """Return the subject of a call: its argument `subject`, its file, or all arguments in short."""
    by_name = {_OTHER_NAMES.get(key, key): value for key, value in arguments.items()}
    if name == "task":
        return _join_parts(str(by_name.get("name", "?")), by_name.get("prompt"))
    if name == "discuss":
        return _join_parts(_join_names(by_name.get("speakers")), by_name.get("prompt"))
    if subject is not None and subject in arguments:
        return _format_value(arguments[subject])
    if path := find_file_argument(name, dict(arguments)):
        return path
    if len(arguments) == 1:
        return _format_value(next(iter(arguments.values())))
    return ", ".join(
        f"{key}={_shorten(_format_value(value), 60)}" for key, value in arguments.items()
    )


def _join_parts(agent_name: str, content: Any) -> str:
    return ": ".join(filter(None, (agent_name, _format_value(content) if content else "")))


def _join_names(names: Any) -> str:
    return ", ".join(map(str, names)) if isinstance(names, list) else _format_value(names or "")


def _format_value(value: Any) -> str:
    """Return a short form of a value: a list of other values than texts by its length."""
    if isinstance(value, list):
        is_text = all(isinstance(item, str) for item in value)
        return _join_names(value) if is_text else _count_items(value)
    return value if isinstance(value, str) else repr(value)


def _count_items(values: Sequence[Any]) -> str:
    return format_count(len(values), "item")


def _shorten(text: str, limit: int = _MAX_SUMMARY_CHARS) -> str:
    """Return the beginning of a text on one line."""
    words = " ".join(text[: 4 * limit].split())
    return words if len(words) <= limit and len(text) <= 4 * limit else words[: limit - 1] + "…"
