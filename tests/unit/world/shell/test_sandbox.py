"""The sandbox: the access of a command, its output, and the behavior without a sandbox."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
import pytest

from harken.errors import ConfigError
from harken.world.result import ToolError
from harken.world.shell.sandbox import Sandbox
from harken.world.shell.shell import Shell, ShellLimits
from tests.loopback_kit import serve_loopback
from tests.unit.world.shell.sandbox_kit import SandboxFolders


def test_command_writes_in_its_folder_and_the_files_remain(sandbox_folders: SandboxFolders) -> None:
    assert (
        sandbox_folders.run("mkdir a && echo hi > a/b && cat a/b")
        == "exit code 0 (in the sandbox)\nhi\n"
    )
    assert (sandbox_folders.work / "a/b").read_text() == "hi\n"


def test_command_reads_public_files(sandbox_folders: SandboxFolders) -> None:
    sandbox_folders.write({"elsewhere/notes": "read me"})
    assert (
        sandbox_folders.run(f"cat {sandbox_folders.around}/elsewhere/notes")
        == "exit code 0 (in the sandbox)\nread me"
    )


def test_temporary_folder_is_private_and_lasts_for_the_session(
    sandbox_folders: SandboxFolders,
) -> None:
    sandbox_folders.write({"tmp/of-another": "x"})
    assert sandbox_folders.run("echo one > $TMPDIR/two; ls $TMPDIR/of-another").startswith(
        "exit code 2"
    )
    assert sandbox_folders.run("cat $TMPDIR/two") == "exit code 0 (in the sandbox)\none\n"
    assert not (sandbox_folders.around / "tmp/two").exists()


def test_allowed_folder_is_writable(sandbox_folders: SandboxFolders) -> None:
    sandbox_folders.wanted["allowed"] = [sandbox_folders.around / "elsewhere"]
    assert (
        sandbox_folders.run("echo x > ../elsewhere/made")
        == "exit code 0 (in the sandbox)\n(no output)"
    )
    assert (sandbox_folders.around / "elsewhere/made").exists()


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
def test_exit_codes_equal_those_outside(
    sandbox_folders: SandboxFolders, command: str, result: str
) -> None:
    assert result in sandbox_folders.run(command)


def test_background_processes_are_ended_and_named(sandbox_folders: SandboxFolders) -> None:
    result = sandbox_folders.run("(setsid nohup sleep 60 >/dev/null 2>&1 &) ; sleep 60 & echo hi")
    assert result.endswith("[still running in the background and therefore ended: sleep]")


def test_timed_out_command_is_ended_with_its_children(sandbox_folders: SandboxFolders) -> None:
    with pytest.raises(ToolError, match="timed out after 0.5 s"):
        sandbox_folders.run("trap '' TERM; sleep 7.25 & (setsid sleep 7.25 &); sleep 7.25", 0.5)
    assert not is_running("sleep\0" + "7.25")


def test_cancelled_command_is_ended(sandbox_folders: SandboxFolders) -> None:
    async def main() -> None:
        task = asyncio.create_task(sandbox_folders.shell().run("echo > begun; sleep 7.5"))
        while not (sandbox_folders.work / "begun").exists():
            await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(main())
    assert not is_running("sleep\0" + "7.5")


def test_command_ends_with_the_process_of_harken(sandbox_folders: SandboxFolders) -> None:
    """Also if that process is killed. Outside of a sandbox a command would continue."""
    code = (
        "import asyncio, os, sys; from pathlib import Path\n"
        "from harken.world.shell.sandbox import Sandbox; from harken.world.shell.shell import Shell\n"
        "work, out = Path(sys.argv[1]), Path(sys.argv[2])\n"
        "sandbox = Sandbox(folder=work, outputs=out).resolve(os.environ)\n"
        "asyncio.run(Shell(work, out, sandbox=sandbox).run('echo > begun; sleep 8.25'))\n"
    )
    harken = subprocess.Popen(
        [sys.executable, "-c", code, sandbox_folders.work, sandbox_folders.home / "outputs"]
    )
    while not (sandbox_folders.work / "begun").exists():
        assert harken.poll() is None
        time.sleep(0.01)
    harken.send_signal(signal.SIGKILL)
    harken.wait()
    deadline = time.monotonic() + 30
    while is_running("sleep\0" + "8.25") and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not is_running("sleep\0" + "8.25")


def test_saved_output_can_be_read_by_the_next_command(sandbox_folders: SandboxFolders) -> None:
    shell = msgspec.structs.replace(sandbox_folders.shell(), limits=ShellLimits(characters=1000))
    first = asyncio.run(shell.run("seq 5000"))
    path = first.partition("all of it is in ")[2].partition(" ")[0]
    assert asyncio.run(shell.run(f"tail -1 {path}")) == "exit code 0 (in the sandbox)\n5000\n"
    assert "exit code 1" in asyncio.run(shell.run(f"echo x > {path}"))


def test_readable_path_inside_a_private_folder_is_read(sandbox_folders: SandboxFolders) -> None:
    sandbox_folders.write({"user/.harken/skills/tea/steep.sh": "echo steeped"})
    sandbox_folders.wanted["readable"] = [sandbox_folders.home / "skills"]
    assert sandbox_folders.run("sh ~/.harken/skills/tea/steep.sh; ls -A ~/.harken") == (
        "exit code 0 (in the sandbox)\nsteeped\noutputs\nskills\n"
    )
    assert "Read-only file system" in sandbox_folders.run("echo x > ~/.harken/skills/tea/steep.sh")


def test_network_can_be_allowed(sandbox_folders: SandboxFolders) -> None:
    with serve_loopback() as server:
        knock = f"exec 5<>/dev/tcp/127.0.0.1/{urlsplit(server.url).port} && echo in"
        assert "Connection refused" in sandbox_folders.run(knock)
        sandbox_folders.wanted["network"] = True
        assert sandbox_folders.run(knock) == "exit code 0 (in the sandbox)\nin\n"
    assert "network access is available" in sandbox_folders.shell().tool.description


def test_tool_description_states_the_access_of_commands(sandbox_folders: SandboxFolders) -> None:
    described = sandbox_folders.shell().tool.description
    assert "there is no network access access" in described
    assert "only below the working folder" in described
    assert str(sandbox_folders.work) not in described, "a session could not be replayed elsewhere"


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
def test_failure_probably_caused_by_the_sandbox_gets_a_hint(
    sandbox_folders: SandboxFolders, command: str, hint: str
) -> None:
    assert hint in sandbox_folders.run(command).splitlines()[-1]


@pytest.mark.parametrize("command", ["exit 1", "echo 'Network is unreachable'", "ls nothing"])
def test_other_failures_get_no_hint(sandbox_folders: SandboxFolders, command: str) -> None:
    assert "[" not in sandbox_folders.run(command)


def test_command_does_not_run_if_the_sandbox_fails(sandbox_folders: SandboxFolders) -> None:
    broken = msgspec.structs.replace(
        sandbox_folders.shell(),
        sandbox=msgspec.structs.replace(sandbox_folders.sandbox(), program="/bin/false"),
    )
    with pytest.raises(ToolError, match="the sandbox could not be set up, and the command was not"):
        asyncio.run(broken.run("touch made"))
    assert not (sandbox_folders.work / "made").exists()


def test_no_command_runs_without_a_required_sandbox(tmp_path: Path) -> None:
    shell = Shell(tmp_path, tmp_path / "outputs", refusal="there is no sandbox")
    with pytest.raises(ToolError, match="the command was not run: there is no sandbox"):
        asyncio.run(shell.run("touch made"))
    assert not (tmp_path / "made").exists()


def test_broken_bubblewrap_is_not_used(tmp_path: Path) -> None:
    options = msgspec.structs.replace(
        Sandbox(folder=tmp_path, outputs=tmp_path / "outputs"), program="/bin/false"
    )
    assert options.trial({}) == "exit code 1"
    broken = tmp_path / "bwrap"
    broken.write_text("#!/bin/sh\necho 'bwrap: No permissions' >&2; exit 1\n")
    broken.chmod(0o755)
    elsewhere = Sandbox(folder=tmp_path / "work", outputs=tmp_path / "outputs")
    with pytest.raises(ConfigError, match="does not work here: bwrap: No permissions"):
        elsewhere.resolve({"PATH": str(tmp_path)})


def test_bubblewrap_is_not_taken_from_writable_folders(sandbox_folders: SandboxFolders) -> None:
    planted = sandbox_folders.work / "bin/bwrap"
    planted.parent.mkdir()
    planted.write_text("#!/bin/sh\ntouch /planted\n")
    planted.chmod(0o755)
    sandbox_folders.environ["PATH"] = f"{planted.parent}:{os.environ['PATH']}"
    assert sandbox_folders.sandbox().program != str(planted)


def test_loader_variables_apply_to_the_command_and_not_to_bubblewrap(
    sandbox_folders: SandboxFolders,
) -> None:
    sandbox_folders.environ |= {"LD_LIBRARY_PATH": str(sandbox_folders.work), "LD_BIND_NOW": "1"}
    entered = sandbox_folders.sandbox().enter(["true"], sandbox_folders.environ)
    assert not any(name.startswith("LD_") for name in entered.environment)
    assert (
        sandbox_folders.run("echo $LD_BIND_NOW $LD_LIBRARY_PATH")
        == f"exit code 0 (in the sandbox)\n1 {sandbox_folders.work}\n"
    )


def test_concurrent_commands_have_separate_sandboxes(sandbox_folders: SandboxFolders) -> None:
    results: list[str] = []
    threads = [
        threading.Thread(target=lambda: results.append(sandbox_folders.run("ps -e | wc -l")))
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(results)) == 1


def is_running(command: str) -> bool:
    """Whether a process with this command line runs on this machine."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if command in path.read_text(errors="replace"):
                return True
        except OSError:
            continue
    return False
