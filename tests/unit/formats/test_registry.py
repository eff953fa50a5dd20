"""Formats that one has, and formats that others bring."""

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


def test_harken_has_its_own() -> None:
    assert set(FORMATS.list_names()) >= {"events-v1", "messages-v1", "narrative-v1"}
    for name in FORMATS.list_names():
        found = FORMATS.get(name)
        assert found is not None
        assert found.name == name


def test_a_program_adds_its_own() -> None:
    formats = FormatRegistry(installed=list)
    assert formats.get("toy-v1") is None
    assert formats.register(TOY) is formats.get("toy-v1") is formats.register(TOY)
    assert "toy-v1" in formats.list_names()
    assert FORMATS.get("toy-v1") is None


@pytest.mark.parametrize("name", ["toy-v1", "events-v1"])
def test_a_name_has_one_meaning(name: str) -> None:
    with pytest.raises(ValueError, match="already"):
        FormatRegistry(TOY, installed=list).register(Format(name=name))


def test_a_unique_beginning_is_enough() -> None:
    formats = FormatRegistry(TOY, Format(name="toy-v10"), installed=list)
    assert formats.find("toy-v1") is TOY
    assert formats.find("narr").name == "narrative-v1"
    with pytest.raises(AmbiguousName, match="toy-v1, toy-v10"):
        formats.find("toy")
    for unknown in ("cobol-v1", ""):
        with pytest.raises(NameNotFound, match="messages-v1, narrative-v1, .*toy-v1"):
            formats.find(unknown)


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A folder with an installed package that brings formats, good and bad."""
    (tmp_path / "toy.py").write_text(PACKAGE)
    info = tmp_path / "toy-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toy\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRIES)
    return tmp_path


@pytest.mark.req("S2-56")
def test_an_installed_package_brings_formats(package: Path) -> None:
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
        "it calls itself toy-v1",
        "module 'toy' has no attribute 'PACKAGE'",
        "No module named 'nowhere'",
        "it is no Format but str",
    ]


def test_a_broken_package_troubles_only_whoever_wants_it() -> None:
    def broken() -> list[object]:
        raise ConfigError("never asked")

    formats = FormatRegistry(installed=broken)  # type: ignore[arg-type]
    assert formats.get("events-v1") is not None


def test_a_registry_says_the_revision_of_each_format_without_importing_it() -> None:
    for name in FORMATS.list_names():
        found = FORMATS.get(name)
        assert found is not None
        assert FORMATS.get_revision(name) == found.revision
    assert FormatRegistry(Format(name="toy-v9", revision=3)).get_revision("toy-v9") == 3
    assert FORMATS.get_revision("unknown-v1") == 1
