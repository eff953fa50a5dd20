"""kill -9 and power cuts under a store, again and again, each time on what the last one left."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from tests.crash.harm import killed
from tests.crash.store_writer import wrong

ROOT = Path(__file__).parents[2]
TOOL = ROOT.parent / "shared" / "tools" / "power_cut.py"


def kills(folder: Path, runs: int, seed: int) -> int:
    """Kill a writer so many times; return the last number that was acknowledged."""
    dice, acknowledged = Random(seed), -1
    for run in range(runs):
        patience = dice.choice([0, 1, 5, 30])
        after_s = dice.uniform(0, 0.3 if patience == 0 else 0.02)
        acknowledged = max(
            acknowledged,
            killed("tests.crash.store_writer", str(folder), after_s=after_s, patience=patience),
        )
        reason = wrong(folder, acknowledged)
        assert reason is None, f"run {run}: {reason}"
    return acknowledged


@pytest.mark.req("D-01", "S2-11")
def test_kill_9_loses_no_commit_that_was_acknowledged(tmp_path: Path) -> None:
    assert kills(tmp_path, 10, seed=1) > 0


@pytest.mark.full
@pytest.mark.req("D-01", "S2-11")
@pytest.mark.parametrize("seed", range(10))
def test_kill_9_loses_no_commit_that_was_acknowledged_200_times(tmp_path: Path, seed: int) -> None:
    assert kills(tmp_path, 20, seed) > 0


@pytest.mark.full
@pytest.mark.req("D-01", "S2-11")
def test_a_power_cut_loses_no_commit_that_was_acknowledged() -> None:
    if not TOOL.exists() or os.geteuid() != 0 or shutil.which("mkfs.ext4") is None:
        pytest.skip("power cuts need the tool, root and mkfs.ext4")
    writer = [sys.executable, str(ROOT / "tests" / "crash" / "store_writer.py")]
    verifier = [*writer, "verify", "{dir}", "{acked}"]
    how = ["--cuts", "12", "--seed", "1", "--seconds", "2"]
    done = subprocess.run(
        [sys.executable, str(TOOL), *how, "--verify", *verifier, "--", *writer, "{dir}"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), *sys.path))},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(done.stdout.partition(" cuts, ")[2].split()[0]) > 0
