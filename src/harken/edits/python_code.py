"""Edits by Python code that a command runs: `python - <<EOF`, `python -c`.

Only texts that stand in the code as literals are found: `Path("a.py").write_text("...")`,
`open("a.py", "w").write("...")`, and `text.replace("old", "new")` of a file that the code reads and
writes. Nothing is executed.
"""

from __future__ import annotations

import ast
import warnings
from textwrap import dedent

from harken.edits.file_edit import (
    Addition,
    Change,
    Content,
    FileEdit,
    Replacement,
    join_path,
)

_MAX_CODE_CHARS = 200_000
_MAX_DEPTH = 50
_TEXT_METHODS = {"strip": str.strip, "lstrip": str.lstrip, "rstrip": str.rstrip}


def find_code_edits(code: str, folder: str) -> list[FileEdit]:
    """Return the edits of Python code. Paths are relative to `folder`."""
    if len(code) > _MAX_CODE_CHARS or not ("write" in code and ("open" in code or "Path" in code)):
        return []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    reader = _CodeReader()
    try:
        reader.visit(tree)
    except RecursionError:
        return []
    return [
        FileEdit(join_path(folder, path), tuple(changes))
        for path, changes in reader.changes.items()
        if path and changes
    ]


class _CodeReader(ast.NodeVisitor):
    """Collect the literal changes of files, statement by statement."""

    def __init__(self) -> None:
        self.changes: dict[str, list[Change]] = {}
        self._texts: dict[str, str] = {}
        """Variables with a literal text, also as a path."""
        self._files: dict[str, tuple[str, str]] = {}
        """Variables with an open file: its path and mode."""
        self._last_path = ""
        """The file that was read last, which later replacements change."""

    def visit_Assign(self, node: ast.Assign) -> None:
        """Note the literal text, path or file that a variable gets."""
        self.generic_visit(node)
        for target in node.targets:
            if isinstance(target, ast.Name):
                self._bind(target.id, node.value)

    def visit_With(self, node: ast.With) -> None:
        """Note the files that a `with` statement opens."""
        for item in node.items:
            if isinstance(item.optional_vars, ast.Name):
                self._bind(item.optional_vars.id, item.context_expr)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        """Note the change that a call makes."""
        self.generic_visit(node)
        if not isinstance(node.func, ast.Attribute):
            return
        owner, arguments = node.func.value, node.args
        match node.func.attr:
            case "write_text" if arguments:
                self._write(self._text(owner), "w", self._text(arguments[0]))
            case "write" if arguments:
                path, mode = self._file(owner)
                self._write(path, mode, self._text(arguments[0]))
            case "read_text":
                self._last_path = self._text(owner) or ""
            case "read" | "readlines":
                self._last_path = self._file(owner)[0] or ""
            case "replace" if len(arguments) >= 2:
                old, new = self._text(arguments[0]), self._text(arguments[1])
                if old and new is not None and self._last_path:
                    change = Replacement(old, new, replaces_all=True)
                    self.changes.setdefault(self._last_path, []).append(change)

    def _write(self, path: str | None, mode: str, text: str | None) -> None:
        if not path or text is None or mode[:1] not in ("w", "a", "x"):
            return
        changes = self.changes.setdefault(path, [])
        if mode.startswith("a") or any(isinstance(change, Content) for change in changes):
            changes.append(Addition(text))
        else:
            changes.append(Content(text))

    def _bind(self, name: str, value: ast.expr) -> None:
        path, mode = self._file(value)
        text = self._text(value)
        self._texts.pop(name, None)
        self._files.pop(name, None)
        if path:
            self._files[name] = path, mode
        elif text is not None:
            self._texts[name] = text

    def _file(self, node: ast.expr) -> tuple[str, str]:
        """Return the path and the mode of an expression that is an open file, or empty texts."""
        if isinstance(node, ast.Name):
            return self._files.get(node.id, ("", ""))
        if not isinstance(node, ast.Call):
            return "", ""
        if isinstance(node.func, ast.Name) and node.func.id == "open" and node.args:
            path, arguments = self._text(node.args[0]), node.args[1:]
        elif isinstance(node.func, ast.Attribute) and node.func.attr == "open":
            path, arguments = self._text(node.func.value), node.args
        else:
            return "", ""
        modes = [*arguments[:1], *(word.value for word in node.keywords if word.arg == "mode")]
        mode = self._text(modes[0]) if modes else "r"
        return path or "", mode or "r"

    def _text(self, node: ast.expr, depth: int = 0) -> str | None:
        """Return the literal text of an expression, or None."""
        if depth > _MAX_DEPTH:
            return None
        match node:
            case ast.Constant(value=str(text)):
                return text
            case ast.Name(id=name):
                return self._texts.get(name)
            case ast.BinOp(op=ast.Add(), left=first, right=second):
                return _join("", self._text(first, depth + 1), self._text(second, depth + 1))
            case ast.BinOp(op=ast.Div(), left=first, right=second):
                return _join("/", self._text(first, depth + 1), self._text(second, depth + 1))
            case ast.Call(func=func, args=args):
                return self._called_text(func, args, depth + 1)
        return None

    def _called_text(self, func: ast.expr, args: list[ast.expr], depth: int) -> str | None:
        """Return the text of `Path(text)`, `dedent(text)` or `text.strip()`, or None."""
        name = func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")
        if name in ("Path", "PurePath", "dedent") and len(args) == 1:
            text = self._text(args[0], depth)
            return dedent(text) if name == "dedent" and text is not None else text
        if isinstance(func, ast.Attribute) and name in _TEXT_METHODS and len(args) <= 1:
            text = self._text(func.value, depth)
            letters = self._text(args[0], depth) if args else None
            return None if text is None else _TEXT_METHODS[name](text, letters)
        return None


def _join(separator: str, first: str | None, second: str | None) -> str | None:
    return None if first is None or second is None else f"{first}{separator}{second}"
