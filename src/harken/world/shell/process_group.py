"""`ProcessGroup`: a command with all of its descendant processes, which end together.

A command runs in a session and process group of its own. A process that leaves the group is found
through `/proc`: by its session, by a parent that was found, or by an inherited environment
variable. A process that was found once stays known, because a signal may end its parent. Not found
are processes that cleared their environment, left the session and outlived their parent before a
search, and processes that another program started on request (a container, a timer).

A command that is *kept* (in the sandbox) runs below two processes that are not its own: one that
created its namespaces, and the first process inside, which waits when the command has ended. All
processes inside end with them.

It does not wait for children in general, so it works in any thread, with any event loop, and takes
no exit codes of other children.
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
from pathlib import Path
from secrets import token_hex
from typing import NamedTuple

import msgspec

MARK = "HARKEN_COMMAND"
"""The environment variable that marks the processes of a command."""
TERM_S = 1.0
"""The time between SIGTERM and SIGKILL."""
KILL_S = 2.0
"""The time to wait for a killed process, which may hang in the kernel."""
PROC = Path("/proc")


class ProcessGroup(msgspec.Struct):
    """A running command, created by `start`."""

    first: subprocess.Popen[bytes]
    token: str
    proc: Path | None
    """The mounted procfs. None if there is none, or it lacks the first process."""
    since: int
    """The start time of the first process, in ticks of /proc: descendants are not older."""
    seen_processes: set[tuple[int, int]] = msgspec.field(default_factory=set)
    """Processes found so far, with their start time, because a pid can be reused."""
    report_socket: socket.socket | None = None
    """The socket on which a kept command reports its exit code."""
    terminate_timeout_s: float = TERM_S
    """The time that processes have after SIGTERM."""
    _reported_code: int | None = None

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
        """Start a command that writes to the descriptor `output` and has no input.

        `streams`: descriptors for its standard input and standard error.

        Raises OSError, and ValueError if an argument contains a NUL or a surrogate.
        """
        stdin, errors = streams or (subprocess.DEVNULL, output)
        token = token_hex(16)
        outer_tokens = environment.get(MARK, "")  # A nested command is found by both tokens.
        first = subprocess.Popen(
            command,
            cwd=folder,
            env={**environment, MARK: f"{outer_tokens} {token}".strip()},
            stdin=stdin,
            stdout=output,
            stderr=errors,
            start_new_session=True,
        )
        stat = _Stat.read(proc, first.pid)
        usable_proc, since = (proc, stat.began) if stat else (None, 0)
        return cls(first, token, usable_proc, since)

    @classmethod
    def start_kept(
        cls,
        command: Sequence[str],
        *,
        folder: Path,
        environment: Mapping[str, str],
        output: int,
    ) -> ProcessGroup:
        """Start a command that is run by `sandbox.KEEP`, like `start`."""
        parent_end, child_end = socket.socketpair()
        with child_end:
            try:
                group = cls.start(
                    command,
                    folder=folder,
                    environment=environment,
                    output=output,
                    streams=(child_end.fileno(), output),
                )
            except BaseException:
                parent_end.close()
                raise
        group.report_socket = parent_end
        return group

    @property
    def exit_code(self) -> int | None:
        """The exit code of the command, negative for a signal, or None while it runs."""
        if self.report_socket is not None and self._reported_code is None:
            with suppress(OSError):  # There is no report yet, or the other end is closed.
                report = self.report_socket.recv(16, socket.MSG_DONTWAIT).strip()
                self._reported_code = int(report) if report.isdigit() else None
        return self.first.poll() if self._reported_code is None else self._reported_code

    @property
    def never_ran(self) -> bool:
        """Whether a kept command did not run, or its outer processes were ended."""
        return (
            self.report_socket is not None
            and self.exit_code is not None
            and self._reported_code is None
        )

    def running(self) -> list[str]:
        """Return the names of all processes of the command that still run.

        Without `/proc`, it returns a placeholder if the group has members.
        """
        if self.proc is None:
            return ["a process"] if self._signal_group(0) else []
        return [stat.name for stat in self._members(self.proc) if not self._is_outer(stat)]

    def _is_outer(self, stat: _Stat) -> bool:
        """Whether a process is one of the two outer processes of a kept command."""
        return self.report_socket is not None and self.first.pid in (stat.pid, stat.parent)

    async def end(self, patience_s: float = 0.0) -> list[str]:
        """End all processes that still run after `patience_s`; return the names of those.

        Sends SIGTERM, and SIGKILL after a second, or at once if this task is cancelled.
        """
        is_over = False
        try:
            remaining = await self._wait_gone(patience_s)
            if remaining:
                self._signal(signal.SIGTERM)
            is_over = not remaining or not await self._wait_gone(self.terminate_timeout_s)
            return remaining
        finally:
            if not is_over or self.report_socket is not None:
                self.kill()
            self._reap()

    async def _wait_gone(self, within_s: float) -> list[str]:
        """Wait until no process runs; return the names of those that still run at the end."""
        deadline, pause_s = time.monotonic() + within_s, 0.005
        while (remaining := self._remaining()) and time.monotonic() < deadline:
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, 0.05)
        return remaining

    def _remaining(self) -> list[str]:
        _ = self.exit_code  # A zombie would keep its group alive.
        remaining = self.running()
        if not remaining:
            self.first.poll()  # The process may have ended just now.
        return remaining

    def kill(self) -> None:
        """Kill all remaining processes and wait for them. Blocks, usually for milliseconds."""
        if self.report_socket is not None:
            self.first.kill()  # This ends all processes in its namespace.
            self.report_socket.close()
        deadline = time.monotonic() + KILL_S
        while self._remaining() and time.monotonic() < deadline:
            self._signal(signal.SIGKILL)
            time.sleep(0.002)
        with suppress(subprocess.TimeoutExpired):
            self.first.wait(max(0.0, deadline - time.monotonic()))

    def _reap(self) -> None:
        """Reap processes that became children of this process: process 1 inherits orphans."""
        if self.proc is None:
            return
        for pid, began in self.seen_processes:
            stat = _Stat.read(self.proc, pid) if pid != self.first.pid else None
            if stat is not None and stat.began == began:
                with suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)

    def _signal(self, number: int) -> None:
        """Send a signal to all processes: to the group at once, so that no fork escapes."""
        members = [] if self.proc is None else self._members(self.proc)
        if self.report_socket is not None and number != signal.SIGKILL:
            members = [stat for stat in members if not self._is_outer(stat)]
        if self.proc is None or any(stat.group == self.first.pid for stat in members):
            self._signal_group(number)
        for stat in members:
            if stat.group != self.first.pid:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(stat.pid, number)

    def _signal_group(self, number: int) -> bool:
        """Send a signal to the group; return whether it still exists.

        As long as it has a member, its number is not reused.
        """
        try:
            os.killpg(self.first.pid, number)
        except (ProcessLookupError, PermissionError):  # PermissionError: only zombies remain.
            return False
        return True

    def _members(self, proc: Path) -> list[_Stat]:
        """Return the running processes of this command that can be found."""
        stats = [stat for stat in _iter_processes(proc) if stat.began >= self.since]
        members = {stat.pid: stat for stat in stats if self._is_own(stat, proc)}
        has_grown = bool(members)
        while has_grown:
            children = [
                stat for stat in stats if stat.parent in members and stat.pid not in members
            ]
            members |= {stat.pid: stat for stat in children}
            has_grown = bool(children)
        self.seen_processes |= {(stat.pid, stat.began) for stat in members.values()}
        return [stat for stat in members.values() if not stat.is_dead]

    def _is_own(self, stat: _Stat, proc: Path) -> bool:
        """Whether a process belongs to this command by its own properties."""
        if self.first.pid in (stat.pid, stat.group, stat.session):
            return True
        if (stat.pid, stat.began) in self.seen_processes:
            return True
        try:
            return self.token.encode() in (proc / str(stat.pid) / "environ").read_bytes()
        except OSError:  # The process ended, or belongs to another user.
            return False


class _Stat(NamedTuple):
    """The parsed `/proc/PID/stat` of a process.

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
        """Read the stat of a process. Return None if it has ended."""
        try:
            # This is three times as fast as a Path.
            descriptor = os.open(f"{proc}/{pid}/stat", os.O_RDONLY)
        except OSError:
            return None
        try:
            text = os.read(descriptor, 4096)
        except ProcessLookupError:
            return None
        finally:
            os.close(descriptor)
        head, _, tail = text.rpartition(b")")  # A name may contain any character, also parentheses.
        state, parent, group, session, *fields = tail.split()
        return cls(
            pid=pid,
            name=head.partition(b"(")[2].decode(errors="replace"),
            is_dead=state in (b"Z", b"X"),
            parent=int(parent),
            group=int(group),
            session=int(session),
            began=int(fields[15]),
        )


def _iter_processes(proc: Path) -> Iterator[_Stat]:
    """Yield all processes except this one."""
    for folder in proc.iterdir():
        if folder.name.isdecimal() and int(folder.name) != os.getpid():
            stat = _Stat.read(proc, int(folder.name))
            if stat is not None:
                yield stat
