"""Diffs: lines of a unified diff in their colours."""

from __future__ import annotations

import re
from collections.abc import Iterable

from harken.cli.screen.styled import Line, clean

_HUNK = re.compile(r"@@ -\d+(?:,\d+)? \+\d+(?:,\d+)? @@")


def is_diff(text: str) -> bool:
    """Whether a text has a unified diff in it."""
    return _HUNK.search(text) is not None


def diff_lines(lines: Iterable[str], plain: str = "") -> list[Line]:
    """Return the lines of a diff in colour, others in the style `plain`.

    >>> diff_lines(["-a", "+b", " c"], "dim")
    [[('red', '-a')], [('green', '+b')], [('dim', ' c')]]
    """
    return [[(_style(line) or plain, clean(line))] for line in lines]


def _style(line: str) -> str:
    if line.startswith(("--- ", "+++ ")):
        return "dim"
    if _HUNK.match(line):
        return "cyan"
    return {"+": "green", "-": "red"}.get(line[:1], "")
