"""`ProcessGroup`: a command with all processes that come of it, ended together.

A command runs in a session and process group of its own. What leaves the group is found where
there is a `/proc`: by its session, by a parent that is found, or by a mark in the environment
that is inherited. What was found once stays known: it may lose its parent to the first signal. What
cleared its environment, left the session and outlived its parent before it was looked for is not
found; nor is anything that another program started on request (a container, a timer).

A command that is *kept* (in the sandbox) runs under two processes that are not its own: one that
made its world, and the first in that world, which waits when the command has ended. All in that
world end with them, whatever they do.

Nothing waits for children in general, so this works in any thread, beside any event loop, and
takes nobody else's exit codes.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex
from typing import NamedTuple

MARK = "HARKEN_COMMAND"
"""The environment variable that marks what a command starts."""
TERM_S = 1.0
"""How long a process has to end itself after SIGTERM, before SIGKILL."""
KILL_S = 2.0
"""How long a killed process is waited for: it may hang in the kernel."""
PROC = Path("/proc")


@dataclass(slots=True)
class ProcessGroup:
    """A running command; `start` makes one."""

    first: subprocess.Popen[bytes]
    token: str
    proc: Path | None
    """Where all processes are found; None where that is nowhere, or without this one."""
    since: int
    """When the first process began, in the ticks of /proc: no other is older."""
    known: set[tuple[int, int]] = field(default_factory=set)
    """Processes that were found so far, with when they began: a number is given again."""
    line: socket.socket | None = None
    """Of a command that is kept: where it is said how it ended."""
    terminate_timeout_s: float = TERM_S
    """How long processes have to end themselves after SIGTERM."""
    _said: int | None = None

    @classmethod
    def start(
        cls,
        command: Sequence[str],
        *,
        folder: Path,
        environment: Mapping[str, str],
        output: int,
        streams: tuple[int, int] | None = None,
        proc: Path = PROC,
    ) -> ProcessGroup:
        """Start a command that writes to the descriptor `output` and reads nothing.

        `streams`: a descriptor of its own for what it reads, and one for its errors.

        Raises OSError, and ValueError where an argument has a NUL or no bytes (a surrogate).
        """
        heard, errors = streams or (subprocess.DEVNULL, output)
        token = token_hex(16)
        outer = environment.get(MARK, "")  # a command of a command is found by both marks
        first = subprocess.Popen(
            command,
            cwd=folder,
            env={**environment, MARK: f"{outer} {token}".strip()},
            stdin=heard,
            stdout=output,
            stderr=errors,
            start_new_session=True,
        )
        stat = _Stat.read(proc, first.pid)
        where, since = (proc, stat.began) if stat else (None, 0)
        return cls(first, token, where, since)

    @classmethod
    def keep(
        cls,
        command: Sequence[str],
        *,
        folder: Path,
        environment: Mapping[str, str],
        output: int,
    ) -> ProcessGroup:
        """Start a command that is run by `sandbox.KEEP`. As `start`."""
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                made = cls.start(
                    command,
                    folder=folder,
                    environment=environment,
                    output=output,
                    streams=(theirs.fileno(), output),
                )
            except BaseException:
                ours.close()
                raise
        made.line = ours
        return made

    @property
    def exit_code(self) -> int | None:
        """How the command ended, negative for a signal; None while it runs."""
        if self.line is not None and self._said is None:
            with suppress(OSError):  # nothing was said, or nobody is there who could
                said = self.line.recv(16, socket.MSG_DONTWAIT).strip()
                self._said = int(said) if said.isdigit() else None
        return self.first.poll() if self._said is None else self._said

    @property
    def never_ran(self) -> bool:
        """Whether a command that is kept never ran, or those who kept it were ended."""
        return self.line is not None and self.exit_code is not None and self._said is None

    def running(self) -> list[str]:
        """Return the names of all processes of the command that still run.

        Where there is no `/proc`, only that there are some in the group can be said.
        """
        if self.proc is None:
            return ["a process"] if self._signal_group(0) else []
        return [stat.name for stat in self._members(self.proc) if not self._keeps(stat)]

    def _keeps(self, stat: _Stat) -> bool:
        """Whether a process is one of the two under which a kept command runs."""
        return self.line is not None and self.first.pid in (stat.pid, stat.parent)

    async def end(self, patience_s: float = 0.0) -> list[str]:
        """End all processes that still run after `patience_s`; return the names of those.

        SIGTERM first, SIGKILL after a second; at once where this task is cancelled meanwhile.
        """
        is_over = False
        try:
            left = await self._gone(patience_s)
            if left:
                self._signal(signal.SIGTERM)
            is_over = not left or not await self._gone(self.terminate_timeout_s)
            return left
        finally:
            if not is_over or self.line is not None:
                self.kill()
            self._reap()

    async def _gone(self, within_s: float) -> list[str]:
        """Wait until nothing runs; return the names of what still does in the end."""
        deadline, pause_s = time.monotonic() + within_s, 0.005
        while (left := self._left()) and time.monotonic() < deadline:
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, 0.05)
        return left

    def _left(self) -> list[str]:
        _ = self.exit_code  # as a zombie it would keep its group
        left = self.running()
        if not left:
            self.first.poll()  # it may have ended just now
        return left

    def kill(self) -> None:
        """Kill all that still runs, and wait for it. Blocks, as a rule for milliseconds."""
        if self.line is not None:
            self.first.kill()  # with it, all in its world
            self.line.close()
        deadline = time.monotonic() + KILL_S
        while self._left() and time.monotonic() < deadline:
            self._signal(signal.SIGKILL)
            time.sleep(0.002)
        with suppress(subprocess.TimeoutExpired):
            self.first.wait(max(0.0, deadline - time.monotonic()))

    def _reap(self) -> None:
        """Wait for what became a child of this process: process 1 inherits orphans."""
        if self.proc is None:
            return
        for pid, began in self.known:
            stat = _Stat.read(self.proc, pid) if pid != self.first.pid else None
            if stat is not None and stat.began == began:
                with suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)

    def _signal(self, number: int) -> None:
        """Send a signal to all that runs: to the group at once, so that no fork escapes."""
        members = [] if self.proc is None else self._members(self.proc)
        if self.line is not None and number != signal.SIGKILL:
            members = [stat for stat in members if not self._keeps(stat)]
        if self.proc is None or any(stat.group == self.first.pid for stat in members):
            self._signal_group(number)
        for stat in members:
            if stat.group != self.first.pid:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(stat.pid, number)

    def _signal_group(self, number: int) -> bool:
        """Send a signal to the group; return whether there still is one.

        As long as it has a member, no other process can get its number.
        """
        try:
            os.killpg(self.first.pid, number)
        except (ProcessLookupError, PermissionError):  # the latter: all that is left are zombies
            return False
        return True

    def _members(self, proc: Path) -> list[_Stat]:
        """Return the processes of this command that run, as far as they can be found."""
        stats = [stat for stat in _all(proc) if stat.began >= self.since]
        found = {stat.pid: stat for stat in stats if self._is_one(stat, proc)}
        grown = bool(found)
        while grown:
            below = [s for s in stats if s.parent in found and s.pid not in found]
            found |= {stat.pid: stat for stat in below}
            grown = bool(below)
        self.known |= {(stat.pid, stat.began) for stat in found.values()}
        return [stat for stat in found.values() if not stat.is_dead]

    def _is_one(self, stat: _Stat, proc: Path) -> bool:
        """Whether a process is of this command, as far as it says so itself."""
        if self.first.pid in (stat.pid, stat.group, stat.session):
            return True
        if (stat.pid, stat.began) in self.known:
            return True
        try:
            return self.token.encode() in (proc / str(stat.pid) / "environ").read_bytes()
        except OSError:  # it ended, or is another user's
            return False


class _Stat(NamedTuple):
    """What `/proc/PID/stat` says of a process.

    Source: proc_pid_stat(5).
    """

    pid: int
    name: str
    is_dead: bool
    parent: int
    group: int
    session: int
    began: int

    @classmethod
    def read(cls, proc: Path, pid: int) -> _Stat | None:
        """Return what is known of a process; None where it is gone."""
        try:
            descriptor = os.open(f"{proc}/{pid}/stat", os.O_RDONLY)  # thrice as fast as a Path
        except OSError:
            return None
        try:
            text = os.read(descriptor, 4096)
        except ProcessLookupError:
            return None
        finally:
            os.close(descriptor)
        head, _, rest = text.rpartition(b")")  # a name may hold anything, parentheses too
        state, parent, group, session, *more = rest.split()
        return cls(
            pid=pid,
            name=head.partition(b"(")[2].decode(errors="replace"),
            is_dead=state in (b"Z", b"X"),
            parent=int(parent),
            group=int(group),
            session=int(session),
            began=int(more[15]),
        )


def _all(proc: Path) -> Iterator[_Stat]:
    """Yield all processes but this one."""
    for folder in proc.iterdir():
        if folder.name.isdecimal() and int(folder.name) != os.getpid():
            stat = _Stat.read(proc, int(folder.name))
            if stat is not None:
                yield stat
