"""kill -9 and power cuts during checkpoints, compactions and snapshots; and parallel writers."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from harken.context.materialize import materialize
from harken.store.fsck import fsck
from harken.store.sqlite.store import SqliteStore
from tests.crash import parallel_writers
from tests.crash.context_writer import LATER, find_loss
from tests.crash.kill_kit import ROOT, kill_after, kill_repeatedly, power_cuts
from tests.crash.realistic_store import read_packs
from tests.forks import processes

WRITER = ROOT / "tests" / "crash" / "context_writer.py"


@pytest.mark.req("D-01", "S2-11")
def test_kill_9_loses_no_step_of_a_conversation(tmp_path: Path) -> None:
    assert kill_repeatedly("tests.crash.context_writer", find_loss, tmp_path, 10, seed=1) > 0


@pytest.mark.full
@pytest.mark.req("D-01", "S2-11")
@pytest.mark.parametrize("seed", range(15))
def test_kill_9_loses_no_step_of_a_conversation_300_times(tmp_path: Path, seed: int) -> None:
    assert kill_repeatedly("tests.crash.context_writer", find_loss, tmp_path, 20, seed) > 0


def kills_of_both(folder: Path, runs: int, seed: int) -> int:
    """Kill a collector and a writer repeatedly. Return the last acknowledged step."""
    dice, acknowledged = Random(seed), -1
    command = [sys.executable, "-m", "tests.crash.context_writer"]
    for run in range(runs):
        with processes.start([*command, str(folder)], stdout=subprocess.PIPE, cwd=ROOT) as writer:
            assert writer.stdout is not None
            output_line = writer.stdout.readline()
            after_s, patience = dice.uniform(0, 0.1), dice.choice([0, 1, 2])
            kill_after(command[2], "collect", str(folder), after_s=after_s, patience=patience)
            writer.kill()
            output_line += writer.stdout.read()
        acknowledged = max(acknowledged, int(output_line.split(b"\n")[:-1][-1]))
        reason = find_loss(folder, acknowledged)
        assert reason is None, f"run {run}: {reason}"
    return acknowledged


@pytest.mark.req("D-01", "S2-69")
def test_kill_9_during_gc_loses_no_concurrent_step(tmp_path: Path) -> None:
    assert kills_of_both(tmp_path, 3, seed=1) > 0


@pytest.mark.full
@pytest.mark.req("D-01", "S2-69")
@pytest.mark.parametrize("seed", range(10))
def test_kill_9_during_gc_loses_no_step_100_times(tmp_path: Path, seed: int) -> None:
    assert kills_of_both(tmp_path, 10, seed) > 0


@pytest.mark.full
@pytest.mark.req("D-01", "S2-11")
@pytest.mark.parametrize("seed", range(8))
def test_200_power_cuts_lose_no_step_of_a_conversation(seed: int) -> None:
    assert power_cuts(WRITER, cuts=25, seed=seed, seconds=2) > 25


@pytest.mark.req("S2-11", "S2-65")
def test_two_processes_with_eight_tasks_lose_and_double_nothing(tmp_path: Path) -> None:
    path, steps = tmp_path / "s.db", 12
    command = [sys.executable, "-m", "tests.crash.parallel_writers", str(path)]
    writers = [
        subprocess.Popen([*command, writer_name, str(steps)], cwd=ROOT) for writer_name in "ab"
    ]
    assert [writer.wait(60) for writer in writers] == [0, 0]
    store = SqliteStore(path)
    expected = [
        message.content for step in range(steps) for message in parallel_writers.step_messages(step)
    ]
    for principal in (
        f"{writer_name}{task}" for writer_name in "ab" for task in range(parallel_writers.TASKS)
    ):
        last = store.latest_commit(principal, LATER)
        contents_read = [message.content for message in materialize(store, last).messages]
        assert contents_read == expected
    assert len(store.newest_commits(9999)) == 2 * parallel_writers.TASKS * steps
    assert fsck(store) == []
    store.close()
    names = Counter(
        name
        for pack_things in read_packs(path).values()
        for object_names in pack_things.names.values()
        for name in object_names
    )
    assert max(names.values()) == 1
