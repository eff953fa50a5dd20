"""The examples in docstrings work."""

from __future__ import annotations

import doctest
import importlib
import re
from pathlib import Path

import pytest

from tests.docs.examples import ROOT

_EXAMPLE = re.compile(r"^ *>>> ", re.MULTILINE)


def modules_with_examples() -> list[str]:
    """Return the names of the modules whose docstrings contain examples."""
    files = [(root, file) for root in (ROOT / "src", ROOT) for file in source_files(root)]
    return [
        module_name(root, file) for root, file in files if _EXAMPLE.search(file.read_text("utf-8"))
    ]


def source_files(root: Path) -> list[Path]:
    folder = root / ("harken" if root.name == "src" else "tests")
    return sorted(folder.rglob("*.py"))


def module_name(root: Path, file: Path) -> str:
    parts = file.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@pytest.mark.parametrize("name", modules_with_examples())
def test_docstring_examples_pass(name: str) -> None:
    failed, attempted = doctest.testmod(importlib.import_module(name))
    assert attempted
    assert failed == 0
