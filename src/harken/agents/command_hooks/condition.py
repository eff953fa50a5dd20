"""`Condition`: the `if` rule of a hook, in the syntax of Claude Code's permissions.

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
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import msgspec

from harken.world.permissions.pattern import compile_pattern
from harken.world.permissions.subjects import CommandSubject, PathSubject

_RULE_PATTERN = re.compile(r"([A-Za-z][\w*-]*)(?:\((.*)\))?", re.DOTALL)
_PATH_ARGUMENTS = ("file_path", "notebook_path", "path")
_DOMAIN = "domain:"


class Condition(msgspec.Struct, frozen=True):
    """A rule that selects tool calls."""

    tool: str
    subject_pattern: str
    """The pattern for the subject of a call; empty: any subject."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a rule. Raises ValueError.

        >>> Condition.parse("Bash(git push *)")
        Condition(tool='Bash', subject_pattern='git push *')
        """
        match = _RULE_PATTERN.fullmatch(text.strip())
        if match is None:
            raise ValueError(f"if: {text[:80]!r} is not a rule such as `Bash(git *)`")
        about = (match[2] or "").strip()
        return cls(match[1], "" if about == "*" else about)

    def matches(self, names: Collection[str], arguments: Mapping[str, Any], folder: Path) -> bool:
        """Whether a call, in Claude Code's terms, of a tool with these names matches the rule.

        >>> git = Condition.parse("Bash(git *)")
        >>> git.matches(["Bash"], {"command": "cd a && git push"}, Path("/"))
        True
        >>> git.matches(["Bash"], {"command": "echo git"}, Path("/"))
        False
        """
        if not any(self._matches_tool(name) for name in names):
            return False
        if not self.subject_pattern:
            return True
        if isinstance(arguments.get("command"), str):
            return _may_run(arguments["command"], self.subject_pattern, folder)
        if self.subject_pattern.startswith(_DOMAIN):
            return _may_reach(
                str(arguments.get("url", "")), self.subject_pattern.removeprefix(_DOMAIN)
            )
        path = next(
            (
                arguments[argument]
                for argument in _PATH_ARGUMENTS
                if isinstance(arguments.get(argument), str)
            ),
            None,
        )
        if path is not None:
            return (
                PathSubject(path, folder).match_pattern(_path_pattern(self.subject_pattern)) != "no"
            )
        texts = [argument for argument in arguments.values() if isinstance(argument, str)]
        return not texts or any(
            compile_pattern(self.subject_pattern).matches(argument) for argument in texts
        )

    def _matches_tool(self, name: str) -> bool:
        """Whether the rule is about a tool; an MCP server's name stands for all of its tools."""
        if self.tool.startswith("mcp__") and name.startswith(f"{self.tool}__"):
            return True
        return compile_pattern(self.tool).matches(name)


def _may_run(command: str, about: str, folder: Path) -> bool:
    """Whether a command line may run a matching command; `git:*` is an older `git *`."""
    pattern = f"{about[:-2]} *" if about.endswith(":*") else about
    return CommandSubject(command, folder).match_pattern(pattern) != "no"


def _may_reach(url: str, domain: str) -> bool:
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return True
    host, domain = host.rstrip("."), domain.strip().casefold()
    return compile_pattern(domain).matches(host) or host.endswith(f".{domain}")


def _path_pattern(about: str) -> str:
    """Return the path pattern of a rule: in any folder if it names none."""
    if about.startswith("//"):
        return about[1:]
    if about.startswith("~/"):
        return f"**/{about[2:]}"
    about = about.removeprefix("./")
    if about.startswith("/"):
        return about[1:]
    return about if "/" in about.rstrip("/") else f"**/{about}"
