"""tools/team_walk.py: three users on two services over PostgreSQL and S3."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.forks.processes import ROOT, write_command
from tests.postgres_kit import find_programs
from tools.team_walk import BIN, run_walk

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")


@pytest.mark.full
@pytest.mark.req("D-07")
def test_three_users_work_on_two_services(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Its commands end with the exit codes that the walk expects, and print these lines."""
    run_walk(tmp_path, commands=write_command(tmp_path / "bin").parent)
    out = capfd.readouterr().out
    for line in (
        r"origin: 13 commits, 1 branch, \S+ KB cloned into \S+/bob",
        r"branch cafe: moved; here \S+, there \S+ before\norigin: 1 commit, .* pulled",
        r"harken: \S+: carl has no right 'write'\n\(exit code 2\)",
        r'{"error":{"code":"unknown_name"',
        r"harken: \S+ cannot be reached .*\n\(exit code 2\)",
        r"3 sessions pushed, 3 with new content: 159 lines, 13 commits",
        r"22 commits expired\n5 commits stay: held",
        r"harken: the content is under legal hold \(case-7\), .*\n\(exit code 2\)",
        r"Purged from \d+ places",
        r"north\$ harken user audit[^$]* ann \S+ 127.0.0.1 POST /v1/store/write: 200 ctx-",
        r"carl \S+ 127.0.0.1 \S+ \S+: 403 forbidden",
    ):
        assert re.search(line, out), (line, out)
    assert not re.search(r"hkt_[A-Za-z0-9]", out)
    assert "Traceback" not in out


def test_ctrl_c_stops_all_that_was_started() -> None:
    if find_programs() is None:
        pytest.skip("needs PostgreSQL")
    command = [sys.executable, "-m", "tools.team_walk"]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as walk:
        assert walk.stdout is not None
        lines: list[str] = []
        while not lines or not lines[-1].startswith("ann: write project:cafe"):
            lines.append(walk.stdout.readline())
            assert lines[-1], walk.communicate()
        children = list_descendants(walk.pid)
        assert any("postgres" in command for command in children.values()), children
        assert any(str(BIN / "harken") in command for command in children.values()), children
        walk.send_signal(signal.SIGINT)
        out, err = walk.communicate(timeout=60)
    assert (walk.returncode, err) == (130, "interrupted: all that was started is stopped\n")
    end = time.monotonic() + 30  # The system may take a moment to end a killed process.
    while running := [command for pid, command in children.items() if is_running(pid)]:
        assert time.monotonic() < end, running
        time.sleep(0.05)
    for match in re.finditer(r"(?:homes: |PostgreSQL: )(\S+)", "".join(lines) + out):
        assert not Path(match[1]).exists()


def is_running(process_id: int) -> bool:
    """Whether a process exists and has not ended. One that has ended may wait for its parent."""
    try:
        stat = Path(f"/proc/{process_id}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def list_descendants(process_id: int) -> dict[int, str]:
    """Return the command lines of all processes that a process has started, by id."""
    commands: dict[int, str] = {}
    for text in Path(f"/proc/{process_id}/task/{process_id}/children").read_text().split():
        child = int(text)
        commands[child] = os.fsdecode(Path(f"/proc/{child}/cmdline").read_bytes())
        commands |= list_descendants(child)
    return commands
