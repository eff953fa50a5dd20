"""`FileView`: the lines of a file that a result showed to an agent.

An agent that writes a complete file repeats the lines that were in it. What it read before tells
these from its own.
"""

from __future__ import annotations

import re

import msgspec

from harken.core import canonical
from harken.edits.file_edit import join_path, split_lines
from harken.edits.replacement_calls import PATH_MEMBERS, first_text

_NUMBER_PATTERN = re.compile(r"^ *\d+(?:\u2192|\t|\. ?|: ?|\| ?)")
_MIN_NUMBERED_SHARE = 0.8


class FileView(msgspec.Struct, frozen=True):
    """Lines of a file, in order; some may be missing."""

    path: str
    lines: tuple[str, ...]


def viewed_path(arguments: str) -> str:
    """Return the path in the arguments of a tool that shows files, or an empty string."""
    try:
        record = canonical.from_json(arguments.encode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError):
        return ""
    path = first_text(record, PATH_MEMBERS) if isinstance(record, dict) else None
    return join_path("", path) if path else ""


def parse_viewed_lines(result: str) -> tuple[str, ...]:
    r"""Return the lines of a file in a result, without the line numbers that tools add.

    >>> parse_viewed_lines("     1\u2192a\n     2\u2192  b\n")
    ('a', '  b')
    """
    lines = split_lines(result)
    matches = [_NUMBER_PATTERN.match(line) for line in lines]
    numbered = [line[match.end() :] for line, match in zip(lines, matches, strict=True) if match]
    if len(numbered) >= _MIN_NUMBERED_SHARE * len(lines):
        return tuple(numbered)
    return tuple(lines)
