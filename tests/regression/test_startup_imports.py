"""A command imports only what it needs, also with a home that has content and a configuration."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.cli.kit import Cli

PROGRAM = """
import sys
from harken.cli.main import run_cli
assert run_cli(sys.argv[1:]) == 0
print(*sys.modules, sep="\\n", file=sys.stderr)
"""
UNUSED = (
    *("asyncio", "httpx", "prompt_toolkit", "yaml", "tree_sitter", "duckdb", "pydantic"),
    *("harken.agents", "harken.capture", "harken.world.permissions", "harken.views.viewer"),
    *("harken.chat.open", "harken.config.settings", "harken.formats.wire", "harken.recording"),
    *("harken.adapters", "harken.index.ingest.commits", "harken.index.ingest.logs"),
)
"""Packages and modules that a search of an index without new content does not need."""


def list_imported(cli: Cli, *arguments: str) -> set[str]:
    """Return the modules that a command imports in a process of its own."""
    command = [sys.executable, "-c", PROGRAM, *arguments, "--home", str(cli.home)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return set(result.stderr.split())


def is_in(module: str, packages: tuple[str, ...]) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)


@pytest.mark.parametrize("word", ["coffee", "no-such-word"])
def test_search_imports_no_agent_and_no_codec(demo: Cli, word: str) -> None:
    demo.ok("search", "coffee")  # It indexes what is new.
    modules = list_imported(demo, "search", word)
    assert [name for name in sorted(modules) if is_in(name, UNUSED)] == []


def test_a_list_of_sessions_imports_no_index(demo: Cli) -> None:
    demo.ok("sessions")
    modules = list_imported(demo, "sessions")
    assert [name for name in sorted(modules) if is_in(name, UNUSED)] == []


def test_help_imports_neither_stores_nor_values(demo: Cli) -> None:
    result = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "harken", "--help"],
        capture_output=True,
        text=True,
        check=True,
    )
    modules = {line.rpartition("|")[2].strip() for line in result.stderr.splitlines()}
    assert "harken.cli.command_tree" in modules
    others = ("harken.store", "harken.views", "harken.index", "msgspec")
    assert [name for name in sorted(modules) if is_in(name, (*UNUSED, *others))] == []
