"""Rules: the text syntax of allow, ask and deny rules.

    bash(git status*)         a tool, and a pattern for the subject
    edit(src/**)
    write                     a tool, with any subject
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

import msgspec

from harken.core.arguments import check_arguments
from harken.errors import ConfigError
from harken.world.permissions.pattern import compile_pattern, escape_pattern

_NAME_REGEX = r'"(?:[^"\\]|\\.)*"|[^\s:()"]+'
_RULE_PATTERN = re.compile(
    rf"(?:(?P<agent>{_NAME_REGEX}):)?(?P<tool>{_NAME_REGEX})(?:\((?P<pattern>.+)\))?", re.DOTALL
)
_UNQUOTED_NAME_PATTERN = re.compile(r'[^\s:()"*\\]+')


class PermissionRule(msgspec.Struct, frozen=True):
    """A permission rule."""

    tool: str
    """A pattern for tool names."""
    pattern: str | None = None
    """A pattern for the subject of a call; None for all calls."""
    agent: str | None = None
    """A pattern for agent names; None for all agents."""
    text: str = ""
    """The original text."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a rule. Raises ConfigError.

        >>> rule = PermissionRule.parse("reviewer:bash(pytest *)")
        >>> rule.agent, rule.tool, rule.pattern
        ('reviewer', 'bash', 'pytest *')
        """
        match = _RULE_PATTERN.fullmatch(text.strip())
        if match is None:
            raise ConfigError(
                f"{text!r} is not a rule: write TOOL, TOOL(PATTERN) or "
                "AGENT:TOOL(PATTERN); quote names with blanks, colons or parentheses in "
                "double quotes"
            )
        agent = None if match["agent"] is None else _parse_name(match["agent"])
        return cls(_parse_name(match["tool"]), match["pattern"], agent, text.strip())

    @classmethod
    def of(cls, tool: str, pattern: str | None = None) -> Self:
        """Return the rule for exactly this tool."""
        subject = "" if pattern is None else f"({pattern})"
        return cls.parse(
            f"{tool if _UNQUOTED_NAME_PATTERN.fullmatch(tool) else json.dumps(tool)}{subject}"
        )

    def concerns(self, tool: str, agents: Sequence[str]) -> bool:
        """Whether it applies to this tool, called by one of these agents."""
        if not compile_pattern(self.tool).matches(tool):
            return False
        return self.agent is None or any(map(compile_pattern(self.agent).matches, agents))

    def __str__(self) -> str:
        return self.text


def _parse_name(text: str) -> str:
    """Return the pattern of a name. A star in a quoted name is literal. Raises ConfigError."""
    if not text.startswith('"'):
        return text
    try:
        return escape_pattern(json.loads(text, strict=False))
    except ValueError as error:
        raise ConfigError(f"{text} is not a JSON string: {error}") from None


@check_arguments
@dataclass(slots=True)
class PermissionRules:
    """The rules of a user for later calls: deny beats ask, and ask beats allow."""

    allow: list[PermissionRule] = field(default_factory=list)
    ask: list[PermissionRule] = field(default_factory=list)
    deny: list[PermissionRule] = field(default_factory=list)

    @classmethod
    def parse(
        cls, *, allow: Iterable[str] = (), ask: Iterable[str] = (), deny: Iterable[str] = ()
    ) -> Self:
        """Parse lists of rules. Raises ConfigError."""
        return cls(
            *([PermissionRule.parse(text) for text in texts] for texts in (allow, ask, deny))
        )
