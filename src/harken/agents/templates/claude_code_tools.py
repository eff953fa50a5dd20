"""Translate tool calls to the names and arguments of Claude Code, and back.

So scripts and agents written for Claude Code work. Names without a counterpart stay unchanged in
both directions, so nothing is lost. Paths become absolute real paths, so that a guard sees the file
that will be touched.

Source: the input that Claude Code 2.1.329 gives its hooks, and its tools reference.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from harken.world.files.root import decode_shown_name

_STATUS = {"open": "pending", "doing": "in_progress", "done": "completed"}
_DEFAULT_SUBAGENT_TYPE = "general-purpose"
"""The subagent type of a subagent without a template."""
_TEMPLATE = "template:"


class ClaudeTool(msgspec.Struct, frozen=True):
    """A tool of Harken in Claude Code's terms."""

    name: str
    former_names: tuple[str, ...] = ()
    """Earlier names, which matchers may still use."""
    members: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Claude Code's names of arguments by Harken's, where they differ."""
    paths: frozenset[str] = frozenset()
    """Harken's names of the arguments that are paths."""
    always: Mapping[str, Any] = msgspec.field(default_factory=dict)
    """Arguments that are always present, with their defaults."""


_PATH = frozenset({"path"})
_FILE = {"path": "file_path"}
_GREP = {"ignore_case": "-i", "context_lines": "-C", "limit": "head_limit"}
TOOLS: Mapping[str, ClaudeTool] = {
    "ask_user": ClaudeTool("AskUserQuestion"),
    "bash": ClaudeTool("Bash", members={"timeout_s": "timeout"}),
    "edit": ClaudeTool("Edit", ("MultiEdit",), _FILE, _PATH, {"replace_all": False}),
    "fetch": ClaudeTool("WebFetch"),
    "glob": ClaudeTool("Glob", paths=_PATH),
    "grep": ClaudeTool("Grep", members=_GREP, paths=_PATH),
    "ls": ClaudeTool("LS", paths=_PATH),
    "read": ClaudeTool("Read", members=_FILE, paths=_PATH),
    "skill": ClaudeTool("Skill", members={"name": "skill"}),
    "task": ClaudeTool(
        "Agent", ("Task",), {"name": "description", "instructions": "subagent_type"}
    ),
    "todo": ClaudeTool("TodoWrite", members={"items": "todos"}),
    "websearch": ClaudeTool("WebSearch"),
    "write": ClaudeTool("Write", members=_FILE, paths=_PATH),
}
"""The tools with different names, by Harken's name."""
_OUR_NAMES = {
    name: ours for ours, tool in TOOLS.items() for name in (tool.name, *tool.former_names)
}
_UNKNOWN = ClaudeTool("")


def claude_names(tool: str) -> tuple[str, ...]:
    """Return Claude Code's name of a tool, then its earlier names.

    >>> claude_names("task"), claude_names("mcp__github__search")
    (('Agent', 'Task'), ('mcp__github__search',))
    """
    spelling = TOOLS.get(tool)
    return (tool,) if spelling is None else (spelling.name, *spelling.former_names)


def harken_name(tool: str) -> str | None:
    """Return Harken's name of a tool of Claude Code, or None if there is no such tool.

    >>> harken_name("MultiEdit"), harken_name("mcp__github__search"), harken_name("NotebookEdit")
    ('edit', 'mcp__github__search', None)
    """
    return tool if tool.startswith("mcp__") else _OUR_NAMES.get(tool)


def to_claude_arguments(
    tool: str, arguments: Mapping[str, Any], folder: Path | None
) -> dict[str, Any]:
    """Translate the arguments of a call to Claude Code's; relative paths start at `folder`."""
    spelling = TOOLS.get(tool, _UNKNOWN)
    translated = dict(spelling.always)
    for name, value in arguments.items():
        if name in spelling.paths and isinstance(value, str):
            value = resolve_path(value, folder)
        translated[spelling.members.get(name, name)] = _to_claude_value(tool, name, value)
    if tool == "task" and "subagent_type" not in translated:
        translated["subagent_type"] = _DEFAULT_SUBAGENT_TYPE
    return translated


def from_claude_arguments(
    tool: str, arguments: Mapping[str, Any], updated: Mapping[str, Any], folder: Path | None
) -> dict[str, Any]:
    """Apply the changes in `updated`, in Claude Code's terms, to the arguments of a call."""
    spelling, translated = TOOLS.get(tool, _UNKNOWN), to_claude_arguments(tool, arguments, folder)
    our_names = {their_name: name for name, their_name in spelling.members.items()}
    changed = dict(arguments)
    for name in translated.keys() - updated.keys():
        changed.pop(our_names.get(name, name), None)
    for name, value in updated.items():
        if name not in translated or translated[name] != value:
            our_argument = our_names.get(name, name)
            changed[our_argument] = _from_claude_value(tool, our_argument, value)
    return changed


def resolve_path(path: str, folder: Path | None) -> str:
    """Return the absolute real path of a path argument, or the argument itself if invalid."""
    if folder is None or not path or "\0" in path:
        return path
    try:
        return os.path.realpath(folder / decode_shown_name(folder, path))
    except (OSError, ValueError):
        return path


def _to_claude_value(tool: str, name: str, value: Any) -> Any:
    match tool, name, value:
        case "bash", "timeout_s", int() | float():
            return round(value * 1000)
        case "task", "instructions", str():
            is_template = value.startswith(_TEMPLATE)
            return value.removeprefix(_TEMPLATE).strip() if is_template else _DEFAULT_SUBAGENT_TYPE
        case "todo", "items", list():
            return [_to_claude_todo(item) for item in value]
    return value


def _from_claude_value(tool: str, name: str, value: Any) -> Any:
    match tool, name, value:
        case "bash", "timeout_s", int() | float():
            return value / 1000
        case "task", "instructions", str():
            return _TEMPLATE + value
        case "todo", "items", list():
            return [_from_claude_todo(item) for item in value]
    return value


def _to_claude_todo(item: Any) -> Any:
    if not isinstance(item, dict):
        return item
    text, status = item.get("text"), item.get("status", "open")
    return {"content": text, "status": _STATUS.get(status, status), "activeForm": text}


def _from_claude_todo(item: Any) -> Any:
    if not isinstance(item, dict):
        return item
    our_status = {their_status: status for status, their_status in _STATUS.items()}
    status = item.get("status", "pending")
    return {"text": item.get("content"), "status": our_status.get(status, status)}
