"""Agents that are described for Claude Code (`.claude/agents/*.md`), as templates.

Its names of tools become ours. What has no counterpart here is left out, with a note: such a file
was not written for Harken, and most of it holds. Nothing in it ever widens what its parent may.

Source: the reference of subagents of Claude Code, as of 2.1.329.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from harken.agents import front_matter
from harken.agents.claude_tools import our_name
from harken.agents.front_matter import Malformed, files_in, naming, read_page
from harken.agents.templates import TEMPLATE, Template
from harken.core import codec
from harken.world.permissions.permissions import Mode

_MODES: Mapping[str, Mode] = {
    "acceptEdits": "edits",
    "bypassPermissions": "all",
    "default": "ask",
    "dontAsk": "ask",
    "plan": "plan",
}
_TOLD = {"name", "description", "tools", "disallowedTools", "model", "skills", "permissionMode"}
_TOLD |= {"hooks", "color"}


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
            tools = front_matter.names(front, "tools", "Read, Grep")
            denied = front_matter.names(front, "disallowedTools", "Bash") or ()
            known: dict[str, Any] = {
                "tools": None if tools is None else _ours(tools, notes),
                "denied": _ours(denied, notes),
                "model": _model(front_matter.text(front, "model").strip(), notes),
                "skills": front_matter.names(front, "skills", "house-style"),
                "permission": _MODES.get(str(front.get("permissionMode", ""))),
                "commands": self._commands(front, notes),
            }
            named = front_matter.text(front, "name")
            if named not in ("", path.stem):
                notes.append(f"is called {named!r} in it, and {path.stem!r} here, as its file is")
            description = front_matter.one_line(front, "description")
        return Template(
            name=path.stem,
            instructions=page.body.strip(),
            description=description,
            path=path,
            hash=codec.digest(TEMPLATE, page.data).hex(),
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


def _ours(tools: Iterable[str], notes: list[str]) -> tuple[str, ...]:
    """Return our names of tools, each once; what there is nothing for is left out, and noted."""
    found: dict[str, None] = {}
    for tool in tools:
        name = our_name(tool)
        if name is None:
            notes.append(f"there is no tool {tool!r} here")
        else:
            found[name] = None
    return tuple(found)


def _model(name: str, notes: list[str]) -> str | None:
    """Return the full name of a model; None for the parent's, as for all names without provider."""
    if "/" in name:
        return name
    if name not in ("", "inherit"):
        notes.append(f"the model {name!r} is none here: it has that of its parent")
    return None
