"""kill -9 and power cuts under a store, again and again, each time on what the last one left."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest

from tests.crash.store_writer import wrong

ROOT = Path(__file__).parents[2]
TOOL = ROOT.parent / "shared" / "tools" / "power_cut.py"


def write_and_be_killed(folder: Path, after_s: float, patience: int) -> int:
    """Run the writer, kill it a while after it acknowledged `patience` commits.

    Returns the last number that it acknowledged, -1 for none.
    """
    command = [sys.executable, "-m", "tests.crash.store_writer", str(folder)]
    said = b""
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT) as writer:
        assert writer.stdout is not None
        for _ in range(patience):
            said += writer.stdout.readline()
        time.sleep(after_s)
        assert writer.poll() is None, "the writer ended by itself"
        os.kill(writer.pid, signal.SIGKILL)
        said += writer.stdout.read()
    whole = said.split(b"\n")[:-1]
    return int(whole[-1]) if whole else -1


def kills(folder: Path, runs: int, seed: int) -> int:
    """Kill a writer so many times; return the last number that was acknowledged."""
    dice, acknowledged = Random(seed), -1
    for run in range(runs):
        patience = dice.choice([0, 1, 5, 30])
        after_s = dice.uniform(0, 0.3 if patience == 0 else 0.02)
        acknowledged = max(acknowledged, write_and_be_killed(folder, after_s, patience))
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
