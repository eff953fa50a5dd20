"""Run a client: pass on its bytes and its signals, and return its exit code.

The caller should not notice a difference to running the client directly. The client inherits
standard input and standard error, its output is written before it is parsed, and each signal
reaches it once. Signals that this process ignores are ignored by the client, too.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from select import select
from threading import current_thread, main_thread
from types import FrameType

import msgspec

from harken.capture.live.display import LineSplitter, OutputFormatter

_READ_BYTES = 1 << 16
_DRAIN_S = 0.2
"""How long to wait for more output after the client has ended.

Other processes may still hold its output open.
"""
_TERMINAL_SIGNALS = frozenset({signal.SIGINT, signal.SIGQUIT})
"""Signals that a terminal sends to all processes of its foreground group."""
_FORWARDED_SIGNALS = (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)


class ClientExit(msgspec.Struct, frozen=True):
    """The end of a client."""

    code: int
    """Its exit code: 128 plus the signal number if a signal ended it."""
    output_error: str = ""
    """Why part of its output was not written.

    Empty if it was, or if the reader closed the output.
    """


def run_client(
    command: Sequence[str],
    environ: Mapping[str, str],
    formatter: OutputFormatter | None,
    hear: Callable[[bytes], None],
    out: int = 1,
) -> ClientExit:
    """Run a client to its end.

    shown: formats what is written to the file descriptor `out`. If it is None, the client writes
    there itself. hear: called with each line of its output, without the line end. Raises OSError if
    the client cannot be run.
    """
    unshown = ""
    with _forward_signals() as passes:
        pipe = None if formatter is None else subprocess.PIPE
        process = subprocess.Popen(command, env=dict(environ), stdout=pipe)
        passes(process)
        try:
            if formatter is not None and process.stdout is not None:
                with process.stdout as stream:
                    unshown = _pump(process, stream.fileno(), formatter, hear, out)
        finally:
            code = process.wait()
    return ClientExit(code if code >= 0 else 128 - code, unshown)


def _pump(
    process: subprocess.Popen[bytes],
    source: int,
    formatter: OutputFormatter,
    hear: Callable[[bytes], None],
    out: int,
) -> str:
    """Copy the output until it ends or cannot be written. Return the write error.

    After a write error the client notices it at its own pipe, which is no longer read.
    """
    splitter, unshown = LineSplitter(), ""
    try:
        while data := _read_next(process, source):
            try:
                _write(out, formatter.feed(data))
            finally:
                for line in splitter.feed(data):
                    hear(line)
        _write(out, formatter.end())
    except BrokenPipeError:
        pass  # The reader has closed our output.
    except OSError as error:
        unshown = error.strerror or str(error)
    if last_line := splitter.end():
        hear(last_line)
    return unshown


def _read_next(process: subprocess.Popen[bytes], source: int) -> bytes:
    """Return the next bytes. Return empty bytes if the client has ended."""
    while not select([source], [], [], _DRAIN_S)[0]:
        if process.poll() is not None:
            return b""
    return os.read(source, _READ_BYTES)


def _write(out: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(out, view) :]
        except BlockingIOError:  # The client shares the descriptor and made it non-blocking.
            select([], [out], [])


@contextmanager
def _forward_signals() -> Iterator[Callable[[subprocess.Popen[bytes]], None]]:
    """Pass on signals to the given process until the end of the block."""
    if current_thread() is not main_thread():
        yield lambda _: None
        return
    running: list[subprocess.Popen[bytes]] = []
    early: list[int] = []

    def pass_on(number: int, _frame: FrameType | None) -> None:
        if not running:
            early.append(number)
        elif number not in _TERMINAL_SIGNALS or not _has_foreground_terminal():
            running[0].send_signal(number)

    def begin(process: subprocess.Popen[bytes]) -> None:
        running.append(process)
        for number in early:
            process.send_signal(number)

    handled = [
        number for number in _FORWARDED_SIGNALS if signal.getsignal(number) is not signal.SIG_IGN
    ]
    old_handlers = {number: signal.signal(number, pass_on) for number in handled}
    try:
        yield begin
    finally:
        for number, handler in old_handlers.items():
            signal.signal(number, handler)


def _has_foreground_terminal() -> bool:
    """Whether signals typed at the terminal reach this process, and so the client as well."""
    for fd in (0, 1, 2):
        try:
            if os.tcgetpgrp(fd) == os.getpgrp():
                return True
        except OSError:
            continue
    return False
