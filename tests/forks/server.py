"""A server of processes: it has imported what they need, and forks for each request.

    python -m tests.forks.server SOCKET [MODULE]

A forked process is `python -m MODULE`, or `harken`. It has the arguments, folder,
environment, umask and standard streams of the request, and otherwise the state of an interpreter
that has just imported the module, or all commands. It ends as any program does: `atexit`, threads
and buffers included. The server ends when its standard input is closed, as when the tests have ended.
"""

from __future__ import annotations

import gc
import importlib.util
import io
import marshal
import os
import runpy
import select
import signal
import socket
import sys
import time
from collections.abc import Mapping, Sequence

from harken.cli.command_tree import COMMANDS, CommandEntry
from harken.cli.main import main
from tests.forks.request import BUFFER_BYTES


def import_commands(entries: Mapping[str, CommandEntry]) -> None:
    """Import the module of each command."""
    for entry in entries.values():
        if entry.target:
            importlib.import_module(entry.target.partition(":")[0])
        import_commands(entry.subcommands)


def serve(path: str) -> None:
    """Fork for each request. Return only in the process of a request."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(path)
    listener.listen(64)
    signal.signal(signal.SIGINT, lambda *_: None)  # Ctrl-C is for the forked processes.
    os.write(1, b"ready\n")
    waiters: set[int] = set()
    while True:
        readable, _, _ = select.select([0, listener.fileno()], [], [])
        if 0 in readable:
            os._exit(0)
        connection, _ = listener.accept()
        waiter = os.fork()
        if waiter == 0:
            listener.close()
            return fork_process(connection)
        connection.close()
        waiters = {pid for pid in {*waiters, waiter} if os.waitpid(pid, os.WNOHANG)[0] == 0}


def fork_process(connection: socket.socket) -> None:
    """Fork the process of a request; send its id and its status. Return only in that process."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
    request, streams, _, _ = socket.recv_fds(connection, BUFFER_BYTES, 3)
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        connection.close()
        set_streams(streams)
        arguments, folder, environ, umask = marshal.loads(request)
        os.umask(umask)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environ)
        time.tzset()
        sys.argv[1:] = arguments
        return
    for stream in streams:
        os.close(stream)
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # A signal for the group is for the process only.
    connection.send(b"%d" % pid)
    _, status = os.waitpid(pid, 0)
    connection.send(b"%d" % os.waitstatus_to_exitcode(status))
    os._exit(0)


def set_streams(descriptors: Sequence[int]) -> None:
    """Make these the standard streams, as Python does when it starts."""
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    for name, number, mode, errors in (
        ("stdin", 0, "rb", "strict"),
        ("stdout", 1, "wb", "strict"),
        ("stderr", 2, "wb", "backslashreplace"),
    ):
        is_line_buffered = number == 2 or (number == 1 and os.isatty(1))
        stream = io.TextIOWrapper(
            open(number, mode, closefd=False),  # noqa: SIM115 - open until the end
            "utf-8",
            errors,
            line_buffering=is_line_buffered,
        )
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


if __name__ == "__main__":
    path, *modules = sys.argv[1:]
    if modules:
        importlib.import_module(modules[0])
    else:
        import_commands(COMMANDS)
        del sys.path[0]  # `harken` does not look for modules in its folder.
        # A process that `multiprocessing` starts imports the main module, which is that of harken.
        sys.modules["__main__"].__spec__ = importlib.util.find_spec("harken.__main__")
        sys.argv[0] = os.path.join(os.path.dirname(sys.executable), "harken")  # noqa: PTH118, PTH120
    gc.collect()
    gc.freeze()
    serve(path)
    if modules:
        del sys.modules[modules[0]]
        runpy.run_module(modules[0], run_name="__main__", alter_sys=True)
    else:
        main()
