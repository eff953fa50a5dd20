"""The shell: what a command prints and how it ends, and that nothing of it stays behind."""

from __future__ import annotations

import asyncio
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
        one = Shell(shell.folder, shell.outputs, limits=ShellLimits(**limits))  # type: ignore[arg-type]
        return asyncio.run(one.run(command, timeout_s))

    return run


def is_alive(pid: int) -> bool:
    """Whether a process runs; a zombie that nobody waits for does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def pids(file: Path) -> list[int]:
    return [int(line) for line in file.read_text().split()]


async def cancelled(shell: Shell, command: str) -> asyncio.Task[str]:
    """Begin a command, and cancel it as soon as it has written its process ids."""
    task = asyncio.create_task(shell.run(command))
    while not (shell.folder / "pid").exists() or not pids(shell.folder / "pid"):
        await asyncio.sleep(0.01)
    task.cancel()
    return task


async def end_of(task: asyncio.Task[str]) -> None:
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.req("S4-40")
def test_a_result_is_the_exit_code_and_the_output(run: Run) -> None:
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
def test_what_a_command_does_is_said_in_words(run: Run, command: str, result: str) -> None:
    assert run(command) == result


def test_a_command_that_does_not_exist_is_a_result(run: Run) -> None:
    assert run("no-such-program") == (
        "exit code 127\nbash: line 1: no-such-program: command not found\n"
    )


def test_each_command_starts_in_the_folder(run: Run, shell: Shell) -> None:
    assert run("cd / && pwd") == "exit code 0\n/\n"
    assert run("pwd") == f"exit code 0\n{shell.folder}\n"


def test_where_there_is_no_bash_sh_does_it(shell: Shell) -> None:
    programs = shell.folder / "bin"
    programs.mkdir()
    (programs / "sh").symlink_to("/bin/sh")
    one = Shell(shell.folder, shell.outputs, environment={"PATH": str(programs)})
    assert asyncio.run(one.run("echo $0")) == "exit code 0\nsh\n"


def test_no_shell_is_taken_from_the_folder_itself(shell: Shell) -> None:
    hostile = shell.folder / "bash"
    hostile.write_text("#!/bin/sh\necho hostile")
    hostile.chmod(0o755)
    given = {"PATH": f".:{os.environ['PATH']}"}
    one = Shell(shell.folder, shell.outputs, environment=given)
    before = Path.cwd()
    os.chdir(shell.folder)
    try:
        assert asyncio.run(one.run("echo fine")) == "exit code 0\nfine\n"
    finally:
        os.chdir(before)


def test_a_command_gets_the_environment_that_it_is_given_without_what_is_hidden(
    shell: Shell,
) -> None:
    given = {"PATH": os.environ["PATH"], "KEY": "secret", "OTHER": "x"}
    one = Shell(shell.folder, shell.outputs, hide={"KEY"}, environment=given)
    printed = asyncio.run(one.run("env"))
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
def test_what_no_shell_takes_is_refused_in_words(run: Run, command: str, why: str) -> None:
    with pytest.raises(ToolError, match=why):
        run(command)


def test_a_folder_that_vanished_is_named(run: Run, shell: Shell) -> None:
    shell.folder.rmdir()
    with pytest.raises(ToolError, match="work does not exist any more"):
        run("true")


def test_without_any_shell_there_is_a_reason(shell: Shell) -> None:
    one = Shell(shell.folder, shell.outputs, environment={"PATH": str(shell.folder)})
    with pytest.raises(ToolError, match="cannot be started"):
        asyncio.run(one.run("true"))


@pytest.mark.parametrize("timeout_s", [0, -1, 601, float("nan"), float("inf")])
def test_a_time_that_no_command_may_take_is_refused(run: Run, timeout_s: float) -> None:
    with pytest.raises(InvalidArguments, match="at most 600"):
        run("true", timeout_s)


def test_short_output_leaves_no_file(run: Run, shell: Shell) -> None:
    run("echo short")
    with pytest.raises(ToolError):
        run("echo short; sleep 60", 0.1)
    assert list(shell.outputs.iterdir()) == []


def test_of_long_output_there_are_head_tail_and_a_file_with_all_of_it(
    run: Run, shell: Shell
) -> None:
    shown = run("seq 100000", characters=100)
    [file] = shell.outputs.iterdir()
    whole = file.read_text()
    assert whole == "".join(f"{n}\n" for n in range(1, 100001))
    assert shown.startswith("exit code 0\n1\n2\n3\n")
    assert shown.endswith("\n99999\n100000\n")
    assert (
        f"[... {len(whole) - 100:,} of {len(whole):,} bytes omitted; the full output is in "
    ) in shown
    assert str(file) in shown
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_hundred_megabytes_cost_neither_memory_nor_time(shell: Shell) -> None:
    code = (
        "import asyncio, resource, sys; from pathlib import Path\n"
        "from harken.world.shell.shell import Shell\n"
        "one = Shell(Path(sys.argv[1]), Path(sys.argv[2]))\n"
        "shown = asyncio.run(one.run('yes | head -c 100000000'))\n"
        "usage = resource.getrusage(resource.RUSAGE_SELF)\n"
        "print(len(shown), usage.ru_maxrss, usage.ru_utime)\n"
    )
    # By a small shell: a process inherits the peak of the one that it was forked from.
    command = ["sh", "-c", '"$@"; exit', "sh", sys.executable, "-c", code]
    command += [str(shell.folder), str(shell.outputs)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    length, peak, seconds = map(float, printed.split())
    peak_kb = peak / 1024 if sys.platform == "darwin" else peak
    assert 30_000 < length < 31_000
    assert peak_kb < 50_000
    assert seconds < 1


def test_a_command_that_takes_too_long_is_ended_and_its_output_told(run: Run, shell: Shell) -> None:
    begun = time.monotonic()
    with pytest.raises(ToolError) as caught:
        run("echo begun; sleep 60; echo never", 0.2)
    assert str(caught.value) == ("it timed out after 0.2 s and was stopped. Its output:\nbegun\n")
    assert time.monotonic() - begun < 40


def test_a_command_that_ignores_the_first_signal_is_killed(run: Run, shell: Shell) -> None:
    with pytest.raises(ToolError, match="timed out"):
        run("trap '' TERM; echo $$ > pid; while true; do sleep 0.01; done", 0.2)
    [pid] = pids(shell.folder / "pid")
    assert not is_alive(pid)


def test_a_command_may_clean_up_when_it_is_ended(run: Run, shell: Shell) -> None:
    with pytest.raises(ToolError, match="timed out"):
        run("trap 'echo bye > cleaned; exit' TERM; while true; do sleep 0.01; done", 0.2)
    assert (shell.folder / "cleaned").read_text() == "bye\n"


def test_a_command_that_writes_without_end_is_ended(run: Run) -> None:
    with pytest.raises(ToolError, match="wrote more than 1,000,000 bytes and was stopped"):
        run("yes", output_bytes=1_000_000)


def test_what_a_command_leaves_in_the_background_is_ended_and_named(run: Run, shell: Shell) -> None:
    assert run("sleep 60 & echo $! > pid") == (
        "exit code 0\n(no output)\n[still running in the background, stopped: sleep]"
    )
    assert not any(map(is_alive, pids(shell.folder / "pid")))


def test_what_ends_by_itself_just_after_the_shell_is_let_be(run: Run) -> None:
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
def test_a_process_that_forks_away_with_the_output_neither_hangs_nor_stays(
    run: Run, shell: Shell, ending: str
) -> None:
    (shell.folder / "away.py").write_text(FORKS_AWAY)
    begun = time.monotonic()
    try:
        shown = run(f"{sys.executable} away.py; {ending}", 1)
    except ToolError as error:
        shown = str(error)
    assert "still here" in shown
    assert time.monotonic() - begun < 40
    assert not any(map(is_alive, pids(shell.folder / "pid")))


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="it is found by /proc")
def test_a_process_without_the_environment_is_found_below_its_parent(shell: Shell) -> None:
    async def cancel() -> None:
        await end_of(
            await cancelled(shell, "env -i setsid sh -c 'echo $$ > pid; exec sleep 60' & wait")
        )

    asyncio.run(cancel())
    assert not any(map(is_alive, pids(shell.folder / "pid")))


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="it is found by /proc")
def test_a_process_that_lost_its_parent_to_the_first_signal_is_killed_all_the_same(
    shell: Shell,
) -> None:
    """Nothing leads to it any more once its parent is gone: what was found once is remembered."""

    async def cancel() -> None:
        stubborn = 'trap "" TERM; echo $$ > pid; while true; do sleep 0.05; done'
        await end_of(await cancelled(shell, f"env -i setsid sh -c '{stubborn}' & wait"))

    asyncio.run(cancel())
    assert not any(map(is_alive, pids(shell.folder / "pid")))


@pytest.mark.req("S4-40")
def test_a_cancelled_command_is_ended_with_all_its_processes(shell: Shell) -> None:
    async def cancel() -> None:
        await end_of(await cancelled(shell, "echo $$ > pid; sleep 60 | cat"))

    asyncio.run(cancel())
    assert not any(map(is_alive, pids(shell.folder / "pid")))
    assert list(shell.outputs.iterdir()) == []


def test_nothing_leaks_and_any_thread_will_do(run: Run, shell: Shell) -> None:
    results: list[str] = []
    run("true")
    before = sorted(Path("/dev/fd").iterdir())
    for _ in range(3):
        thread = threading.Thread(target=lambda: results.append(run("echo $$ >> pids; echo hi")))
        thread.start()
        thread.join()
    assert results == 3 * ["exit code 0\nhi\n"]
    assert sorted(Path("/dev/fd").iterdir()) == before
    for pid in pids(shell.folder / "pids"):
        with pytest.raises(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)  # it was waited for: no zombie


def test_commands_may_run_at_once(shell: Shell) -> None:
    async def both() -> tuple[str, str]:
        one = shell.run("until test -e go; do sleep 0.01; done; echo one")
        one_result, two_result = await asyncio.gather(one, shell.run("touch go; echo two"))
        return one_result, two_result

    assert asyncio.run(both()) == ("exit code 0\none\n", "exit code 0\ntwo\n")


def test_the_tool_says_what_it_can_and_how_rules_match_it(shell: Shell) -> None:
    bash = shell.tool
    assert (bash.name, bash.subject, bash.subject_kind) == ("bash", "command", "command")
    assert not bash.reads_only
    assert bash.parameters["required"] == ["command"]
    assert "120 s" in bash.description
    assert "600 s" in bash.description
    assert asyncio.run(bash.run({"command": "echo hi"})) == "exit code 0\nhi\n"


def test_a_user_is_shown_the_command(shell: Shell) -> None:
    async def previews() -> tuple[str, str]:
        preview = shell.tool.preview
        assert preview is not None
        return await preview(command="ls"), await preview(command="ls", timeout_s=5)

    assert asyncio.run(previews()) == ("ls", "ls\n(may take 5 s)")
