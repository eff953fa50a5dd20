"""`Condition`: which calls the `if` of a hook means, in the words of Claude Code's permissions.

    Bash(git *)               a command that runs git, alone or among others
    Edit(*.ts)                a file in any folder
    Edit(src/**)              one below the world's folder, like `./src/**` and `/src/**`
    WebFetch(domain:a.org)    a host, and those below it
    mcp__github               all tools of a server

A hook may be a guard: what cannot be told apart counts as meant.

Source: the permissions reference of Claude Code, as of 2.1.329.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from harken.world.permissions.pattern import compiled
from harken.world.permissions.subjects import CommandSubject, PathSubject

_RULE = re.compile(r"([A-Za-z][\w*-]*)(?:\((.*)\))?", re.DOTALL)
_PATHS = ("file_path", "notebook_path", "path")
_DOMAIN = "domain:"


@dataclass(frozen=True, slots=True)
class Condition:
    """A rule."""

    tool: str
    about: str
    """What a call has to be about; empty: anything."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a rule. Raises ValueError.

        >>> Condition.parse("Bash(git push *)")
        Condition(tool='Bash', about='git push *')
        """
        found = _RULE.fullmatch(text.strip())
        if found is None:
            raise ValueError(f"if: {text[:80]!r} is no rule such as `Bash(git *)`")
        about = (found[2] or "").strip()
        return cls(found[1], "" if about == "*" else about)

    def holds(self, names: Collection[str], said: Mapping[str, Any], folder: Path) -> bool:
        """Whether a call of a tool with these names, as Claude Code would say it, is meant.

        >>> git = Condition.parse("Bash(git *)")
        >>> git.holds(["Bash"], {"command": "cd a && git push"}, Path("/"))
        True
        >>> git.holds(["Bash"], {"command": "echo git"}, Path("/"))
        False
        """
        if not any(self._names(name) for name in names):
            return False
        if not self.about:
            return True
        if isinstance(said.get("command"), str):
            return _runs(said["command"], self.about, folder)
        if self.about.startswith(_DOMAIN):
            return _leads_to(str(said.get("url", "")), self.about.removeprefix(_DOMAIN))
        path = next((said[one] for one in _PATHS if isinstance(said.get(one), str)), None)
        if path is not None:
            return PathSubject(path, folder).is_held(_anchored(self.about)) != "no"
        texts = [one for one in said.values() if isinstance(one, str)]
        return not texts or any(compiled(self.about).matches(one) for one in texts)

    def _names(self, name: str) -> bool:
        """Whether it is about a tool; the name of an MCP server stands for all of its tools."""
        if self.tool.startswith("mcp__") and name.startswith(f"{self.tool}__"):
            return True
        return compiled(self.tool).matches(name)


def _runs(command: str, about: str, folder: Path) -> bool:
    """Whether a line may run what a rule means; `git:*` is an older way to write `git *`."""
    pattern = f"{about[:-2]} *" if about.endswith(":*") else about
    return CommandSubject(command, folder).is_held(pattern) != "no"


def _leads_to(url: str, domain: str) -> bool:
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return True
    host, domain = host.rstrip("."), domain.strip().casefold()
    return compiled(domain).matches(host) or host.endswith(f".{domain}")


def _anchored(about: str) -> str:
    """Return the pattern of paths that a rule means: in any folder, where it names none."""
    if about.startswith("//"):
        return about[1:]
    if about.startswith("~/"):
        return f"**/{about[2:]}"
    about = about.removeprefix("./")
    if about.startswith("/"):
        return about[1:]
    return about if "/" in about.rstrip("/") else f"**/{about}"
