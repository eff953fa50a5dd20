"""The sandbox: what a command in it can do, what it is told, and when there is none."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from harken.errors import ConfigError
from harken.world.result import ToolError
from harken.world.shell.sandbox import Sandbox
from harken.world.shell.shell import Shell, ShellLimits
from tests.loopback_kit import serve_loopback
from tests.unit.world.shell.boxing import Box


def test_a_command_writes_in_its_folder_and_what_it_wrote_is_there(box: Box) -> None:
    assert box.run("mkdir a && echo hi > a/b && cat a/b") == "exit code 0 (in the sandbox)\nhi\n"
    assert (box.work / "a/b").read_text() == "hi\n"


def test_a_command_reads_what_is_not_private(box: Box) -> None:
    box.write({"elsewhere/notes": "read me"})
    assert box.run(f"cat {box.around}/elsewhere/notes") == "exit code 0 (in the sandbox)\nread me"


def test_its_temporary_folder_is_its_own_and_lasts_as_long_as_the_session(box: Box) -> None:
    box.write({"tmp/of-another": "x"})
    assert box.run("echo one > $TMPDIR/two; ls $TMPDIR/of-another").startswith("exit code 2")
    assert box.run("cat $TMPDIR/two") == "exit code 0 (in the sandbox)\none\n"
    assert not (box.around / "tmp/two").exists()


def test_an_allowed_folder_is_written_too(box: Box) -> None:
    box.wanted["allowed"] = [box.around / "elsewhere"]
    assert box.run("echo x > ../elsewhere/made") == "exit code 0 (in the sandbox)\n(no output)"
    assert (box.around / "elsewhere/made").exists()


@pytest.mark.parametrize(
    ("command", "result"),
    [
        ("exit 3", "exit code 3 (in the sandbox)\n(no output)"),
        ("kill -9 $$", "exit code 137 (128 + SIGKILL) (in the sandbox)\n(no output)"),
        ("echo out; echo err >&2", "exit code 0 (in the sandbox)\nout\nerr\n"),
        ("read line; echo $?", "exit code 0 (in the sandbox)\n1\n"),
        ("echo a > >(sleep 0.02; tee log)", "exit code 0 (in the sandbox)\na\n"),
        ("kill -9 1; kill -9 -1; echo still there 2>&1 | cat", "still there"),
        ("no-such-program", "exit code 127"),
    ],
)
def test_a_command_ends_as_it_would_outside(box: Box, command: str, result: str) -> None:
    assert result in box.run(command)


def test_what_a_command_left_behind_is_ended_and_named(box: Box) -> None:
    result = box.run("(setsid nohup sleep 60 >/dev/null 2>&1 &) ; sleep 60 & echo hi")
    assert result.endswith("[still running in the background and therefore ended: sleep]")


def test_a_command_that_takes_too_long_is_ended_with_all_that_it_started(box: Box) -> None:
    with pytest.raises(ToolError, match="timed out after 0.5 s"):
        box.run("trap '' TERM; sleep 7.25 & (setsid sleep 7.25 &); sleep 7.25", 0.5)
    assert not running("sleep\0" + "7.25")


def test_a_cancelled_command_is_ended(box: Box) -> None:
    async def main() -> None:
        task = asyncio.create_task(box.shell().run("echo > begun; sleep 7.5"))
        while not (box.work / "begun").exists():
            await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(main())
    assert not running("sleep\0" + "7.5")


def test_a_command_ends_with_the_program_that_runs_it(box: Box) -> None:
    """Also where that is killed without a warning: a command outside goes on then."""
    code = (
        "import asyncio, os, sys; from pathlib import Path\n"
        "from harken.world.shell.sandbox import Sandbox; from harken.world.shell.shell import Shell\n"
        "work, out = Path(sys.argv[1]), Path(sys.argv[2])\n"
        "box = Sandbox(folder=work, outputs=out).found(os.environ)\n"
        "asyncio.run(Shell(work, out, sandbox=box).run('echo > begun; sleep 8.25'))\n"
    )
    harken = subprocess.Popen([sys.executable, "-c", code, box.work, box.home / "outputs"])
    while not (box.work / "begun").exists():
        assert harken.poll() is None
        time.sleep(0.01)
    harken.send_signal(signal.SIGKILL)
    harken.wait()
    deadline = time.monotonic() + 30
    while running("sleep\0" + "8.25") and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not running("sleep\0" + "8.25")


def test_output_too_long_for_a_result_can_be_read_by_the_next_command(box: Box) -> None:
    shell = replace(box.shell(), limits=ShellLimits(characters=1000))
    first = asyncio.run(shell.run("seq 5000"))
    path = first.partition("all of it is in ")[2].partition(" ")[0]
    assert asyncio.run(shell.run(f"tail -1 {path}")) == "exit code 0 (in the sandbox)\n5000\n"
    assert "exit code 1" in asyncio.run(shell.run(f"echo x > {path}"))


def test_what_is_said_to_be_readable_is_read_in_what_is_private(box: Box) -> None:
    box.write({"user/.harken/skills/tea/steep.sh": "echo steeped"})
    box.wanted["readable"] = [box.home / "skills"]
    assert box.run("sh ~/.harken/skills/tea/steep.sh; ls -A ~/.harken") == (
        "exit code 0 (in the sandbox)\nsteeped\noutputs\nskills\n"
    )
    assert "Read-only file system" in box.run("echo x > ~/.harken/skills/tea/steep.sh")


def test_the_network_can_be_let_in(box: Box) -> None:
    with serve_loopback() as server:
        knock = f"exec 5<>/dev/tcp/127.0.0.1/{urlsplit(server.url).port} && echo in"
        assert "Connection refused" in box.run(knock)
        box.wanted["network"] = True
        assert box.run(knock) == "exit code 0 (in the sandbox)\nin\n"
    assert "network access is available" in box.shell().tool.description


def test_the_model_is_told_what_commands_can_do(box: Box) -> None:
    described = box.shell().tool.description
    assert "there is no network access access" in described
    assert "only below the working folder" in described
    assert str(box.work) not in described, "a session could not be replayed elsewhere"


@pytest.mark.parametrize(
    ("command", "hint"),
    [
        (
            "echo 'curl: (6) Could not resolve host: x' >&2; exit 6",
            "there is no network access access",
        ),
        ("touch ../elsewhere/x", "can write only below"),
    ],
)
def test_a_failure_that_may_come_of_the_sandbox_gets_a_hint(
    box: Box, command: str, hint: str
) -> None:
    assert hint in box.run(command).splitlines()[-1]


@pytest.mark.parametrize("command", ["exit 1", "echo 'Network is unreachable'", "ls nothing"])
def test_other_failures_get_no_hint(box: Box, command: str) -> None:
    assert "[" not in box.run(command)


def test_where_the_sandbox_breaks_the_command_does_not_run(box: Box) -> None:
    broken = replace(box.shell(), sandbox=replace(box.sandbox(), program="/bin/false"))
    with pytest.raises(ToolError, match="the sandbox could not be set up, and the command was not"):
        asyncio.run(broken.run("touch made"))
    assert not (box.work / "made").exists()


def test_where_a_sandbox_is_required_and_there_is_none_no_command_runs(tmp_path: Path) -> None:
    shell = Shell(tmp_path, tmp_path / "outputs", refusal="there is no sandbox")
    with pytest.raises(ToolError, match="the command was not run: there is no sandbox"):
        asyncio.run(shell.run("touch made"))
    assert not (tmp_path / "made").exists()


def test_bubblewrap_that_does_not_work_is_none(tmp_path: Path) -> None:
    wanted = replace(Sandbox(folder=tmp_path, outputs=tmp_path / "outputs"), program="/bin/false")
    assert wanted.trial({}) == "exit code 1"
    broken = tmp_path / "bwrap"
    broken.write_text("#!/bin/sh\necho 'bwrap: No permissions' >&2; exit 1\n")
    broken.chmod(0o755)
    elsewhere = Sandbox(folder=tmp_path / "work", outputs=tmp_path / "outputs")
    with pytest.raises(ConfigError, match="does not work here: bwrap: No permissions"):
        elsewhere.resolve({"PATH": str(tmp_path)})


def test_bubblewrap_is_not_taken_from_where_commands_write(box: Box) -> None:
    planted = box.work / "bin/bwrap"
    planted.parent.mkdir()
    planted.write_text("#!/bin/sh\ntouch /planted\n")
    planted.chmod(0o755)
    box.environ["PATH"] = f"{planted.parent}:{os.environ['PATH']}"
    assert box.sandbox().program != str(planted)


def test_what_the_loader_reads_holds_for_the_command_and_not_for_bubblewrap(box: Box) -> None:
    box.environ |= {"LD_LIBRARY_PATH": str(box.work), "LD_BIND_NOW": "1"}
    entered = box.sandbox().enter(["true"], box.environ)
    assert not any(name.startswith("LD_") for name in entered.environment)
    assert (
        box.run("echo $LD_BIND_NOW $LD_LIBRARY_PATH")
        == f"exit code 0 (in the sandbox)\n1 {box.work}\n"
    )


def test_commands_at_the_same_time_are_in_sandboxes_of_their_own(box: Box) -> None:
    results: list[str] = []
    threads = [
        threading.Thread(target=lambda: results.append(box.run("ps -e | wc -l"))) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(results)) == 1


def running(command: str) -> bool:
    """Whether a process with this command line runs on this machine."""
    for one in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if command in one.read_text(errors="replace"):
                return True
        except OSError:
            continue
    return False
