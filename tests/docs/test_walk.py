"""The walk of examples/12-reviewed-change runs offline, and prints what its README says."""

from __future__ import annotations

import doctest
import subprocess
from pathlib import Path

from tests.docs.examples import ROOT, Reader, examples

FOLDER = ROOT / "examples" / "12-reviewed-change"


def test_a_change_is_reviewed_discussed_fixed_and_verified(tmp_path: Path) -> None:
    [documented] = [item.text for item in examples(FOLDER / "README.md") if item.language == "text"]
    ran = subprocess.run(
        ["sh", FOLDER / "walk.sh"],
        cwd=tmp_path,
        env=Reader(tmp_path).environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    fits = doctest.OutputChecker().check_output(
        documented, ran.stdout.lstrip("\n"), doctest.ELLIPSIS
    )
    assert fits, ran.stdout
