"""The reference pages are those of the code."""

from __future__ import annotations

import subprocess
import sys

import pytest

import harken
from tests.docs.examples import ROOT


@pytest.mark.parametrize("tool", ["cli_docs.py", "api_docs.py"])
def test_the_reference_is_up_to_date(tool: str) -> None:
    command = [sys.executable, str(ROOT / "tools" / tool), "--check"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout + ran.stderr) == (0, "")


@pytest.mark.parametrize("name", harken.__all__)
def test_a_public_name_has_an_entry(name: str) -> None:
    page = (ROOT / "docs" / "reference" / "python.md").read_text("utf-8")
    assert f"\n### `{name}`\n" in page
