"""Faults to plant into the source: small changes that a test should notice.

Each operator looks at the syntax tree of a module and yields faults: text that is replaced by other
text. Places where a change alters no behavior that a test could see are left out: annotations,
texts of errors, progress reports, branches for other platforms, and constants of modules, many
of which only tune the speed.
"""

from __future__ import annotations

import ast
import hashlib
import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

PACKAGES = ("session", "store", "context", "recording", "capture", "formats")
_IGNORED_CALLS = re.compile(r"progress|sleep|warn|tell\(|\.debug|check_arguments|__all__")
_OTHER_PLATFORM = re.compile(r"sys\.platform|TYPE_CHECKING|hasattr\(os")
_SYNC_CALL = re.compile(r"(?:^|[._])(?:f?sync|fdatasync|sync_folder|sync_name|move_durably)\(")
_SWAPPED_COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.In: "not in",
    ast.NotIn: "in",
}


@dataclass(frozen=True, slots=True)
class Fault:
    """A change of one place in one file."""

    path: str
    """Relative to the root of the repository."""
    function: str
    """The qualified name of the enclosing function."""
    first_line: int
    line: int
    operator: str
    start: int
    """The byte range that is replaced."""
    end: int
    old: str
    new: str
    occurrence: int = 0
    """The number of equal faults before this one in the same function."""

    @property
    def id(self) -> str:
        """A name that stays the same when other parts of the file change."""
        parts = (self.path, self.function, self.operator, self.old, str(self.occurrence))
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]

    @property
    def package(self) -> str:
        """The package of the module below `harken`."""
        return self.path.split("/")[2]

    def apply(self, source: bytes) -> bytes:
        """Return the source with the fault."""
        return source[: self.start] + self.new.encode() + source[self.end :]


Change = tuple[str, ast.AST, ast.AST, str]
"""The operator, the first and the last node that are replaced, and the new text."""


class _Module:
    """A parsed module, with the text of its nodes."""

    def __init__(self, path: str, source: bytes) -> None:
        self.path, self.source = path, source
        self.tree = ast.parse(source)
        lengths = [len(line) for line in source.splitlines(keepends=True)]
        self._starts = [sum(lengths[:number]) for number in range(len(lengths) + 1)]

    def offset(self, line: int, column: int) -> int:
        return self._starts[line - 1] + column

    def span(self, first: ast.AST, last: ast.AST) -> tuple[int, int]:
        """Return the byte range of nodes."""
        start = self.offset(first.lineno, first.col_offset)  # type: ignore[attr-defined]
        end = self.offset(last.end_lineno, last.end_col_offset)  # type: ignore[attr-defined]
        return start, end

    def text(self, node: ast.AST) -> str:
        start, end = self.span(node, node)
        return self.source[start:end].decode()


def read_faults(root: Path, path: str) -> Iterator[Fault]:
    """Yield the faults of a module."""
    module = _Module(path, (root / path).read_bytes())
    counts: dict[tuple[str, str, str], int] = defaultdict(int)
    for function, body in _iter_functions(module.tree.body, ""):
        for operator, first, last, new in _iter_changes(module, body):
            start, end = module.span(first, last)
            old = module.source[start:end].decode()
            key = (function, operator, old)
            line = first.lineno  # type: ignore[attr-defined]
            yield Fault(
                path, function, body[0].lineno, line, operator, start, end, old, new, counts[key]
            )
            counts[key] += 1


def _iter_functions(body: list[ast.stmt], prefix: str) -> Iterator[tuple[str, list[ast.stmt]]]:
    """Yield the qualified names and the bodies of functions and methods."""
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from _iter_functions(node.body, f"{prefix}{node.name}.")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if _is_stub(node):
                continue
            has_docstring = ast.get_docstring(node, clean=False) is not None
            yield f"{prefix}{node.name}", node.body[1:] if has_docstring else node.body


def _is_stub(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a function only declares: its body is a docstring, `...` or `pass`."""
    return all(
        isinstance(statement, ast.Pass)
        or (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant))
        for statement in node.body
    )


def _iter_changes(module: _Module, body: list[ast.stmt]) -> Iterator[Change]:
    for statement in body:
        if isinstance(statement, ast.Assert | ast.Import | ast.ImportFrom):
            continue
        if isinstance(statement, ast.If) and _OTHER_PLATFORM.search(module.text(statement.test)):
            continue
        yield from _iter_statement_changes(module, statement)
        for _, child in ast.iter_fields(statement):
            for node in child if isinstance(child, list) else [child]:
                if isinstance(node, ast.expr) and not isinstance(statement, ast.Raise):
                    is_annotation = node is getattr(statement, "annotation", None)
                    yield from () if is_annotation else _iter_expression_changes(module, node)
                elif isinstance(node, ast.ExceptHandler | ast.match_case):
                    yield from _iter_changes(module, node.body)
                elif isinstance(node, ast.withitem):
                    yield from _iter_expression_changes(module, node.context_expr)
        for name in ("body", "orelse", "finalbody"):
            block = getattr(statement, name, [])
            yield from _iter_changes(module, block)
    yield from _iter_order_changes(module, body)


def _iter_statement_changes(module: _Module, statement: ast.stmt) -> Iterator[Change]:
    text = module.text(statement)
    if _IGNORED_CALLS.search(text):
        return
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call | ast.Await):
        operator = "drop sync" if _SYNC_CALL.search(text) else "drop statement"
        yield operator, statement, statement, "pass"
    elif isinstance(statement, ast.AugAssign | ast.Delete | ast.Raise | ast.Continue | ast.Break):
        yield "drop statement", statement, statement, "pass"
    elif isinstance(statement, ast.Assign):
        if not isinstance(statement.targets[0], ast.Name | ast.Tuple):
            yield "drop statement", statement, statement, "pass"
    elif isinstance(statement, ast.If | ast.While) and not _is_constant(statement.test):
        yield "negate condition", statement.test, statement.test, _negate(module, statement.test)


def _iter_order_changes(module: _Module, body: list[ast.stmt]) -> Iterator[Change]:
    """Yield swaps of adjacent calls."""
    for first, second in pairwise(body):
        if all(isinstance(s, ast.Expr) and isinstance(s.value, ast.Call) for s in (first, second)):
            texts = module.text(first), module.text(second)
            if not any(map(_IGNORED_CALLS.search, texts)) and texts[0] != texts[1]:
                indent = " " * first.col_offset
                yield "swap statements", first, second, f"{texts[1]}\n{indent}{texts[0]}"


def _iter_expression_changes(module: _Module, root: ast.expr) -> Iterator[Change]:
    for node in ast.walk(root):
        if not isinstance(node, ast.expr) or _IGNORED_CALLS.search(module.text(node)):
            continue
        for operator in _EXPRESSION_OPERATORS:
            for name, new in operator(module, node):
                yield name, node, node, new
        for generator in getattr(node, "generators", []):
            for test in generator.ifs:
                yield "negate condition", test, test, _negate(module, test)


def _change_number(module: _Module, node: ast.expr) -> Iterator[tuple[str, str]]:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        yield "off by one", str(node.value + 1)
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield "negate constant", str(not node.value)


def _change_comparison(module: _Module, node: ast.expr) -> Iterator[tuple[str, str]]:
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        new = _SWAPPED_COMPARISONS.get(type(node.ops[0]))
        if new is not None:
            left, right = module.text(node.left), module.text(node.comparators[0])
            yield "change comparison", f"({left} {new} {right})"


def _change_condition(module: _Module, node: ast.expr) -> Iterator[tuple[str, str]]:
    if isinstance(node, ast.BoolOp):
        word = " and " if isinstance(node.op, ast.Or) else " or "
        texts = [f"({module.text(value)})" for value in node.values]
        yield "swap and/or", f"({word.join(texts)})"
        joined = (" or " if isinstance(node.op, ast.Or) else " and ").join(texts[:-1])
        yield "drop operand", f"({joined})"
    elif isinstance(node, ast.IfExp):
        body, test, orelse = map(module.text, (node.body, node.test, node.orelse))
        yield "negate condition", f"(({body}) if not ({test}) else ({orelse}))"
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield "drop not", f"bool({module.text(node.operand)})"


def _change_call(module: _Module, node: ast.expr) -> Iterator[tuple[str, str]]:
    if not isinstance(node, ast.Call):
        return
    function = module.text(node.func)
    if function in ("sorted", "reversed"):
        yield "drop order", f"list({module.text(node.args[0])})"
    arguments = node.args[:2]
    is_swappable = len(arguments) == 2 and not any(
        isinstance(argument, ast.Starred | ast.Constant | ast.GeneratorExp | ast.JoinedStr)
        for argument in arguments
    )
    ignored = ("isinstance", "getattr", "hasattr", "zip", "cast", "msgspec.convert", "map", "max")
    if is_swappable and function not in ignored:
        texts = [*map(module.text, node.args), *(module.text(k) for k in node.keywords)]
        texts[:2] = texts[1::-1]
        yield "swap arguments", f"{function}({', '.join(texts)})"


_Operator = Callable[[_Module, ast.expr], Iterator[tuple[str, str]]]
_EXPRESSION_OPERATORS: tuple[_Operator, ...] = (
    _change_number,
    _change_comparison,
    _change_condition,
    _change_call,
)


def _negate(module: _Module, test: ast.expr) -> str:
    return f"not ({module.text(test)})"


def _is_constant(test: ast.expr) -> bool:
    return isinstance(test, ast.Constant)


def select_faults(root: Path, seed: int, count: int) -> list[Fault]:
    """Return every dropped sync, and other faults: as many of each package, at most `count`.

    A larger count with the same seed returns the same faults and more.
    """
    by_package: dict[str, list[Fault]] = {}
    syncs: list[Fault] = []
    for package in PACKAGES:
        by_package[package] = []
        for file in sorted((root / "src" / "harken" / package).rglob("*.py")):
            for fault in read_faults(root, file.relative_to(root).as_posix()):
                chosen = syncs if fault.operator == "drop sync" else by_package[package]
                chosen.append(fault)
        random.Random(seed).shuffle(by_package[package])
    longest = max(map(len, by_package.values()))
    mixed = [
        faults[number]
        for number in range(longest)
        for faults in by_package.values()
        if number < len(faults)
    ]
    return (syncs + mixed)[:count]
