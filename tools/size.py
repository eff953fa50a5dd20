"""The size budget: medians of src and tests, and what breaks a stop. Exit code 1 if something does.

Medians do not tell good code from bad; tails do. So a long function, a long file and a long list of
parameters stop the check, and in src so does a tail of functions that are merely too long.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

BODY_STOP = 60
BODY_LONG = 40
LONG_SHARE_STOP = 0.04
FILE_STOP = 500
PARAMETERS_STOP = 7


@dataclass(frozen=True, slots=True)
class Function:
    """One function or method: where it is, and how large."""

    place: str
    body_lines: int  # from the first statement after the docstring to the end, comments included
    parameters: int  # without self and cls


def measure(place: str, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Function:
    """Measure one function; a function inside it counts for both."""
    body = node.body[1:] if ast.get_docstring(node, clean=False) is not None else node.body
    decorators: list[ast.expr] = getattr(body[0], "decorator_list", []) if body else []
    start = min([body[0].lineno, *(d.lineno for d in decorators)]) if body else 0
    names = [a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
    return Function(
        place=f"{place}:{node.lineno} {node.name}",
        body_lines=(node.end_lineno or start) - start + 1 if body else 0,
        parameters=len(names) - (names[:1] in (["self"], ["cls"])),
    )


def functions(path: Path, text: str) -> Iterator[Function]:
    """Yield every function of one file, methods and inner functions included."""
    statements: list[ast.AST] = [ast.parse(text, str(path))]
    for node in statements:  # A function is a statement: the many expressions are not walked.
        for block in ("body", "orelse", "finalbody", "handlers", "cases"):
            statements += getattr(node, block, ())
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield measure(str(path), node)


def breaches(sizes: dict[str, int], found: list[Function], *, strict: bool) -> Iterator[str]:
    """Say what breaks a stop; `strict` looks at parameters and at the tail too."""
    yield from (f"{p}: {n} lines, stop {FILE_STOP}" for p, n in sizes.items() if n > FILE_STOP)
    for f in found:
        if f.body_lines > BODY_STOP:
            yield f"{f.place}: body of {f.body_lines} lines, stop {BODY_STOP}"
        if strict and f.parameters > PARAMETERS_STOP:
            yield f"{f.place}: {f.parameters} parameters, stop {PARAMETERS_STOP}"
    long = [f for f in found if f.body_lines > BODY_LONG]
    if strict and len(long) > LONG_SHARE_STOP * len(found):
        yield f"{len(long)} of {len(found)} bodies above {BODY_LONG} lines, stop 4 %:"
        yield from (f"  {f.place}: {f.body_lines} lines" for f in long)


def check(folder: str, *, strict: bool) -> list[str]:
    """Print the medians of one folder and return what breaks."""
    texts = {p: p.read_text(encoding="utf-8") for p in sorted(Path(folder).rglob("*.py"))}
    sizes = {str(p): len(text.splitlines()) for p, text in texts.items()}
    found = [f for p, text in texts.items() for f in functions(p, text)]
    long = sum(f.body_lines > BODY_LONG for f in found)
    print(
        f"{folder}: {len(sizes)} files, {sum(sizes.values())} lines,"
        f" median {median(sizes.values() or [0]):g} (aim 150);"
        f" {len(found)} functions, median body {median([f.body_lines for f in found] or [0]):g}"
        f" (aim 8), {long} above {BODY_LONG}"
    )
    return list(breaches(sizes, found, strict=strict))


def main() -> int:
    """Check src and tests below the current folder."""
    found = [*check("src", strict=True), *check("tests", strict=False)]
    print("\n".join(found) or "size: all within the budget")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
