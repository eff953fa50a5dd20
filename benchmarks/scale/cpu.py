"""CPU seconds of this process, of the programs that it runs, and of servers.

A clock on the wall shows what other users of a machine do; the CPU time shows it less.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from benchmarks.measure import median


class Cost(msgspec.Struct, frozen=True):
    """The milliseconds of one operation."""

    cpu_ms: float
    """Of the client and of the servers."""
    wall_ms: float
    server_ms: float = 0.0
    """The CPU time of the servers. It is counted in steps of 10 ms, and shared by all runs."""


class CpuClock:
    """Reads the CPU time of clients and of servers."""

    def __init__(self, servers: Sequence[int] = ()) -> None:
        """servers: the ids of processes, whose children count, too."""
        self._servers = servers

    def measure(self, runs: Sequence[Callable[[], object]]) -> Cost:
        """Run each, and return the medians; the time of the servers is a mean."""
        clients: list[float] = []
        walls: list[float] = []
        before = self._server_s()
        for run in runs:
            start, start_s = _client_s(), time.perf_counter()
            run()
            walls.append(time.perf_counter() - start_s)
            clients.append(_client_s() - start)
        server_s = (self._server_s() - before) / len(runs)
        client_s = median(clients)
        return Cost(1e3 * (client_s + server_s), 1e3 * median(walls), 1e3 * server_s)

    def _server_s(self) -> float:
        return sum(map(_process_s, self._servers))


def _client_s() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def _process_s(pid: int) -> float:
    """Return the CPU seconds of a process, of its children, and of those that ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    own = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return own + sum(map(_process_s, map(int, children)))
