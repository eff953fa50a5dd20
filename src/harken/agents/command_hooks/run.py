"""A hook's command at work: JSON on stdin, and what it said when it has ended.

Input and output are files, not pipes: nobody waits for a command that does not read, or for
something that it left in the background with its output open. What it leaves there lives on, as
it does in Claude Code; what takes too long or writes too much is ended, with all that came of it.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from harken.agents.command_hooks.config import CommandHookConfig
from harken.world.shell.process_group import ProcessGroup

MAX_OUTPUT_BYTES = 10_000_000
_ALONE = 'exec 3<&0 >/dev/null 2>&1; "$@" <&3 &'
"""Starts a program and ends at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResult:
    """How a command ended."""

    exit_code: int | None = None
    stdout: str = ""
    stderr: str = ""
    problem: str = ""
    """Why it says nothing: it was not started, or was ended."""
    left: bool = False
    """Whether something of it still runs."""


async def run_command(
    entry: CommandHookConfig, said: bytes, *, folder: Path, environment: Mapping[str, str]
) -> CommandResult:
    """Run a command to its end, or for as long as it may take; it hears `said` on stdin.

    Cancelled, it ends the command first.
    """
    with TemporaryFile() as heard, TemporaryFile() as out, TemporaryFile() as errors:
        heard.write(said)
        heard.seek(0)
        try:
            processes = ProcessGroup.start(
                _program(entry, environment),
                folder=folder,
                environment=environment,
                output=out.fileno(),
                streams=(heard.fileno(), errors.fileno()),
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
            stdout=_text(out),
            stderr=_text(errors),
            problem=problem,
            left=not entry.is_async and _is_left(processes),
        )


def _program(entry: CommandHookConfig, environment: Mapping[str, str]) -> Sequence[str]:
    """Return what to run, with its arguments. Raises OSError where there is no shell."""
    path = environment.get("PATH", os.defpath)
    shell = shutil.which("bash", path=path) or shutil.which("sh", path=path)
    if shell is None:
        raise FileNotFoundError(0, "there is neither bash nor sh in PATH")
    line = [shell, "-c", entry.command]
    if entry.args is not None:
        project = environment.get("CLAUDE_PROJECT_DIR", "")
        words = (entry.command, *entry.args)
        line = [word.replace("${CLAUDE_PROJECT_DIR}", project) for word in words]
    return [shell, "-c", _ALONE, shell, *line] if entry.is_async else line


async def _watch(processes: ProcessGroup, outputs: Sequence[IO[bytes]], timeout_s: float) -> str:
    """Wait for the end of a command; return why it must be ended, where it must."""
    clock = asyncio.get_running_loop().time
    deadline, pause_s = clock() + timeout_s, 0.001
    while processes.exit_code is None:
        if any(os.fstat(one.fileno()).st_size > MAX_OUTPUT_BYTES for one in outputs):
            return f"wrote more than {MAX_OUTPUT_BYTES:,} bytes and was ended"
        left_s = deadline - clock()
        if left_s <= 0:
            return f"did not finish within {timeout_s:g} s and was ended"
        await asyncio.sleep(min(pause_s, left_s))
        pause_s = min(1.5 * pause_s, 0.05)
    return ""


def _is_left(processes: ProcessGroup) -> bool:
    """Whether a process of its group is still there; one that left the group is not seen."""
    try:
        os.killpg(processes.first.pid, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _text(output: IO[bytes]) -> str:
    output.seek(0)
    return output.read(MAX_OUTPUT_BYTES).decode(errors="replace")
