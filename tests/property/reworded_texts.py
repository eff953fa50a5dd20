"""Reword all sentences of `harken.agents.texts`, in a process that has not imported it yet.

The module is compiled from a syntax tree with other texts, so everything that derives from a
sentence (a prefix, a pattern) is reworded with it, as it would be by a change of the source.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from string import Formatter
from types import CodeType, ModuleType

MODULE = "harken.agents.texts"


def reword(template: str) -> str:
    """Return a template with the same fields and other words.

    >>> reword("[hook {}]: {}"), reword("Error: {name!r}")
    ('X [HOOK {}]: {}', 'X eRROR: {name!r}')
    """
    parts = []
    for text, name, spec, conversion in Formatter().parse(template):
        parts.append(text.swapcase())
        if name is not None:
            suffix = (f"!{conversion}" if conversion else "") + (f":{spec}" if spec else "")
            parts.append(f"{{{name}{suffix}}}")
    return "X " + "".join(parts)


def reword_constants(source: str) -> tuple[ast.Module, dict[str, str]]:
    """Return the syntax tree with reworded constants, and the original texts by name."""
    tree = ast.parse(source)
    originals = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            name, text = node.targets[0], node.value.value
            assert isinstance(name, ast.Name)
            assert isinstance(text, str)
            originals[name.id] = text
            node.value.value = reword(text)
    return tree, originals


class _RewordingLoader(SourceFileLoader):
    def get_code(self, fullname: str) -> CodeType:
        source = self.get_source(fullname)
        assert source is not None
        return compile(reword_constants(source)[0], self.path, "exec")


class _RewordingFinder(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != MODULE:
            return None
        spec = PathFinder.find_spec(fullname, path)
        assert spec is not None
        assert spec.origin is not None
        spec.loader = _RewordingLoader(fullname, spec.origin)
        return spec


def install() -> None:
    """Reword the sentences for all later imports of this process."""
    assert MODULE not in sys.modules
    sys.meta_path.insert(0, _RewordingFinder())
