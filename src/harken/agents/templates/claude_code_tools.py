"""The tools as Claude Code calls them: scripts and agents written for it find what they know.

Names and arguments are put into its words and taken back. What has no other name there stays as
it is, in both directions, so nothing is lost on the way. Paths become absolute and real: what a
guard is told is the file that will be touched, whichever way leads to it.

Source: the input that Claude Code 2.1.329 gives its hooks, and its tools reference.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harken.world.files.root import decode_shown_name

_STATUS = {"open": "pending", "doing": "in_progress", "done": "completed"}
_ANYBODY = "general-purpose"
"""The kind of a subagent that is made from no template."""
_TEMPLATE = "template:"


@dataclass(frozen=True, slots=True)
class ClaudeTool:
    """A tool of ours as Claude Code has it."""

    name: str
    older: tuple[str, ...] = ()
    """Other names that it had, which matchers may still say."""
    members: Mapping[str, str] = field(default_factory=dict)
    """Our arguments by their names there, where these differ."""
    paths: frozenset[str] = frozenset()
    """Those of ours that are paths."""
    always: Mapping[str, Any] = field(default_factory=dict)
    """What is there also where a call does not say it."""


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
"""Those that have another name there, by our name."""
_OURS = {name: ours for ours, tool in TOOLS.items() for name in (tool.name, *tool.older)}
_UNKNOWN = ClaudeTool("")


def names_of(tool: str) -> tuple[str, ...]:
    """Return what Claude Code calls a tool of ours, then what it called it earlier.

    >>> names_of("task"), names_of("mcp__github__search")
    (('Agent', 'Task'), ('mcp__github__search',))
    """
    known = TOOLS.get(tool)
    return (tool,) if known is None else (known.name, *known.older)


def our_name(tool: str) -> str | None:
    """Return our name of a tool of Claude Code; None where there is nothing of the kind here.

    >>> our_name("MultiEdit"), our_name("mcp__github__search"), our_name("NotebookEdit")
    ('edit', 'mcp__github__search', None)
    """
    return tool if tool.startswith("mcp__") else _OURS.get(tool)


def to_claude_arguments(
    tool: str, arguments: Mapping[str, Any], folder: Path | None
) -> dict[str, Any]:
    """Return the arguments of a call as Claude Code would say them; paths start at `folder`."""
    spelling = TOOLS.get(tool, _UNKNOWN)
    said = dict(spelling.always)
    for name, value in arguments.items():
        if name in spelling.paths and isinstance(value, str):
            value = real(value, folder)
        said[spelling.members.get(name, name)] = _value(tool, name, value)
    if tool == "task" and "subagent_type" not in said:
        said["subagent_type"] = _ANYBODY
    return said


def from_claude_arguments(
    tool: str, arguments: Mapping[str, Any], updated: Mapping[str, Any], folder: Path | None
) -> dict[str, Any]:
    """Return our arguments with what `updated`, which takes the place of `told`, has otherwise."""
    spelling, before = TOOLS.get(tool, _UNKNOWN), to_claude_arguments(tool, arguments, folder)
    ours = {theirs: name for name, theirs in spelling.members.items()}
    changed = dict(arguments)
    for name in before.keys() - updated.keys():
        changed.pop(ours.get(name, name), None)
    for name, value in updated.items():
        if name not in before or before[name] != value:
            mine = ours.get(name, name)
            changed[mine] = _our_value(tool, mine, value)
    return changed


def real(path: str, folder: Path | None) -> str:
    """Return the real path that a call means, absolute; what is no path stays as it is."""
    if folder is None or not path or "\0" in path:
        return path
    try:
        return os.path.realpath(folder / decode_shown_name(folder, path))
    except (OSError, ValueError):
        return path


def _value(tool: str, name: str, value: Any) -> Any:
    match tool, name, value:
        case "bash", "timeout_s", int() | float():
            return round(value * 1000)
        case "task", "instructions", str():
            is_named = value.startswith(_TEMPLATE)
            return value.removeprefix(_TEMPLATE).strip() if is_named else _ANYBODY
        case "todo", "items", list():
            return [_todo(one) for one in value]
    return value


def _our_value(tool: str, name: str, value: Any) -> Any:
    match tool, name, value:
        case "bash", "timeout_s", int() | float():
            return value / 1000
        case "task", "instructions", str():
            return _TEMPLATE + value
        case "todo", "items", list():
            return [_our_todo(one) for one in value]
    return value


def _todo(item: Any) -> Any:
    if not isinstance(item, dict):
        return item
    text, status = item.get("text"), item.get("status", "open")
    return {"content": text, "status": _STATUS.get(status, status), "activeForm": text}


def _our_todo(item: Any) -> Any:
    if not isinstance(item, dict):
        return item
    ours = {theirs: status for status, theirs in _STATUS.items()}
    status = item.get("status", "pending")
    return {"text": item.get("content"), "status": ours.get(status, status)}
