"""Run a hook command: JSON on stdin, and its output when it has ended.

Input and output are files, not pipes: a command that does not read, or leaves a background process
with open output, blocks nothing. Background processes live on, as in Claude Code; a command that
takes too long or writes too much is killed, with its process group.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

import msgspec

from harken.agents.command_hooks.config import CommandHookConfig
from harken.world.shell.process_group import ProcessGroup

MAX_OUTPUT_BYTES = 10_000_000
_START_IN_BACKGROUND = 'exec 3<&0 >/dev/null 2>&1; "$@" <&3 &'
"""A shell script that starts a program in the background and ends at once."""


class CommandResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a command."""

    exit_code: int | None = None
    stdout: str = ""
    stderr: str = ""
    problem: str = ""
    """The reason why there is no output: it was not started, or was killed."""
    has_background_processes: bool = False
    """Whether a process of it still runs."""


async def run_command(
    entry: CommandHookConfig, payload: bytes, *, folder: Path, environment: Mapping[str, str]
) -> CommandResult:
    """Run a command until it ends or its timeout passes, with `payload` on stdin.

    On cancellation it kills the command first.
    """
    with TemporaryFile() as input_file, TemporaryFile() as out, TemporaryFile() as errors:
        input_file.write(payload)
        input_file.seek(0)
        try:
            processes = ProcessGroup.start(
                _program(entry, environment),
                folder=folder,
                environment=environment,
                output=out.fileno(),
                streams=(input_file.fileno(), errors.fileno()),
            )
        except (OSError, ValueError) as error:
            return CommandResult(
                problem=f"cannot be started: {getattr(error, 'strerror', None) or error}"
            )
        problem = ""
        try:
            problem = await _watch(processes, (out, errors), entry.timeout_s)
        finally:
            if problem or processes.exit_code is None:
                await processes.end()
        return CommandResult(
            exit_code=processes.exit_code,
            stdout=_read_text(out),
            stderr=_read_text(errors),
            problem=problem,
            has_background_processes=not entry.is_async and _has_processes(processes),
        )


def _program(entry: CommandHookConfig, environment: Mapping[str, str]) -> Sequence[str]:
    """Return the program to run, with its arguments. Raises OSError if there is no shell."""
    path = environment.get("PATH", os.defpath)
    shell = shutil.which("bash", path=path) or shutil.which("sh", path=path)
    if shell is None:
        raise FileNotFoundError(0, "neither bash nor sh is in PATH")
    line = [shell, "-c", entry.command]
    if entry.args is not None:
        project = environment.get("CLAUDE_PROJECT_DIR", "")
        words = (entry.command, *entry.args)
        line = [word.replace("${CLAUDE_PROJECT_DIR}", project) for word in words]
    return [shell, "-c", _START_IN_BACKGROUND, shell, *line] if entry.is_async else line


async def _watch(processes: ProcessGroup, outputs: Sequence[IO[bytes]], timeout_s: float) -> str:
    """Wait for the end of a command. Return the reason to kill it, or an empty string."""
    clock = asyncio.get_running_loop().time
    deadline, pause_s = clock() + timeout_s, 0.001
    while processes.exit_code is None:
        if any(os.fstat(output.fileno()).st_size > MAX_OUTPUT_BYTES for output in outputs):
            return f"wrote more than {MAX_OUTPUT_BYTES:,} bytes and was ended"
        remaining_s = deadline - clock()
        if remaining_s <= 0:
            return f"did not finish within {timeout_s:g} s and was ended"
        await asyncio.sleep(min(pause_s, remaining_s))
        pause_s = min(1.5 * pause_s, 0.05)
    return ""


def _has_processes(processes: ProcessGroup) -> bool:
    """Whether a process of its group still runs. A process that left the group is not found."""
    try:
        os.killpg(processes.first.pid, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _read_text(output: IO[bytes]) -> str:
    output.seek(0)
    return output.read(MAX_OUTPUT_BYTES).decode(errors="replace")
