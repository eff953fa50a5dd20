"""`Shell`: the tool `bash`, made for a folder.

A command is over when its shell is: what it started and left behind is ended, and the result says
so. Whatever happens (a timeout, Ctrl-C, too much output), nothing of it runs on.

Where there is a sandbox, every command runs in it, or does not run: there is no way around.
"""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import signal
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from harken.world.environment import hidden_in, visible_variables
from harken.world.files.root import display_name as shown_name
from harken.world.result import InvalidArguments, ToolError
from harken.world.shell.output import Output
from harken.world.shell.process_group import ProcessGroup
from harken.world.shell.sandbox import ASIDE, KEEP, Sandbox, SandboxedCommand
from harken.world.shell.sensitive_paths import is_socket
from harken.world.tool import Tool, ToolContext, tool

QUIET: Mapping[str, str] = {
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
"""Settings with which programs neither page nor ask: there is nobody at the keyboard."""

AGAIN = 2
"""How often the sandbox is set up again where that fails."""
_IN_SANDBOX = " (in the sandbox)"
_SHOWN = 5
"""Names of files in `/tmp` that a result lists."""
PATIENCE_S = 0.2
"""How long what a command started may go on when its shell has ended: `> >(tee log)` does."""

_ABOUT = """\
Run a command in bash, in the working folder. The result is the exit code and the output
(stdout and stderr together).

Each call is a new shell: `cd` and variables do not last. Nobody answers prompts; stdin is empty.
A command may take {default:g} s, or `timeout_s`, at most {longest:g} s. Then it is ended, and what
it left in the background is ended with every call: start a server and use it in one command.
Of output above {cap:,} characters you get head and tail, and the path of a file with all of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellLimits:
    """How long a command may take and how much it may write."""

    timeout_s: float = 120.0
    """Where the call does not say."""
    longest_s: float = 600.0
    """The most that a call may say."""
    characters: int = 30_000
    """Of output in a result."""
    output_bytes: int = 1_000_000_000
    """Of output at all: a command that writes more is ended."""


@dataclass(frozen=True, slots=True)
class Shell:
    """Runs commands in a folder; output too long for a result goes to a file in `outputs`."""

    folder: Path
    outputs: Path
    hide: Collection[str] = ()
    """Variables that commands do not get beside those that look secret: the keys of the models."""
    named: Collection[str] = ()
    """Secret variables that commands get, because the user named them."""
    sandbox: Sandbox | None = None
    """Where commands run; None: they can do all that their user can."""
    refusal: str = ""
    """Why no command runs at all; empty: they run."""
    environment: Mapping[str, str] | None = None
    """What commands get, besides settings against pagers and prompts; None: what we have."""
    limits: ShellLimits = field(default_factory=ShellLimits)

    @property
    def tool(self) -> Tool:
        """The tool `bash`."""

        async def bash(caller: ToolContext, command: str, timeout_s: float | None = None) -> str:
            return await self.run(command, timeout_s, caller)

        async def preview(command: str, timeout_s: float | None = None, **_: ToolContext) -> str:
            return command if timeout_s is None else f"{command}\n(may take {timeout_s:g} s)"

        limits = self.limits
        about = _ABOUT.format(
            default=limits.timeout_s, longest=limits.longest_s, cap=limits.characters
        )
        about += "" if self.sandbox is None else f"\n{self.sandbox.about}"
        made = replace(tool(description=about)(bash), note=self.note)
        return made.with_subject(by="command", kind="command", preview=preview)

    @property
    def note(self) -> str:
        """Return a line for the user who is asked about a command: in the sandbox or not."""
        if self.refusal:
            return ""
        bare = "It runs without a sandbox, and can do all that you can."
        return bare if self.sandbox is None else self.sandbox.note

    async def run(
        self, command: str, timeout_s: float | None = None, caller: ToolContext | None = None
    ) -> str:
        """Run a command and return what a model reads of it; whatever its exit code, it was run.

        Raises ToolError where it cannot be started, takes too long or writes too much;
        InvalidArguments for a time that no command may take. Cancelled, it ends the command first.
        """
        seconds = self.limits.timeout_s if timeout_s is None else timeout_s
        if not 0 < seconds <= self.limits.longest_s:
            raise InvalidArguments(f"timeout_s is above 0 and at most {self.limits.longest_s:g}")
        for _ in range(AGAIN):
            with suppress(_NotSetUp):  # what was to be mounted over may have gone just then
                return await self._run(command, seconds, caller)
        return await self._run(command, seconds, caller)

    async def _run(self, command: str, seconds: float, caller: ToolContext | None) -> str:
        ready = self._ready(command, caller)
        output = Output.create(self.outputs)
        keep = False
        try:
            processes = self._start(ready, output)
            try:
                stopped = await self._watch(processes, output, seconds)
            finally:
                left = await processes.end(PATIENCE_S if processes.exit_code is not None else 0)
                notes = ready.notes()
            text = output.whole(self.limits.characters)
            keep = text is None
            text = output.shortened(self.limits.characters) if text is None else text
        finally:
            output.close(keep=keep)
        if stopped is not None:
            raise ToolError(f"{stopped} Its output until then:\n{text or '(no output)'}{notes}")
        if processes.never_ran and processes.exit_code == 1:
            raise _NotSetUp(f"the sandbox could not be set up, and the command was not run: {text}")
        if processes.never_ran:
            raise ToolError(f"the sandbox was ended, and the command with it. Its output: {text}")
        if self.sandbox is not None and processes.exit_code:
            notes += self.sandbox.hint(text)
        where = "" if self.sandbox is None else _IN_SANDBOX
        return _result(f"{how_it_ended(processes.exit_code)}{where}", text, left) + notes

    def begin(self, command: str, caller: ToolContext | None = None) -> BackgroundCommand:
        """Start a command that runs on; whoever has it ends it. Raises ToolError."""
        ready = self._ready(command, caller)
        output = Output.create(self.outputs)
        try:
            processes = self._start(ready, output)
        except BaseException:
            output.close(keep=False)
            raise
        where = "" if self.sandbox is None else _IN_SANDBOX
        return BackgroundCommand(processes, output, self.limits.output_bytes, ready.notes, where)

    def _ready(self, command: str, caller: ToolContext | None) -> _Ready:
        """Work out how a command is run. Raises ToolError where that cannot be, or may not."""
        if self.refusal:
            raise ToolError(f"the command was not run: {self.refusal}")
        # Passed on, not read: nothing here depends on what is in it.
        inherited = os.environ if self.environment is None else self.environment
        added = {} if caller is None else caller.environment_changes()
        environment = dict(inherited) if caller is None else caller.environment(inherited)
        visible = visible_variables(environment, named=self.named, hide=self.hide)
        hidden = hidden_in(command, environment, visible)
        # A relative entry of PATH would run whatever is called so in the folder.
        entries = environment.get("PATH", os.defpath).split(os.pathsep)
        path = os.pathsep.join(entry for entry in entries if Path(entry).is_absolute())
        shell = shutil.which("bash", path=path) or shutil.which("sh", path=path)
        if shell is None:
            raise ToolError("the shell cannot be started: there is neither bash nor sh in PATH")
        line = [shell, "-c", command, Path(shell).name]
        if self.sandbox is None:
            return _Ready(line, {**visible, **QUIET}, hidden)
        sockets = [one for one in added.values() if one is not None and is_socket(one)]
        try:
            kept = [shell, "-c", KEEP, "harken", *line]
            entered = self.sandbox.enter(kept, {**visible, **QUIET}, sockets)
        except OSError as error:
            raise ToolError(f"the sandbox cannot be set up: {error}") from None
        return _Ready(entered.command, entered.environment, hidden, entered)

    def _start(self, ready: _Ready, output: Output) -> ProcessGroup:
        """Start a command. Raises ToolError where that cannot be."""
        try:
            start = ProcessGroup.start if ready.entered is None else ProcessGroup.keep
            return start(
                ready.command,
                folder=self.folder,
                environment=ready.environment,
                output=output.descriptor,
            )
        except ValueError:
            raise ToolError("the command holds a character that no shell takes (NUL?)") from None
        except OSError as error:
            if not self.folder.is_dir():
                raise ToolError(f"the working folder {self.folder} is not there any more") from None
            if error.errno == errno.E2BIG:
                raise ToolError(
                    f"the command ({len(ready.command[-2]):,} characters) and the environment are "
                    f"too long: write a script to a file and run that"
                ) from None
            raise ToolError(f"the shell cannot be started: {error}") from None

    async def _watch(self, processes: ProcessGroup, output: Output, seconds: float) -> str | None:
        """Wait for the end of a command; return why it must be ended, where it must."""
        clock = asyncio.get_running_loop().time
        deadline, pause_s = clock() + seconds, 0.001
        while processes.exit_code is None:
            if output.size_bytes > self.limits.output_bytes:
                return f"it wrote more than {self.limits.output_bytes:,} bytes and was ended."
            left_s = deadline - clock()
            if left_s <= 0:
                return f"it did not finish within {seconds:g} s and was ended."
            await asyncio.sleep(min(pause_s, left_s))
            pause_s = min(2 * pause_s, 0.05)
        return None


class _NotSetUp(ToolError):
    """The sandbox could not be set up; the command did not begin."""


@dataclass(frozen=True, slots=True)
class _Ready:
    """A command that can be started."""

    command: Sequence[str]
    """Program and arguments; the line that the model wrote is the last but one."""
    environment: Mapping[str, str]
    hidden: Sequence[str]
    """Variables that it mentions and does not get."""
    entered: SandboxedCommand | None = None

    def notes(self) -> str:
        """Say, when it has ended, what the model should know beside its output.

        Raises ToolError.
        """
        notes = ""
        if self.hidden:
            names = ", ".join(self.hidden)
            notes += (
                f"\n[not passed to commands, because it may be secret: {names}; whoever started "
                f"this program can name it in pass_env]"
            )
        try:
            aside = () if self.entered is None else self.entered.put_aside()
        except OSError as error:
            raise ToolError(f"it created a sensitive path, which stays: {error}") from None
        for path in aside:
            notes += (
                f"\n[{path} decides which programs run later, and no command may create it: it was "
                f"renamed to {Path(path).name}{ASIDE}. Use `write`, for which the user is asked]"
            )
        left = [] if self.entered is None else self.entered.left_in_temporary()
        if left:
            more = f" and {len(left) - _SHOWN} more" if len(left) > _SHOWN else ""
            names = ", ".join(map(shown_name, left[:_SHOWN]))
            notes += (
                f"\n[not kept: {names}{more} in /tmp, which is the sandbox's own and goes with the "
                f"session; what the user shall have belongs in the working folder]"
            )
        return notes


def _result(end: str, text: str, left: Sequence[str]) -> str:
    """Return the result of a command: how it ended, its output, and the processes it left."""
    ended = ""
    if left:
        names = ", ".join(sorted(set(left)))
        ended = f"\n[still running in the background and therefore ended: {names}]"
    return f"{end}\n{text or '(no output)'}{ended}"


@dataclass(slots=True)
class BackgroundCommand:
    """A command that runs on, in the background."""

    processes: ProcessGroup
    output: Output
    output_bytes: int
    """A command that writes more is ended."""
    notes: Callable[[], str] = str
    """Says what else there is to say of it, when nothing of it runs any more."""
    where: str = ""
    """How it is run, as its end says it."""

    async def ended(self) -> str:
        """Return how it ended, when it has; what it left behind is ended, too. May be cancelled."""
        pause_s = 0.01
        while self.processes.exit_code is None:
            if self.output.size_bytes > self.output_bytes:
                await self.processes.end()
                return f"it wrote more than {self.output_bytes:,} bytes and was ended{self.notes()}"
            await asyncio.sleep(pause_s)
            pause_s = min(1.5 * pause_s, 0.5)
        left = await self.processes.end(PATIENCE_S)
        also = (
            f"; still running and therefore ended: {', '.join(sorted(set(left)))}" if left else ""
        )
        if self.processes.never_ran:
            return "the sandbox could not be set up, and it did not run"
        return how_it_ended(self.processes.exit_code) + self.where + also + self.notes()

    def end(self) -> None:
        """End it now, if it still runs, and let go of its output, which is kept. Call it once."""
        self.processes.kill()
        with suppress(ToolError):
            self.notes()
        self.output.close(keep=True)


def how_it_ended(exit_code: int | None) -> str:
    """Say an exit code in words.

    >>> how_it_ended(0), how_it_ended(-9), how_it_ended(139)
    ('exit code 0', 'ended by signal 9 (SIGKILL)', 'exit code 139 (128 + SIGSEGV)')
    """
    if exit_code is None:
        return "it could not be ended: it hangs in the kernel"
    if exit_code < 0:
        return f"ended by signal {-exit_code} ({_signal_name(-exit_code)})"
    name = _signal_name(exit_code - 128)
    return f"exit code {exit_code}" + (f" (128 + {name})" if name else "")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return ""
