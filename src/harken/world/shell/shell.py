"""`Shell`: the tool `bash` for a folder.

A command is over when its shell has ended: remaining processes are ended, and the result reports
them. After a timeout, Ctrl-C or too much output, no process continues.

If a sandbox is configured, every command runs in it or not at all.
"""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import signal
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from harken.core import structs
from harken.world.environment import find_hidden_variables, visible_variables
from harken.world.files.root import display_name as shown_name
from harken.world.result import InvalidArguments, ToolError
from harken.world.shell.output import Output
from harken.world.shell.process_group import ProcessGroup
from harken.world.shell.sandbox import ASIDE, KEEP, Sandbox, SandboxedCommand
from harken.world.shell.sensitive_paths import is_socket
from harken.world.tool import Tool, ToolContext, tool

NONINTERACTIVE_VARIABLES: Mapping[str, str] = {
    "DEBIAN_FRONTEND": "noninteractive",
    "GIT_EDITOR": "true",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "MANPAGER": "cat",
    "PAGER": "cat",
    "PIP_NO_INPUT": "1",
    "SYSTEMD_PAGER": "cat",
    "TERM": "dumb",
}
"""Variables that disable pagers and prompts, because no user can answer them."""

MAX_SETUP_RETRIES = 2
"""The number of retries after a failed setup of the sandbox."""
_IN_SANDBOX = " (in the sandbox)"
_MAX_LISTED_NAMES = 5
"""The maximum number of names in `/tmp` that a result lists."""
GRACE_PERIOD_S = 0.2
"""The time that processes may run after the shell has ended, as for `> >(tee log)`."""

_DESCRIPTION_TEMPLATE = """\
Run a command in bash, in the working folder. The result is the exit code and the output
(stdout and stderr together).

Each call is a new shell: `cd` and variables do not last. Nobody answers prompts; stdin is empty.
A command may take {default:g} s, or `timeout_s`, at most {longest:g} s. Then it is ended, and what
it left in the background is ended with every call: start a server and use it in one command.
Of output above {cap:,} characters you get head and tail, and the path of a file with all of it."""


class ShellLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits on the time and output of a command."""

    timeout_s: float = 120.0
    """The default time limit of a call."""
    max_timeout_s: float = 600.0
    """The maximum time limit of a call."""
    characters: int = 30_000
    """The output limit in a result."""
    output_bytes: int = 1_000_000_000
    """The total output limit; a command that exceeds it is ended."""


class Shell(msgspec.Struct, frozen=True):
    """Runs commands in a folder; output too long for a result goes to a file in `outputs`."""

    folder: Path
    outputs: Path
    hide: Collection[str] = ()
    """Variables that commands do not get, besides those that look secret: API keys."""
    passed_secrets: Collection[str] = ()
    """Secret variables that commands get, because the user named them."""
    sandbox: Sandbox | None = None
    """The sandbox for commands. None: they have all rights of the user."""
    refusal: str = ""
    """The reason why no command may run; empty if they may."""
    environment: Mapping[str, str] | None = None
    """The environment of commands, before variables against prompts; None: the inherited one."""
    limits: ShellLimits = msgspec.field(default_factory=ShellLimits)

    @property
    def tool(self) -> Tool:
        """The tool `bash`."""

        async def bash(caller: ToolContext, command: str, timeout_s: float | None = None) -> str:
            return await self.run(command, timeout_s, caller)

        async def preview(command: str, timeout_s: float | None = None, **_: ToolContext) -> str:
            return command if timeout_s is None else f"{command}\n(may take {timeout_s:g} s)"

        limits = self.limits
        description = _DESCRIPTION_TEMPLATE.format(
            default=limits.timeout_s, longest=limits.max_timeout_s, cap=limits.characters
        )
        description += "" if self.sandbox is None else f"\n{self.sandbox.about}"
        bash_tool = structs.replace(tool(description=description)(bash), note=self.note)
        return bash_tool.with_subject(by="command", kind="command", preview=preview)

    @property
    def note(self) -> str:
        """Return a line for the user on whether a command runs in the sandbox."""
        if self.refusal:
            return ""
        default_note = "It runs without a sandbox, with all your rights."
        return default_note if self.sandbox is None else self.sandbox.note

    async def run(
        self, command: str, timeout_s: float | None = None, caller: ToolContext | None = None
    ) -> str:
        """Run a command and return the result for a model, whatever its exit code.

        Raises ToolError if it cannot be started, takes too long or writes too much;
        InvalidArguments for an invalid time limit. If cancelled, it ends the command first.
        """
        seconds = self.limits.timeout_s if timeout_s is None else timeout_s
        if not 0 < seconds <= self.limits.max_timeout_s:
            raise InvalidArguments(
                f"timeout_s must be above 0 and at most {self.limits.max_timeout_s:g}"
            )
        for _ in range(MAX_SETUP_RETRIES):
            with suppress(_SandboxSetupFailed):  # A path to mount over may have just vanished.
                return await self._run(command, seconds, caller)
        return await self._run(command, seconds, caller)

    async def _run(self, command: str, seconds: float, caller: ToolContext | None) -> str:
        prepared = self._prepare(command, caller)
        output = Output.create(self.outputs)
        keep = False
        try:
            processes = self._start(prepared, output)
            try:
                stop_reason = await self._watch(processes, output, seconds)
            finally:
                remaining = await processes.end(
                    GRACE_PERIOD_S if processes.exit_code is not None else 0
                )
                notes = prepared.notes()
            text = output.read_full(self.limits.characters)
            keep = text is None
            text = output.read_shortened(self.limits.characters) if text is None else text
        finally:
            output.close(keep=keep)
        if stop_reason is not None:
            raise ToolError(f"{stop_reason} Its output:\n{text or '(no output)'}{notes}")
        if processes.never_ran and processes.exit_code == 1:
            raise _SandboxSetupFailed(
                f"the sandbox could not be set up, and the command was not run: {text}"
            )
        if processes.never_ran:
            raise ToolError(f"the sandbox was ended, and the command with it. Its output: {text}")
        if self.sandbox is not None and processes.exit_code:
            notes += self.sandbox.hint(text)
        suffix = "" if self.sandbox is None else _IN_SANDBOX
        return (
            _format_result(f"{format_exit_code(processes.exit_code)}{suffix}", text, remaining)
            + notes
        )

    def begin(self, command: str, caller: ToolContext | None = None) -> BackgroundCommand:
        """Start a background command; the caller must end it. Raises ToolError."""
        prepared = self._prepare(command, caller)
        output = Output.create(self.outputs)
        try:
            processes = self._start(prepared, output)
        except BaseException:
            output.close(keep=False)
            raise
        suffix = "" if self.sandbox is None else _IN_SANDBOX
        return BackgroundCommand(
            processes, output, self.limits.output_bytes, prepared.notes, suffix
        )

    def _prepare(self, command: str, caller: ToolContext | None) -> _PreparedCommand:
        """Prepare a command line and its environment. Raises ToolError if it may not run."""
        if self.refusal:
            raise ToolError(f"the command was not run: {self.refusal}")
        # The environment is passed on: no decision depends on its content.
        inherited = os.environ if self.environment is None else self.environment
        added = {} if caller is None else caller.environment_changes()
        environment = dict(inherited) if caller is None else caller.environment(inherited)
        visible = visible_variables(environment, named=self.passed_secrets, hide=self.hide)
        hidden = find_hidden_variables(command, environment, visible)
        # A relative entry of PATH would run a program in the working folder.
        entries = environment.get("PATH", os.defpath).split(os.pathsep)
        path = os.pathsep.join(entry for entry in entries if Path(entry).is_absolute())
        shell = shutil.which("bash", path=path) or shutil.which("sh", path=path)
        if shell is None:
            raise ToolError("the shell cannot be started: neither bash nor sh is in PATH")
        command_line = [shell, "-c", command, Path(shell).name]
        if self.sandbox is None:
            return _PreparedCommand(command_line, {**visible, **NONINTERACTIVE_VARIABLES}, hidden)
        sockets = [socket for socket in added.values() if socket is not None and is_socket(socket)]
        try:
            sandboxed_line = [shell, "-c", KEEP, "harken", *command_line]
            sandboxed = self.sandbox.enter(
                sandboxed_line, {**visible, **NONINTERACTIVE_VARIABLES}, sockets
            )
        except OSError as error:
            raise ToolError(f"the sandbox cannot be set up: {error}") from None
        return _PreparedCommand(sandboxed.command, sandboxed.environment, hidden, sandboxed)

    def _start(self, prepared: _PreparedCommand, output: Output) -> ProcessGroup:
        """Start a command. Raises ToolError if that fails."""
        try:
            start = ProcessGroup.start if prepared.entered is None else ProcessGroup.start_kept
            return start(
                prepared.command,
                folder=self.folder,
                environment=prepared.environment,
                output=output.descriptor,
            )
        except ValueError:
            raise ToolError("the command has an invalid character (NUL?)") from None
        except OSError as error:
            if not self.folder.is_dir():
                raise ToolError(
                    f"the working folder {self.folder} does not exist any more"
                ) from None
            if error.errno == errno.E2BIG:
                raise ToolError(
                    f"the command ({len(prepared.command[-2]):,} characters) and the "
                    "environment are too long: write a script to a file and run it"
                ) from None
            raise ToolError(f"the shell cannot be started: {error}") from None

    async def _watch(self, processes: ProcessGroup, output: Output, seconds: float) -> str | None:
        """Wait for the end of a command; return why it must be ended, if so."""
        clock = asyncio.get_running_loop().time
        deadline, pause_s = clock() + seconds, 0.001
        while processes.exit_code is None:
            if output.size_bytes > self.limits.output_bytes:
                return f"it wrote more than {self.limits.output_bytes:,} bytes and was stopped."
            left_s = deadline - clock()
            if left_s <= 0:
                return f"it timed out after {seconds:g} s and was stopped."
            await asyncio.sleep(min(pause_s, left_s))
            pause_s = min(2 * pause_s, 0.05)
        return None


class _SandboxSetupFailed(ToolError):
    """The sandbox could not be set up; the command did not start."""


class _PreparedCommand(msgspec.Struct, frozen=True):
    """A command line that is ready to start."""

    command: Sequence[str]
    """Program and arguments; the command of the model is the last but one."""
    environment: Mapping[str, str]
    hidden: Sequence[str]
    """Variables that it mentions and does not get."""
    entered: SandboxedCommand | None = None

    def notes(self) -> str:
        """Return notes for the model after the command has ended.

        Raises ToolError.
        """
        notes = ""
        if self.hidden:
            names = ", ".join(self.hidden)
            notes += (
                "\n"
                f"[not passed to commands, because it may be secret: {names}; the user "
                "can allow it with pass_env]"
            )
        try:
            renamed_paths = () if self.entered is None else self.entered.rename_protected_paths()
        except OSError as error:
            raise ToolError(
                f"it created a sensitive path, which cannot be renamed: {error}"
            ) from None
        for path in renamed_paths:
            notes += (
                "\n"
                f"[{path} controls which programs run later, and commands may not create "
                f"it: it was renamed to {Path(path).name}{ASIDE}. Use `write`, which "
                "asks the user]"
            )
        temporary_names = [] if self.entered is None else self.entered.list_temporary_files()
        if temporary_names:
            remainder = (
                f" and {len(temporary_names) - _MAX_LISTED_NAMES} more"
                if len(temporary_names) > _MAX_LISTED_NAMES
                else ""
            )
            names = ", ".join(map(shown_name, temporary_names[:_MAX_LISTED_NAMES]))
            notes += (
                "\n"
                f"[temporary: {names}{remainder} in /tmp, which is private to the "
                "sandbox and removed with the session; write files for the user to the "
                "working folder]"
            )
        return notes


def _format_result(end: str, text: str, remaining: Sequence[str]) -> str:
    """Format the result of a command: how it ended, its output, and the processes it left."""
    ended_note = ""
    if remaining:
        names = ", ".join(sorted(set(remaining)))
        ended_note = f"\n[still running in the background, stopped: {names}]"
    return f"{end}\n{text or '(no output)'}{ended_note}"


class BackgroundCommand(msgspec.Struct):
    """A command that runs in the background."""

    processes: ProcessGroup
    output: Output
    output_bytes: int
    """The output limit; a command that exceeds it is ended."""
    notes: Callable[[], str] = str
    """Returns further notes when all processes have ended."""
    status_suffix: str = ""
    """A suffix for the end status, such as the use of the sandbox."""

    async def wait_ended(self) -> str:
        """Wait for the end and return the status; end remaining processes. May be cancelled."""
        pause_s = 0.01
        while self.processes.exit_code is None:
            if self.output.size_bytes > self.output_bytes:
                await self.processes.end()
                return (
                    f"it wrote more than {self.output_bytes:,} bytes and was stopped{self.notes()}"
                )
            await asyncio.sleep(pause_s)
            pause_s = min(1.5 * pause_s, 0.5)
        remaining = await self.processes.end(GRACE_PERIOD_S)
        ended_note = (
            f"; still running, stopped: {', '.join(sorted(set(remaining)))}" if remaining else ""
        )
        if self.processes.never_ran:
            return "the sandbox could not be set up, and the command was not run"
        return (
            format_exit_code(self.processes.exit_code)
            + self.status_suffix
            + ended_note
            + self.notes()
        )

    def end(self) -> None:
        """End it if it still runs, and close its output, which is kept. Call it once."""
        self.processes.kill()
        with suppress(ToolError):
            self.notes()
        self.output.close(keep=True)


def format_exit_code(exit_code: int | None) -> str:
    """Format an exit code.

    >>> format_exit_code(0), format_exit_code(-9), format_exit_code(139)
    ('exit code 0', 'ended by signal 9 (SIGKILL)', 'exit code 139 (128 + SIGSEGV)')
    """
    if exit_code is None:
        return "it could not be stopped: it hangs in the kernel"
    if exit_code < 0:
        return f"ended by signal {-exit_code} ({_signal_name(-exit_code)})"
    name = _signal_name(exit_code - 128)
    return f"exit code {exit_code}" + (f" (128 + {name})" if name else "")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return ""
