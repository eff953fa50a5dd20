"""kill -9 and power cuts under a store, repeatedly, each time on the data of the last run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.kill_kit import ROOT, kill_repeatedly, power_cuts
from tests.crash.store_writer import find_loss


@pytest.mark.req("D-01", "S2-11")
def test_kill_9_loses_no_acknowledged_commit(tmp_path: Path) -> None:
    assert kill_repeatedly("tests.crash.store_writer", find_loss, tmp_path, 10, seed=1) > 0


@pytest.mark.full
@pytest.mark.req("D-01", "S2-11")
@pytest.mark.parametrize("seed", range(10))
def test_kill_9_loses_no_acknowledged_commit_200_times(tmp_path: Path, seed: int) -> None:
    assert kill_repeatedly("tests.crash.store_writer", find_loss, tmp_path, 20, seed) > 0


@pytest.mark.req("D-01", "S2-11")
@pytest.mark.parametrize("cuts", [1, pytest.param(12, marks=pytest.mark.full)])
def test_power_cut_loses_no_acknowledged_commit(cuts: int) -> None:
    """A real file system; `test_store_power_cut.py` cuts between all steps of a model of it."""
    writer = ROOT / "tests" / "crash" / "store_writer.py"
    assert power_cuts(writer, cuts=cuts, seed=1, seconds=2) > 0
