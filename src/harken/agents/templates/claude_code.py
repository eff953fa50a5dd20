"""Templates from agent files of Claude Code (`.claude/agents/*.md`).

Its tool names are translated. Members without a counterpart are left out, with a note: such a file
was not written for Harken, and most of it is usable. Nothing in it gives more rights than the
parent has, except the MCP servers that it names or describes, as in Harken's own templates.

Source: the reference of subagents of Claude Code, as of 2.1.329.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from harken.agents import texts
from harken.agents.templates import front_matter
from harken.agents.templates.claude_code_tools import harken_name
from harken.agents.templates.front_matter import (
    Malformed,
    file_errors,
    find_markdown_files,
    read_markdown_file,
)
from harken.agents.templates.template import TEMPLATE, Template
from harken.core import canonical
from harken.errors import ConfigError
from harken.world.mcp.server_config import McpServerConfig, parse_granted_servers
from harken.world.permissions.mode import Mode

_MODES: Mapping[str, Mode] = {
    "acceptEdits": "edits",
    "bypassPermissions": "all",
    "default": "ask",
    "dontAsk": "ask",
    "plan": "plan",
}
_KNOWN_MEMBERS = {
    "name",
    "description",
    "tools",
    "disallowedTools",
    "model",
    "skills",
    "permissionMode",
}
_KNOWN_MEMBERS |= {"hooks", "color", "mcpServers"}
_IGNORED_MEMBERS = (
    *("autoCompactWindow", "background", "effort", "initialPrompt", "isolation"),
    *("maxTurns", "memory", "observer", "omitClaudeMd"),
)
"""Members that change an agent's behavior there and are ignored here."""
_SEPARATOR_PATTERN = re.compile(r",(?![^()]*\))")
"""The separator of tool names; `Agent(a, b)` is a single name."""
_LIMITED_PATTERN = re.compile(r"(\w+)\((.*)\)", re.DOTALL)
_SERVER_PATTERN = re.compile(r"mcp__(?:(?!__).)+")
_SERVER_MEMBERS = ("command", "args", "env", "cwd", "url", "headers")


class ClaudeAgents:
    """The agent files in some folders and their subfolders."""

    def __init__(self, folders: Sequence[Path], *, runs_commands: bool = False) -> None:
        """Set the folders, which are scanned on each access and need not exist.

        runs_commands: whether hook commands of a file are run.
        """
        self.folders, self.runs_commands = tuple(folders), runs_commands

    def files(self) -> dict[str, Path]:
        """Return the files by name; the first folder takes precedence."""
        return find_markdown_files(self.folders, "**/*.md")

    def read(self, path: Path) -> Template:
        """Read a file. Raises ConfigError, with a single line, if it cannot be used."""
        with file_errors(path):
            page = read_markdown_file(path, lenient=True)
            if not page.body.strip():
                raise Malformed("has no instructions: write them below the front matter")
            front, notes = page.front, list[str]()
            skills = front_matter.names(front, "skills", "house-style")
            fields: dict[str, Any] = {
                **_parse_tools(front, notes, has_skills=bool(skills)),
                **_parse_servers(front.get("mcpServers"), path.name, notes),
                "model": _parse_model(front_matter.text(front, "model").strip(), notes),
                "skills": skills,
                "permission": _MODES.get(str(front.get("permissionMode", ""))),
                "commands": self._commands(front, notes),
            }
            ignored_names = [name for name in _IGNORED_MEMBERS if name in front]
            if ignored_names:
                notes.append(f"{', '.join(ignored_names)}: not supported and ignored")
            declared_name = front_matter.text(front, "name")
            if declared_name not in ("", path.stem):
                notes.append(
                    f"its name {declared_name!r} is ignored: its file has the name {path.stem!r}"
                )
            description = front_matter.one_line(front, "description")
        return Template(
            name=path.stem,
            instructions="\n\n".join(
                [
                    page.body.strip(),
                    *([texts.SKILLS_PRELOADED.format(", ".join(skills))] if skills else []),
                ]
            ),
            description=description,
            path=path,
            hash=canonical.hash_bytes(TEMPLATE, page.data).hex(),
            ignored=tuple(sorted(front.keys() - _KNOWN_MEMBERS)),
            notes=tuple(f"{path}: {note}" for note in notes),
            **fields,
        )

    def _commands(self, front: Mapping[str, Any], notes: list[str]) -> Mapping[str, Any] | None:
        hooks = front.get("hooks")
        if hooks is None:
            return None
        if not isinstance(hooks, dict):
            raise Malformed("hooks is a section as settings have it")
        if not self.runs_commands:
            notes.append("its hooks are not run: hooks of Claude Code are not switched on")
            return None
        return hooks


def _parse_tools(front: Mapping[str, Any], notes: list[str], *, has_skills: bool) -> dict[str, Any]:
    """Parse the allowed and the denied tools."""
    tools, denied = (_parse_names(front, key) for key in ("tools", "disallowedTools"))
    limit = None if tools is None or "*" in tools else _translate_tools(tools, notes)
    if limit is not None and has_skills and "skill" not in limit:
        limit = (*limit, "skill")  # its skills do not depend on its tools
    return {"tools": limit, "denied": _translate_tools(denied or (), notes)}


def _parse_names(front: Mapping[str, Any], key: str) -> tuple[str, ...] | None:
    value = front.get(key)
    if isinstance(value, str):
        front = {key: _SEPARATOR_PATTERN.split(value)}
    return front_matter.names(front, key, "Read, Grep")


def _translate_tools(tools: Iterable[str], notes: list[str]) -> tuple[str, ...]:
    """Translate tool names, without duplicates. Unknown tools are left out, with a note.

    An MCP server stands for all of its tools.
    """
    names: dict[str, None] = {}
    for tool in tools:
        match = _LIMITED_PATTERN.fullmatch(tool)
        name = harken_name(tool if match is None else match[1])
        if name is None:
            notes.append(f"tool {tool!r} not found")
        elif match is not None and name != "task":
            notes.append(f"the tool {tool!r} is omitted: restrictions of a tool are not supported")
        else:
            if match is not None:
                notes.append(f"{tool!r}: the limit of agent types is ignored")
            names[f"{name}__*" if _SERVER_PATTERN.fullmatch(name) else name] = None
    return tuple(names)


def _parse_servers(value: Any, origin: str, notes: list[str]) -> dict[str, Any]:
    """Parse the MCP servers that an agent names or describes. An unusable server becomes a note."""
    names: list[str] = []
    servers: list[McpServerConfig] = []
    if not isinstance(value, str | dict | list | None):
        raise Malformed("mcpServers is a list of names of servers, or a table of servers")
    for item in [value] if isinstance(value, str | dict) else value or ():
        for name, table in item.items() if isinstance(item, dict) else [(item, None)]:
            try:
                item_names, item_servers = parse_granted_servers(
                    _format_server(name, table), origin
                )
            except ConfigError as error:
                notes.append(str(error))
            else:
                names, servers = [*names, *item_names], [*servers, *item_servers]
    return {"mcp": tuple(dict.fromkeys(names)), "servers": tuple(servers)}


def _format_server(name: Any, table: Any) -> Any:
    """Return a server in the form of Harken's templates."""
    if table is None:
        return [name]
    members = table if isinstance(table, dict) else {}
    return {name: {key: members[key] for key in _SERVER_MEMBERS if key in members}}


def _parse_model(name: str, notes: list[str]) -> str | None:
    """Return the full name of a model, or None (the parent's model) for a name without provider."""
    if "/" in name:
        return name
    if name not in ("", "inherit"):
        notes.append(f"the model {name!r} is not known: the model of the parent is used")
    return None
