"""Process groups with and without `/proc`."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import pytest

from harken.world.shell.process_group import MARK, ProcessGroup

NOWHERE = Path("/nonexistent")
ENVIRONMENT = {"PATH": os.environ["PATH"]}


def start_command(folder: Path, command: str, proc: Path = NOWHERE, **options: str) -> ProcessGroup:
    with (folder / "output").open("wb") as output:
        return ProcessGroup.start(
            ["sh", "-c", command],
            folder=folder,
            environment={**ENVIRONMENT, **options},
            output=output.fileno(),
            proc=proc,
        )


def wait_for_pid(file: Path) -> int:
    """Wait until a process has written its process id."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if file.exists() and file.read_text().endswith("\n"):
            return int(file.read_text())
        time.sleep(0.005)
    raise AssertionError(f"no {file}")


def test_group_is_killed_without_proc(tmp_path: Path) -> None:
    group = start_command(tmp_path, "sleep 60 & echo $! > pid; wait")
    pid = wait_for_pid(tmp_path / "pid")
    assert group.running() == ["a process"]
    assert asyncio.run(group.end()) == ["a process"]
    assert group.exit_code == -15
    assert group.running() == []
    state = Path(f"/proc/{pid}/stat")
    assert not state.exists() or ") Z " in state.read_text()


def test_cancelled_end_kills_at_once(tmp_path: Path) -> None:
    processes = start_command(
        tmp_path, "trap '' TERM; echo $$ > pid; while true; do sleep 0.01; done"
    )
    processes.terminate_timeout_s = 600
    wait_for_pid(tmp_path / "pid")

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


def test_finished_group_is_left_alone_without_proc(tmp_path: Path) -> None:
    group = start_command(tmp_path, "exit 4")
    assert asyncio.run(group.end(patience_s=10)) == []
    assert group.exit_code == 4
    group.kill()


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="this is about /proc")
def test_process_name_with_any_characters_is_read_from_proc(tmp_path: Path) -> None:
    unusual = tmp_path / "a) S 1 (b"
    unusual.symlink_to("/bin/sleep")
    group = start_command(tmp_path, f"'{unusual}' 60 & echo $! > pid; wait", Path("/proc"))
    wait_for_pid(tmp_path / "pid")
    while (
        len(group.running()) < 2 or "sh" not in group.running() or group.running() == ["sh", "sh"]
    ):
        time.sleep(0.005)
    assert sorted(group.running()) == ["a) S 1 (b", "sh"]
    group.kill()
    assert group.running() == []


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="this is about /proc")
def test_nested_command_has_both_marks(tmp_path: Path) -> None:
    group = start_command(
        tmp_path, f"echo ${MARK} > mark; sleep 60", Path("/proc"), **{MARK: "outer"}
    )
    while not (tmp_path / "mark").exists() or not (tmp_path / "mark").read_text():
        time.sleep(0.005)
    assert (tmp_path / "mark").read_text() == f"outer {group.token}\n"
    group.kill()
