"""kill -9 at random moments, repeatedly, each time on the log of the last run.

This tests recovery, not durability: the page cache survives the death of a process.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from tests.crash.kill_kit import kill_after
from tests.crash.verifier import find_damage

ROOT = Path(__file__).parents[2]


def kills(folder: Path, durability: str, runs: int, seed: int) -> int:
    """Kill a writer repeatedly. Return the final number of acknowledged entries."""
    dice, acknowledged = Random(seed), -1
    for run in range(runs):
        patience = dice.choice([0, 1, 1, 5, 30])
        after_s = dice.uniform(0, 0.15 if patience == 0 else 0.02)
        now = kill_after(
            "tests.crash.writer", durability, str(folder), after_s=after_s, patience=patience
        )
        acknowledged = max(acknowledged, now)
        reason = find_damage(folder, acknowledged)
        assert reason is None, f"run {run}: {reason}"
    return acknowledged


@pytest.mark.req("D-01")
@pytest.mark.parametrize(("durability", "runs"), [("turn", 9), ("always", 3), ("none", 3)])
def test_kill_9_loses_nothing_acknowledged(tmp_path: Path, durability: str, runs: int) -> None:
    assert kills(tmp_path, durability, runs, seed=runs) > 0


@pytest.mark.full
@pytest.mark.req("D-01")
@pytest.mark.parametrize(("durability", "runs"), [("turn", 120), ("always", 60), ("none", 40)])
def test_kill_9_loses_nothing_acknowledged_200_times(
    tmp_path: Path, durability: str, runs: int
) -> None:
    # A new log from time to time: recovery of a long one takes longer.
    for log in range(0, runs, 20):
        folder = tmp_path / str(log)
        folder.mkdir()
        assert kills(folder, durability, 20, seed=log) > 0
