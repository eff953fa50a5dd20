"""Faults for writers: a kill in the middle of a write, and a full disk."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import TypeAlias

import pytest

from tests.forks import processes

ROOT = Path(__file__).parents[2]
POWER_CUT = ROOT.parent / "shared" / "tools" / "power_cut.py"
"""Lies beside this repository where Harken is developed."""

Wrong: TypeAlias = Callable[[Path, int], str | None]


def kill_after(module: str, *arguments: str, after_s: float, patience: int) -> int:
    """Run a writer, and kill it `after_s` after `patience` acknowledgments (or after start).

    Returns the last acknowledged number, -1 if there is none.
    """
    command = [sys.executable, "-m", module, *arguments]
    output = b""
    with processes.start(command, stdout=subprocess.PIPE, cwd=ROOT) as writer:
        assert writer.stdout is not None
        for _ in range(patience):
            output += writer.stdout.readline()
        time.sleep(after_s)
        assert writer.poll() is None, "the writer ended by itself"
        os.kill(writer.pid, signal.SIGKILL)
        output += writer.stdout.read()
    output_lines = output.split(b"\n")[:-1]
    return int(output_lines[-1]) if output_lines else -1


@contextmanager
def small_file_system(folder: Path, size: str) -> Iterator[Path]:
    """Mount a small tmpfs at a new folder. Needs Linux and root; skips the test elsewhere."""
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("a tmpfs needs Linux and root")
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "harken-test", str(folder)]
    mount_result = subprocess.run(command, capture_output=True, text=True, check=False)
    if mount_result.returncode != 0:
        pytest.skip(f"this machine mounts no tmpfs: {mount_result.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def kill_repeatedly(writer: str, check: Wrong, folder: Path, runs: int, seed: int) -> int:
    """Kill a writer repeatedly, each time on the existing data. Return the last number.

    `wrong` returns the differences from the acknowledged state up to a number.
    """
    dice, acknowledged = Random(seed), -1
    for run in range(runs):
        patience = dice.choice([0, 1, 5, 20])
        after_s = dice.uniform(0, 0.4 if patience == 0 else 0.03)
        now = kill_after(writer, str(folder), after_s=after_s, patience=patience)
        acknowledged = max(acknowledged, now)
        reason = check(folder, acknowledged)
        assert reason is None, f"run {run}: {reason}"
    return acknowledged


def power_cuts(writer: Path, *, cuts: int, seed: int, seconds: float) -> int:
    """Cut the power under `writer FOLDER` and check the rest with `writer verify FOLDER LAST`.

    Returns the total number of acknowledgments. Fails the test after a loss. Skips it without the
    tool, Linux or root.
    """
    if not POWER_CUT.exists():
        pytest.skip(f"{POWER_CUT} is not there")
    if sys.platform != "linux" or os.geteuid() != 0 or shutil.which("mkfs.ext4") is None:
        pytest.skip("power cuts need Linux, root and mkfs.ext4")
    command = [sys.executable, str(writer)]
    verifier = [*command, "verify", "{dir}", "{acked}"]
    how = ["--cuts", str(cuts), "--seed", str(seed), "--seconds", str(seconds), "--size", "96"]
    result = subprocess.run(
        [sys.executable, str(POWER_CUT), *how, "--verify", *verifier, "--", *command, "{dir}"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), *sys.path))},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    print(result.stdout)
    assert result.returncode == 0, result.stdout + result.stderr
    return int(result.stdout.partition(" cuts, ")[2].split()[0])
