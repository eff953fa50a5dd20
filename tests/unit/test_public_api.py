"""`import harken`: what is there, and that looking costs nothing."""

from __future__ import annotations

import ast
import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import harken
from tests.public_names import PACKAGES, PUBLIC_NAMES

SOURCE = Path(harken.__file__)

WATCHED = """
import os, sys
opened = []
def watch(event, arguments):
    if event in ("open", "os.listdir", "os.scandir", "os.mkdir", "socket.__new__", "subprocess.Popen"):
        opened.append(str(arguments[0]))
class Environment:
    def get(self, name, default=None):
        assert name == "PYTHON_ZSTANDARD_IMPORT_POLICY", name  # which of its builds zstandard uses
        return default
    def __getattr__(self, name):
        raise AssertionError("the environment was read")
os.environ = Environment()
sys.addaudithook(watch)
import harken
{use}
modules = (".py", ".pyc", ".so", ".dylib", "__pycache__")
for name in opened:
    if not name.endswith(modules) and not os.path.isdir(name):
        raise AssertionError(name)
"""


def child(use: str) -> subprocess.CompletedProcess[str]:
    code = WATCHED.replace("{use}", use)
    command = [sys.executable, "-B", "-c", code]  # Bytecode that Python writes is no file of ours.
    return subprocess.run(command, capture_output=True, text=True, check=False)


def declared() -> set[str]:
    """Return the names that type checkers see: those imported under TYPE_CHECKING."""
    tree = ast.parse(SOURCE.read_text())
    blocks = [node for node in tree.body if isinstance(node, ast.If)]
    imports = [node for block in blocks for node in block.body if isinstance(node, ast.ImportFrom)]
    return {alias.name for node in imports for alias in node.names}


def test_all_is_what_type_checkers_and_programs_see() -> None:
    assert sorted(harken.__all__) == list(harken.__all__)
    assert declared() == set(harken.__all__)
    assert set(harken._MODULES) == set(harken.__all__)
    assert set(harken.__all__) <= set(dir(harken))


@pytest.mark.parametrize(("package", "name"), PUBLIC_NAMES)
def test_a_public_name_is_importable_and_documented(package: str, name: str) -> None:
    value = getattr(importlib.import_module(package), name)
    if inspect.isclass(value) or inspect.isfunction(value):
        assert value.__doc__


@pytest.mark.parametrize("package", PACKAGES[1:])
def test_a_package_has_the_names_that_it_lists_and_no_others(package: str) -> None:
    module = importlib.import_module(package)
    assert len(set(module.__all__)) == len(module.__all__)
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'nothing'"):
        _ = module.nothing


def test_no_name_is_public_twice() -> None:
    names = [name for _, name in PUBLIC_NAMES]
    assert len(set(names)) == len(names)


def test_nothing_else_is_public() -> None:
    import_star: dict[str, object] = {}
    exec("from harken import *", import_star)
    assert import_star.keys() - {"__builtins__"} == set(harken.__all__)
    with pytest.raises(AttributeError, match="module 'harken' has no attribute 'Agents'"):
        _ = harken.Agents  # type: ignore[attr-defined]


def test_the_version_is_that_of_the_package() -> None:
    from importlib.metadata import version

    assert version("harken") == harken.__version__


def test_importing_harken_opens_no_file_reads_no_environment_and_prints_nothing() -> None:
    ran = child("")
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


def test_nor_does_importing_every_public_name() -> None:
    ran = child("from harken import *")
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


@pytest.mark.parametrize("deed", ["open(os.devnull)", "os.environ['HOME']", "os.getenv('X')"])
def test_these_two_tests_would_notice(deed: str) -> None:
    assert child(deed).returncode != 0


def test_the_package_says_that_it_is_typed() -> None:
    assert SOURCE.with_name("py.typed").exists()
