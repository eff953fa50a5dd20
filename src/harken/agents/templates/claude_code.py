"""Agents that are described for Claude Code (`.claude/agents/*.md`), as templates.

Its names of tools become ours. What has no counterpart here is left out, with a note: such a file
was not written for Harken, and most of it holds. Nothing in it ever widens what its parent may, but
for the MCP servers that it names or describes, as in templates of ours.

Source: the reference of subagents of Claude Code, as of 2.1.329.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from harken.agents.templates import front_matter
from harken.agents.templates.claude_code_tools import our_name
from harken.agents.templates.front_matter import Malformed, files_in, naming, read_page
from harken.agents.templates.template import TEMPLATE, Template
from harken.core import canonical
from harken.errors import ConfigError
from harken.world.mcp.server_config import McpServerConfig, granted
from harken.world.permissions.permissions import Mode

_MODES: Mapping[str, Mode] = {
    "acceptEdits": "edits",
    "bypassPermissions": "all",
    "default": "ask",
    "dontAsk": "ask",
    "plan": "plan",
}
_TOLD = {"name", "description", "tools", "disallowedTools", "model", "skills", "permissionMode"}
_TOLD |= {"hooks", "color", "mcpServers"}
_FOR_NOTHING = (
    *("autoCompactWindow", "background", "effort", "initialPrompt", "isolation"),
    *("maxTurns", "memory", "observer", "omitClaudeMd"),
)
"""Members that change there what an agent does."""
_SEVERAL = re.compile(r",(?![^()]*\))")
"""What stands between names of tools; `Agent(a, b)` is one."""
_LIMITED = re.compile(r"(\w+)\((.*)\)", re.DOTALL)
_SERVER = re.compile(r"mcp__(?:(?!__).)+")
_PRELOADED = "Before you begin, read these skills with the tool `skill`: {}."
_OF_SERVER = ("command", "args", "env", "cwd", "url", "headers")


class ClaudeAgents:
    """The files in some folders, and in folders in these."""

    def __init__(self, folders: Sequence[Path], *, runs_commands: bool = False) -> None:
        """Look into these folders whenever something is asked; none of them has to be there.

        runs_commands: whether the commands that a file has as hooks are run.
        """
        self.folders, self.runs_commands = tuple(folders), runs_commands

    def files(self) -> dict[str, Path]:
        """Return the files by name; where two have one, the first counts."""
        return files_in(self.folders, "**/*.md")

    def read(self, path: Path) -> Template:
        """Read a file. Raises ConfigError, on one line, where it cannot be used."""
        with naming(path):
            page = read_page(path, lenient=True)
            if not page.body.strip():
                raise Malformed("has no instructions: write them below the front matter")
            front, notes = page.front, list[str]()
            skills = front_matter.names(front, "skills", "house-style")
            known: dict[str, Any] = {
                **_tools(front, notes, has_skills=bool(skills)),
                **_servers(front.get("mcpServers"), path.name, notes),
                "model": _model(front_matter.text(front, "model").strip(), notes),
                "skills": skills,
                "permission": _MODES.get(str(front.get("permissionMode", ""))),
                "commands": self._commands(front, notes),
            }
            nothing = [name for name in _FOR_NOTHING if name in front]
            if nothing:
                notes.append(f"{', '.join(nothing)}: counts for nothing here")
            named = front_matter.text(front, "name")
            if named not in ("", path.stem):
                notes.append(f"is called {named!r} in it, and {path.stem!r} here, as its file is")
            description = front_matter.one_line(front, "description")
        return Template(
            name=path.stem,
            instructions="\n\n".join(
                [page.body.strip(), *([_PRELOADED.format(", ".join(skills))] if skills else [])]
            ),
            description=description,
            path=path,
            hash=canonical.hash_bytes(TEMPLATE, page.data).hex(),
            ignored=tuple(sorted(front.keys() - _TOLD)),
            notes=tuple(f"{path}: {note}" for note in notes),
            **known,
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


def _tools(front: Mapping[str, Any], notes: list[str], *, has_skills: bool) -> dict[str, Any]:
    """Return what an agent may use, and what not."""
    tools, denied = (_names(front, key) for key in ("tools", "disallowedTools"))
    limit = None if tools is None or "*" in tools else _ours(tools, notes)
    if limit is not None and has_skills and "skill" not in limit:
        limit = (*limit, "skill")  # it has those that it is given, whatever its tools are
    return {"tools": limit, "denied": _ours(denied or (), notes)}


def _names(front: Mapping[str, Any], key: str) -> tuple[str, ...] | None:
    given = front.get(key)
    if isinstance(given, str):
        front = {key: _SEVERAL.split(given)}
    return front_matter.names(front, key, "Read, Grep")


def _ours(tools: Iterable[str], notes: list[str]) -> tuple[str, ...]:
    """Return our names of tools, each once; what there is nothing for is left out, and noted.

    An MCP server stands for all of its tools.
    """
    found: dict[str, None] = {}
    for tool in tools:
        limited = _LIMITED.fullmatch(tool)
        name = our_name(tool if limited is None else limited[1])
        if name is None:
            notes.append(f"there is no tool {tool!r} here")
        elif limited is not None and name != "task":
            notes.append(f"the tool {tool!r} is left out: here it is all of it or nothing")
        else:
            if limited is not None:
                notes.append(f"{tool!r} does not limit here which agents it can make")
            found[f"{name}__*" if _SERVER.fullmatch(name) else name] = None
    return tuple(found)


def _servers(given: Any, origin: str, notes: list[str]) -> dict[str, Any]:
    """Return the MCP servers that an agent names or describes; one that cannot be had is noted."""
    names: list[str] = []
    servers: list[McpServerConfig] = []
    if not isinstance(given, str | dict | list | None):
        raise Malformed("mcpServers is a list of names of servers, or a table of servers")
    for one in [given] if isinstance(given, str | dict) else given or ():
        for name, table in one.items() if isinstance(one, dict) else [(one, None)]:
            try:
                named, described = granted(_server(name, table), origin)
            except ConfigError as error:
                notes.append(str(error))
            else:
                names, servers = [*names, *named], [*servers, *described]
    return {"mcp": tuple(dict.fromkeys(names)), "servers": tuple(servers)}


def _server(name: Any, table: Any) -> Any:
    """Return a server as our templates say it."""
    if table is None:
        return [name]
    known = table if isinstance(table, dict) else {}
    return {name: {key: known[key] for key in _OF_SERVER if key in known}}


def _model(name: str, notes: list[str]) -> str | None:
    """Return the full name of a model; None for the parent's, as for all names without provider."""
    if "/" in name:
        return name
    if name not in ("", "inherit"):
        notes.append(f"the model {name!r} is none here: it has that of its parent")
    return None
