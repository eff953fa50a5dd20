"""The reference pages are those of the code."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib

import pytest

from tests.docs.examples import ROOT
from tests.public_names import PUBLIC_NAMES


@pytest.mark.parametrize("tool", ["cli_docs.py", "api_docs.py"])
def test_the_reference_is_up_to_date(tool: str) -> None:
    command = [sys.executable, str(ROOT / "tools" / tool), "--check"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout + ran.stderr) == (0, "")


@pytest.mark.parametrize(("package", "name"), PUBLIC_NAMES)
def test_a_public_name_has_an_entry(package: str, name: str) -> None:
    page = (ROOT / "docs" / "reference" / "python.md").read_text("utf-8")
    start = 0 if package == "harken" else page.index(f"\n## {package}\n")
    assert f"\n### `{name}`\n" in page[start:]


def test_readme_lists_all_extras() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    _, _, sentence = (ROOT / "README.md").read_text("utf-8").partition("The extras are ")
    listed = re.findall(r"`([\w-]+)`", sentence.partition(".\n")[0])
    assert listed == list(project["optional-dependencies"])
