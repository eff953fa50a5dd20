"""The shell: output and exit code of a command, and cleanup of its processes."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from harken.world.result import InvalidArguments, ToolError
from harken.world.shell.shell import Shell, ShellLimits

Run = Callable[..., str]


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    folder = tmp_path / "work"
    folder.mkdir()
    return Shell(folder, tmp_path / "outputs")


@pytest.fixture
def run(shell: Shell) -> Run:
    def run(command: str, timeout_s: float | None = None, **limits: float) -> str:
        limited_shell = Shell(shell.folder, shell.outputs, limits=ShellLimits(**limits))  # type: ignore[arg-type]
        return asyncio.run(limited_shell.run(command, timeout_s))

    return run


def is_alive(pid: int) -> bool:
    """Whether a process runs. A zombie does not count."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def read_pids(file: Path) -> list[int]:
    return [int(line) for line in file.read_text().split()]


async def start_and_cancel(shell: Shell, command: str) -> asyncio.Task[str]:
    """Start a command and cancel it when it has written its process ids."""
    task = asyncio.create_task(shell.run(command))
    while not (shell.folder / "pid").exists() or not read_pids(shell.folder / "pid"):
        await asyncio.sleep(0.01)
    task.cancel()
    return task


async def wait_for_task(task: asyncio.Task[str]) -> None:
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.req("S4-40")
def test_result_is_exit_code_and_output(run: Run) -> None:
    assert run("echo out; echo err >&2; exit 3") == "exit code 3\nout\nerr\n"


@pytest.mark.parametrize(
    ("command", "result"),
    [
        ("true", "exit code 0\n(no output)"),
        ("", "exit code 0\n(no output)"),
        ("kill -SEGV $$", "ended by signal 11 (SIGSEGV)\n(no output)"),
        ("exit 137", "exit code 137 (128 + SIGKILL)\n(no output)"),
        ("exit 250", "exit code 250\n(no output)"),
        (r"printf 'a\xffb\x00\n'", "exit code 0\na\ufffdb\ufffd\n"),
        (r"printf '\033[1;31mred\033[0m\t\r\n'", "exit code 0\nred\t\r\n"),
        ("read line; echo $?", "exit code 0\n1\n"),
        ("git --version >/dev/null; echo $PAGER $GIT_TERMINAL_PROMPT", "exit code 0\ncat 0\n"),
    ],
)
def test_tool_description_explains_the_shell(run: Run, command: str, result: str) -> None:
    assert run(command) == result


def test_unknown_command_is_a_result(run: Run) -> None:
    assert run("no-such-program") == (
        "exit code 127\nbash: line 1: no-such-program: command not found\n"
    )


def test_each_command_starts_in_the_folder(run: Run, shell: Shell) -> None:
    assert run("cd / && pwd") == "exit code 0\n/\n"
    assert run("pwd") == f"exit code 0\n{shell.folder}\n"


def test_sh_is_used_without_bash(shell: Shell) -> None:
    programs = shell.folder / "bin"
    programs.mkdir()
    (programs / "sh").symlink_to("/bin/sh")
    limited_shell = Shell(shell.folder, shell.outputs, environment={"PATH": str(programs)})
    assert asyncio.run(limited_shell.run("echo $0")) == "exit code 0\nsh\n"


def test_shell_is_not_taken_from_the_folder(shell: Shell) -> None:
    hostile = shell.folder / "bash"
    hostile.write_text("#!/bin/sh\necho hostile")
    hostile.chmod(0o755)
    environment = {"PATH": f".:{os.environ['PATH']}"}
    limited_shell = Shell(shell.folder, shell.outputs, environment=environment)
    before = Path.cwd()
    os.chdir(shell.folder)
    try:
        assert asyncio.run(limited_shell.run("echo fine")) == "exit code 0\nfine\n"
    finally:
        os.chdir(before)


def test_command_gets_the_environment_without_hidden_variables(
    shell: Shell,
) -> None:
    environment = {"PATH": os.environ["PATH"], "KEY": "secret", "OTHER": "x"}
    limited_shell = Shell(shell.folder, shell.outputs, hide={"KEY"}, environment=environment)
    printed = asyncio.run(limited_shell.run("env"))
    assert "OTHER=x" in printed
    assert "secret" not in printed
    assert "HOME=" not in printed


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("echo a\x00b", "an invalid character"),
        ("echo \ud800", "an invalid character"),
        ("echo " + 2_000_000 * "x", "too long"),
    ],
)
@pytest.mark.req("S4-03")
def test_invalid_command_text_is_rejected(run: Run, command: str, why: str) -> None:
    with pytest.raises(ToolError, match=why):
        run(command)


def test_deleted_folder_is_reported(run: Run, shell: Shell) -> None:
    shell.folder.rmdir()
    with pytest.raises(ToolError, match="work does not exist any more"):
        run("true")


def test_missing_shell_is_reported(shell: Shell) -> None:
    limited_shell = Shell(shell.folder, shell.outputs, environment={"PATH": str(shell.folder)})
    with pytest.raises(ToolError, match="cannot be started"):
        asyncio.run(limited_shell.run("true"))


@pytest.mark.parametrize("timeout_s", [0, -1, 601, float("nan"), float("inf")])
def test_timeout_above_the_limit_is_rejected(run: Run, timeout_s: float) -> None:
    with pytest.raises(InvalidArguments, match="at most 600"):
        run("true", timeout_s)


def test_short_output_creates_no_file(run: Run, shell: Shell) -> None:
    run("echo short")
    with pytest.raises(ToolError):
        run("echo short; sleep 60", 0.1)
    assert list(shell.outputs.iterdir()) == []


def test_long_output_is_truncated_and_saved_to_a_file(run: Run, shell: Shell) -> None:
    output = run("seq 100000", characters=100)
    [file] = shell.outputs.iterdir()
    full_text = file.read_text()
    assert full_text == "".join(f"{n}\n" for n in range(1, 100001))
    assert output.startswith("exit code 0\n1\n2\n3\n")
    assert output.endswith("\n99999\n100000\n")
    assert (
        f"[... {len(full_text) - 100:,} of {len(full_text):,} bytes omitted; the full output is in "
    ) in output
    assert str(file) in output
    assert file.stat().st_mode & 0o777 == 0o600


def test_hundred_megabytes_of_output_cost_little_memory_and_time(shell: Shell) -> None:
    code = (
        "import asyncio, resource, sys; from pathlib import Path\n"
        "from harken.world.shell.shell import Shell\n"
        "one = Shell(Path(sys.argv[1]), Path(sys.argv[2]))\n"
        "shown = asyncio.run(one.run('yes | head -c 100000000'))\n"
        "usage = resource.getrusage(resource.RUSAGE_SELF)\n"
        "print(len(shown), usage.ru_maxrss, usage.ru_utime)\n"
    )
    # A small shell starts it: a process inherits the peak memory of its parent.
    command = ["sh", "-c", '"$@"; exit', "sh", sys.executable, "-c", code]
    command += [str(shell.folder), str(shell.outputs)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    length, peak, seconds = map(float, printed.split())
    peak_kb = peak / 1024 if sys.platform == "darwin" else peak
    assert 30_000 < length < 31_000
    assert peak_kb < 50_000
    assert seconds < 1


def test_timed_out_command_is_ended_and_its_output_returned(run: Run, shell: Shell) -> None:
    start_s = time.monotonic()
    with pytest.raises(ToolError) as caught:
        run("echo begun; sleep 60; echo never", 0.2)
    assert str(caught.value) == ("it timed out after 0.2 s and was stopped. Its output:\nbegun\n")
    assert time.monotonic() - start_s < 40


def test_command_that_ignores_sigterm_is_killed(run: Run, shell: Shell) -> None:
    with pytest.raises(ToolError, match="timed out"):
        run("trap '' TERM; echo $$ > pid; while true; do sleep 0.01; done", 0.2)
    [pid] = read_pids(shell.folder / "pid")
    assert not is_alive(pid)


def test_ended_command_may_clean_up(run: Run, shell: Shell) -> None:
    with pytest.raises(ToolError, match="timed out"):
        run("trap 'echo bye > cleaned; exit' TERM; while true; do sleep 0.01; done", 0.2)
    assert (shell.folder / "cleaned").read_text() == "bye\n"


def test_command_with_endless_output_is_ended(run: Run) -> None:
    with pytest.raises(ToolError, match="wrote more than 1,000,000 bytes and was stopped"):
        run("yes", output_bytes=1_000_000)


def test_background_processes_are_ended_and_named(run: Run, shell: Shell) -> None:
    assert run("sleep 60 & echo $! > pid") == (
        "exit code 0\n(no output)\n[still running in the background, stopped: sleep]"
    )
    assert not any(map(is_alive, read_pids(shell.folder / "pid")))


def test_process_that_exits_shortly_after_the_shell_is_not_killed(run: Run) -> None:
    assert run("echo late > >(sleep 0.05; cat)") == "exit code 0\nlate\n"


FORKS_AWAY = """
import os, sys, time
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
open("pid", "w").write(str(os.getpid()))
print("still here", flush=True)
time.sleep(60)
"""


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="it is found by /proc")
@pytest.mark.parametrize("ending", ["until test -s pid; do sleep 0.01; done", "sleep 60"])
def test_daemon_that_holds_the_output_neither_blocks_nor_survives(
    run: Run, shell: Shell, ending: str
) -> None:
    (shell.folder / "away.py").write_text(FORKS_AWAY)
    start_s = time.monotonic()
    try:
        output = run(f"{sys.executable} away.py; {ending}", 1)
    except ToolError as error:
        output = str(error)
    assert "still here" in output
    assert time.monotonic() - start_s < 40
    assert not any(map(is_alive, read_pids(shell.folder / "pid")))


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="it is found by /proc")
def test_process_without_the_environment_mark_is_found_by_its_parent(shell: Shell) -> None:
    async def cancel() -> None:
        await wait_for_task(
            await start_and_cancel(
                shell, "env -i setsid sh -c 'echo $$ > pid; exec sleep 60' & wait"
            )
        )

    asyncio.run(cancel())
    assert not any(map(is_alive, read_pids(shell.folder / "pid")))


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="it is found by /proc")
def test_process_orphaned_by_sigterm_is_killed(
    shell: Shell,
) -> None:
    """No parent refers to it any more, so each process is remembered."""

    async def cancel() -> None:
        stubborn = 'trap "" TERM; echo $$ > pid; while true; do sleep 0.05; done'
        await wait_for_task(
            await start_and_cancel(shell, f"env -i setsid sh -c '{stubborn}' & wait")
        )

    asyncio.run(cancel())
    assert not any(map(is_alive, read_pids(shell.folder / "pid")))


@pytest.mark.req("S4-40")
def test_cancelled_command_is_ended_with_all_its_processes(shell: Shell) -> None:
    async def cancel() -> None:
        await wait_for_task(await start_and_cancel(shell, "echo $$ > pid; sleep 60 | cat"))

    asyncio.run(cancel())
    assert not any(map(is_alive, read_pids(shell.folder / "pid")))
    assert list(shell.outputs.iterdir()) == []


def test_no_descriptors_leak_and_any_thread_may_run_commands(run: Run, shell: Shell) -> None:
    results: list[str] = []
    run("true")
    gc.collect()  # What earlier tests left open is closed now, not during the comparison.
    before = set(Path("/dev/fd").iterdir())
    for _ in range(3):
        thread = threading.Thread(target=lambda: results.append(run("echo $$ >> pids; echo hi")))
        thread.start()
        thread.join()
    assert results == 3 * ["exit code 0\nhi\n"]
    assert len(set(Path("/dev/fd").iterdir()) - before) == 0
    for pid in read_pids(shell.folder / "pids"):
        with pytest.raises(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)  # The process was reaped and is no zombie.


def test_commands_may_run_concurrently(shell: Shell) -> None:
    async def both() -> tuple[str, str]:
        item = shell.run("until test -e go; do sleep 0.01; done; echo one")
        one_result, two_result = await asyncio.gather(item, shell.run("touch go; echo two"))
        return one_result, two_result

    assert asyncio.run(both()) == ("exit code 0\none\n", "exit code 0\ntwo\n")


def test_tool_describes_itself_and_its_rules(shell: Shell) -> None:
    bash = shell.tool
    assert (bash.name, bash.subject, bash.subject_kind) == ("bash", "command", "command")
    assert not bash.reads_only
    assert bash.parameters["required"] == ["command"]
    assert "120 s" in bash.description
    assert "600 s" in bash.description
    assert asyncio.run(bash.run({"command": "echo hi"})) == "exit code 0\nhi\n"


def test_approval_shows_the_command(shell: Shell) -> None:
    async def previews() -> tuple[str, str]:
        preview = shell.tool.preview
        assert preview is not None
        return await preview(command="ls"), await preview(command="ls", timeout_s=5)

    assert asyncio.run(previews()) == ("ls", "ls\n(may take 5 s)")
