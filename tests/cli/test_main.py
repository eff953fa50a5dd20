"""`python -m harken`, which is `harken`."""

from __future__ import annotations

import subprocess
import sys


def test_python_m_harken_prints_the_help() -> None:
    command = [sys.executable, "-m", "harken", "--help"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith("Usage: harken [OPTIONS] COMMAND [ARGS]...\n")


def test_python_m_harken_passes_arguments_and_the_exit_code_on() -> None:
    command = [sys.executable, "-m", "harken", "nonsense"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith("harken: No such command 'nonsense'")
