"""`ChildProcess`: a process for work that would slow down the answers of the server.

Python runs one thread at a time, so that a thread which parses files makes all others wait. The
process ends with this one, ignores interrupts of the terminal, and has a low priority.
"""

from __future__ import annotations

import io
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any, TypeAlias

from harken.errors import HarkenError
from harken.executors.process_pool import init_worker

_NICENESS = 10
_CONTEXT = multiprocessing.get_context("spawn")  # A fork would copy the locks of the threads here.
Work: TypeAlias = Callable[..., None]
"""Gets a connection to this process, and the arguments. It is a function of a module."""


class ChildFailure(HarkenError):
    """The work of a child process failed."""


class ChildProcess:
    """A running process. One thread receives its messages; any thread may send and kill."""

    def __init__(self, work: Work, *arguments: object) -> None:
        """Start the process. Raises OSError."""
        self._connection, other_end = _CONTEXT.Pipe()
        self._process = _CONTEXT.Process(target=_run, args=(other_end, work, arguments))
        try:
            self._process.start()
        finally:
            other_end.close()

    def receive(self) -> Iterator[Any]:
        """Yield the messages of the process until it ends. Raises ChildFailure."""
        failure = None
        while True:
            try:
                message = self._connection.recv()
            except (EOFError, OSError):  # The process has ended.
                break
            if isinstance(message, ChildFailure):
                failure = message
            else:
                yield message
        self._process.join()
        code = self._process.exitcode
        self._connection.close()
        if failure is None and code:
            failure = ChildFailure(f"its process ended unexpectedly (exit code {code})")
        if failure is not None:
            raise failure

    def send(self, message: object) -> None:
        """Send a message. Nothing happens if the process has ended."""
        with suppress(OSError):
            self._connection.send(message)

    def kill(self) -> None:
        """End the process."""
        with suppress(ValueError):  # It was never started, or is closed.
            self._process.terminate()


class _PlainStream(io.TextIOWrapper):
    """A stream for notes, without progress bars: they would mix with the output of the server."""

    def isatty(self) -> bool:
        return False


def _run(connection: Connection, work: Work, arguments: tuple[object, ...]) -> None:
    """Run the work in the new process."""
    init_worker()
    os.nice(_NICENESS)
    with suppress(OSError):  # The server may have no standard error.
        sys.stderr = _PlainStream(os.fdopen(os.dup(2), "wb", 0), write_through=True)
    try:
        work(connection, *arguments)
    except HarkenError as error:
        connection.send(ChildFailure(str(error)))
    except BrokenPipeError:  # The server has ended.
        pass
    finally:
        connection.close()
