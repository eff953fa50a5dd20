"""Rules: which calls are allowed, asked or denied, in texts that a person writes.

    bash(git status*)         a tool, and what its call is about
    edit(src/**)
    write                     a tool, whatever it is about
    reviewer:bash(pytest*)    for one agent only
    "an agent: odd":edit      a name that has a colon, a blank, a quote or parentheses: JSON

Source: docs/explanation/permissions.md.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Self

from harken.core.arguments import check_arguments
from harken.errors import ConfigError
from harken.world.permissions.pattern import compiled, escaped

_NAME = r'"(?:[^"\\]|\\.)*"|[^\s:()"]+'
_RULE = re.compile(rf"(?:(?P<agent>{_NAME}):)?(?P<tool>{_NAME})(?:\((?P<pattern>.+)\))?", re.DOTALL)
_BARE = re.compile(r'[^\s:()"*\\]+')


@dataclass(frozen=True, slots=True)
class PermissionRule:
    """One rule."""

    tool: str
    """A pattern of tools' names."""
    pattern: str | None = None
    """What a call must be about; None for all calls."""
    agent: str | None = None
    """A pattern of agents' names; None for all agents."""
    text: str = ""
    """As it was written."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a rule. Raises ConfigError.

        >>> rule = PermissionRule.parse("reviewer:bash(pytest *)")
        >>> rule.agent, rule.tool, rule.pattern
        ('reviewer', 'bash', 'pytest *')
        """
        found = _RULE.fullmatch(text.strip())
        if found is None:
            raise ConfigError(
                f"{text!r} is no rule: write TOOL, TOOL(PATTERN) or AGENT:TOOL(PATTERN), "
                f"names with blanks, colons or parentheses in double quotes"
            )
        agent = None if found["agent"] is None else _name(found["agent"])
        return cls(_name(found["tool"]), found["pattern"], agent, text.strip())

    @classmethod
    def of(cls, tool: str, pattern: str | None = None) -> Self:
        """Return the rule for exactly this tool."""
        about = "" if pattern is None else f"({pattern})"
        return cls.parse(f"{tool if _BARE.fullmatch(tool) else json.dumps(tool)}{about}")

    def concerns(self, tool: str, agents: Sequence[str]) -> bool:
        """Whether it is about this tool, called by one of these agents."""
        if not compiled(self.tool).matches(tool):
            return False
        return self.agent is None or any(map(compiled(self.agent).matches, agents))

    def __str__(self) -> str:
        return self.text


def _name(written: str) -> str:
    """Return the pattern of a name. In quotes, stars are stars. Raises ConfigError."""
    if not written.startswith('"'):
        return written
    try:
        return escaped(json.loads(written, strict=False))
    except ValueError as error:
        raise ConfigError(f"{written} is no text in JSON: {error}") from None


@check_arguments
@dataclass(slots=True)
class PermissionRules:
    """What a user has said for all calls to come: deny beats ask, and ask beats allow."""

    allow: list[PermissionRule] = field(default_factory=list)
    ask: list[PermissionRule] = field(default_factory=list)
    deny: list[PermissionRule] = field(default_factory=list)

    @classmethod
    def parse(
        cls, *, allow: Iterable[str] = (), ask: Iterable[str] = (), deny: Iterable[str] = ()
    ) -> Self:
        """Read lists of rules. Raises ConfigError."""
        return cls(
            *([PermissionRule.parse(text) for text in texts] for texts in (allow, ask, deny))
        )
