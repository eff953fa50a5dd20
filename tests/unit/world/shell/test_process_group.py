"""Processes: where there is no `/proc`, and what stands in it where there is one."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import pytest

from harken.world.shell.process_group import MARK, ProcessGroup

NOWHERE = Path("/nonexistent")
ENVIRONMENT = {"PATH": os.environ["PATH"]}


def started(folder: Path, command: str, proc: Path = NOWHERE, **more: str) -> ProcessGroup:
    with (folder / "output").open("wb") as output:
        return ProcessGroup.start(
            ["sh", "-c", command],
            folder=folder,
            environment={**ENVIRONMENT, **more},
            output=output.fileno(),
            proc=proc,
        )


def wait_for(file: Path) -> int:
    """Wait until a process has written its number."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if file.exists() and file.read_text().endswith("\n"):
            return int(file.read_text())
        time.sleep(0.005)
    raise AssertionError(f"no {file}")


def test_without_proc_the_group_is_ended(tmp_path: Path) -> None:
    one = started(tmp_path, "sleep 60 & echo $! > pid; wait")
    pid = wait_for(tmp_path / "pid")
    assert one.running() == ["a process"]
    assert asyncio.run(one.end()) == ["a process"]
    assert one.exit_code == -15
    assert one.running() == []
    state = Path(f"/proc/{pid}/stat")
    assert not state.exists() or ") Z " in state.read_text()


def test_a_cancelled_end_kills_at_once(tmp_path: Path) -> None:
    processes = started(tmp_path, "trap '' TERM; echo $$ > pid; while true; do sleep 0.01; done")
    processes.terminate_timeout_s = 600
    wait_for(tmp_path / "pid")

    async def cancel() -> None:
        task = asyncio.create_task(processes.end())
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        while processes.exit_code is None:
            await asyncio.sleep(0.01)

    asyncio.run(asyncio.wait_for(cancel(), 60))
    assert processes.exit_code == -9


def test_without_proc_a_group_that_has_ended_is_let_be(tmp_path: Path) -> None:
    one = started(tmp_path, "exit 4")
    assert asyncio.run(one.end(patience_s=10)) == []
    assert one.exit_code == 4
    one.kill()


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="this is about /proc")
def test_with_proc_what_runs_has_a_name_whatever_that_holds(tmp_path: Path) -> None:
    odd = tmp_path / "a) S 1 (b"
    odd.symlink_to("/bin/sleep")
    one = started(tmp_path, f"'{odd}' 60 & echo $! > pid; wait", Path("/proc"))
    wait_for(tmp_path / "pid")
    while len(one.running()) < 2 or "sh" not in one.running() or one.running() == ["sh", "sh"]:
        time.sleep(0.005)
    assert sorted(one.running()) == ["a) S 1 (b", "sh"]
    one.kill()
    assert one.running() == []


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="this is about /proc")
def test_a_command_within_a_command_has_both_marks(tmp_path: Path) -> None:
    one = started(tmp_path, f"echo ${MARK} > mark; sleep 60", Path("/proc"), **{MARK: "outer"})
    while not (tmp_path / "mark").exists() or not (tmp_path / "mark").read_text():
        time.sleep(0.005)
    assert (tmp_path / "mark").read_text() == f"outer {one.token}\n"
    one.kill()
