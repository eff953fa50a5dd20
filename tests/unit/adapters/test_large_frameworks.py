"""The tests of frameworks that are too large for every machine, in the environment that has them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PYTHON = ROOT / ".venv-frameworks" / "bin" / "python"
PAGES = ("use-with-claude-agent-sdk.md", "use-with-google-adk.md")
TESTS = (
    "tests/unit/adapters/test_adk_sessions.py",
    "tests/unit/adapters/test_claude_session_store.py",
    *(
        "tests/docs/test_examples.py::test_commands_of_a_page_print_the_documented_output"
        f"[docs/how-to/{page}]"
        for page in PAGES
    ),
)


@pytest.mark.full
@pytest.mark.skipif(not PYTHON.exists(), reason="`make frameworks` installs them")
def test_the_adapters_of_large_frameworks_work() -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    ran = subprocess.run(
        [PYTHON, "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout[-4000:]
    assert "skipped" not in ran.stdout
