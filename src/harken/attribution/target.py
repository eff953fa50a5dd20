"""Parse the target of `harken why`: `FILE:LINE`, `FILE:FROM-TO`, `FILE:NAME`, a commit, or `-`.

The column in `FILE:LINE:COLUMN` is not used.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator

import msgspec

from harken.errors import ConfigError

_LINES_PATTERN = re.compile(r"(.+?):(\d+)(?:[-,](\d+)|:\d+)?", re.DOTALL)
"""A path, a line, and the last line or a column, which tools print after a line."""
_MAX_DIGITS = 9
STDIN = "-"


class LineTarget(msgspec.Struct, frozen=True):
    """Lines of a file, from 1."""

    path: str
    first: int
    last: int


class FunctionTarget(msgspec.Struct, frozen=True):
    """A function or class of a file."""

    path: str
    name: str


class RevisionTarget(msgspec.Struct, frozen=True):
    """A git commit."""

    revision: str


Target = LineTarget | FunctionTarget | RevisionTarget


def parse_target(text: str, *, is_file: bool) -> Target:
    """Parse a target. `is_file`: whether the text before the first colon is a file.

    Raises ConfigError.

    >>> parse_target("a.py:3-5", is_file=True)
    LineTarget(path='a.py', first=3, last=5)
    >>> parse_target("a.py:3:14", is_file=True)
    LineTarget(path='a.py', first=3, last=3)
    """
    match = _LINES_PATTERN.fullmatch(text)
    if match is not None and max(len(match[2]), len(match[3] or "")) <= _MAX_DIGITS:
        first, last = int(match[2]), int(match[3] or match[2])
        if not 1 <= first <= last:
            raise ConfigError(f"{text}: lines are numbered from 1, and the last follows the first")
        return LineTarget(match[1], first, last)
    path, colon, name = text.rpartition(":")
    if colon and path and name and is_file:
        return FunctionTarget(path, name)
    if is_file:
        raise ConfigError(f"{text}: name a line, lines or a function: {text}:12, {text}:12-20")
    return RevisionTarget(text)


def find_python_function(source: str, name: str) -> tuple[int, int] | None:
    """Return the lines of a function, method or class of Python code, or None.

    `name` may be qualified: `Order.total`. Decorators belong to the function. If several have the
    name, it is the first. Raises ConfigError for invalid code.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ConfigError(f"the file is not valid Python ({error}); name lines instead") from None
    for qualified, node in _iter_definitions(tree):
        if qualified == name or qualified.endswith(f".{name}"):
            start = min([node.lineno, *(item.lineno for item in node.decorator_list)])
            return start, node.end_lineno or node.lineno
    return None


_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def _iter_definitions(tree: ast.AST) -> Iterator[tuple[str, _Definition]]:
    """Yield definitions with their qualified names, outer ones first."""
    pending: list[tuple[str, ast.AST]] = [("", tree)]
    for prefix, node in pending:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, _Definition):
                name = f"{prefix}{child.name}"
                yield name, child
                pending.append((f"{name}.", child))
            else:
                pending.append((prefix, child))
