"""Built-in formats and formats of other packages."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harken.errors import AmbiguousName, ConfigError, NameNotFound
from harken.formats.base import Format
from harken.formats.registry import FORMATS, FormatRegistry

TOY = Format(name="toy-v1", joins=b"".join)
PACKAGE = """
from harken.formats.base import Format

FORMAT = Format(name="toy-v1", joins=b"".join)
"""
ENTRIES = """\
[harken.formats]
toy-v1 = toy:FORMAT
other-v1 = toy:FORMAT
wrong-v1 = toy:PACKAGE
gone-v1 = nowhere:FORMAT
odd-v1 = toy:__name__
"""


def test_registry_has_the_built_in_formats() -> None:
    assert set(FORMATS.list_names()) >= {"events-v1", "messages-v1", "narrative-v1"}
    for name in FORMATS.list_names():
        result = FORMATS.get(name)
        assert result is not None
        assert result.name == name


def test_program_registers_its_own_format() -> None:
    formats = FormatRegistry(installed=list)
    assert formats.get("toy-v1") is None
    assert formats.register(TOY) is formats.get("toy-v1") is formats.register(TOY)
    assert "toy-v1" in formats.list_names()
    assert FORMATS.get("toy-v1") is None


@pytest.mark.parametrize("name", ["toy-v1", "events-v1"])
def test_duplicate_name_is_rejected(name: str) -> None:
    with pytest.raises(ValueError, match="exists; choose another name"):
        FormatRegistry(TOY, installed=list).register(Format(name=name))


def test_unique_prefix_of_a_name_is_sufficient() -> None:
    formats = FormatRegistry(TOY, Format(name="toy-v10"), installed=list)
    assert formats.find("toy-v1") is TOY
    assert formats.find("narr").name == "narrative-v1"
    with pytest.raises(AmbiguousName, match="toy-v1, toy-v10"):
        formats.find("toy")
    for unknown in ("cobol-v1", ""):
        with pytest.raises(NameNotFound, match="messages-v1, narrative-v1, "):
            formats.find(unknown)


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """Return a folder with an installed package that has valid and invalid formats."""
    (tmp_path / "toy.py").write_text(PACKAGE)
    info = tmp_path / "toy-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toy\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRIES)
    return tmp_path


@pytest.mark.req("S2-56")
def test_installed_package_registers_formats(package: Path) -> None:
    script = """
import sys
from harken.errors import ConfigError
from harken.formats.registry import FORMATS
assert "toy-v1" in FORMATS.list_names() and "toy" not in sys.modules
assert FORMATS.find("toy").joins([b"a", b"b"]) == b"ab"
for name in ("other-v1", "wrong-v1", "gone-v1", "odd-v1"):
    try:
        FORMATS.get(name)
    except ConfigError as error:
        print(error)
"""
    path = os.pathsep.join([str(package), *filter(None, sys.path)])
    ran = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.stderr == ""
    assert [line.rpartition(": ")[2] for line in ran.stdout.splitlines()] == [
        "its name is toy-v1",
        "module 'toy' has no attribute 'PACKAGE'",
        "No module named 'nowhere'",
        "it is str, not a Format",
    ]


def test_broken_package_fails_only_when_its_format_is_used() -> None:
    def broken() -> list[object]:
        raise ConfigError("never asked")

    formats = FormatRegistry(installed=broken)  # type: ignore[arg-type]
    assert formats.get("events-v1") is not None


def test_registry_returns_the_revision_of_each_format_without_an_import() -> None:
    for name in FORMATS.list_names():
        result = FORMATS.get(name)
        assert result is not None
        assert FORMATS.get_revision(name) == result.revision
    assert FormatRegistry(Format(name="toy-v9", revision=3)).get_revision("toy-v9") == 3
    assert FORMATS.get_revision("unknown-v1") == 1
