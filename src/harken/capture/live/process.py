"""Running a client: its bytes are passed on, its signals are passed on, its exit code is returned.

One idea: whoever started us should not be able to tell us from the client. So its input and its
errors are its own, its output is written on before anybody looks at it, and a signal that is meant
for it reaches it, once. What we were told to ignore, it ignores, too.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from select import select
from threading import current_thread, main_thread
from types import FrameType

from harken.capture.live.display import LineSplitter, OutputFormatter

_AT_ONCE_BYTES = 1 << 16
_AFTER_S = 0.2
"""So long is waited for more after the client has ended: others may still hold its output open."""
_TYPED = frozenset({signal.SIGINT, signal.SIGQUIT})
"""What a terminal sends to all who run in it."""
_PASSED_ON = (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)


@dataclass(frozen=True, slots=True)
class ClientExit:
    """How a client has ended."""

    code: int
    """Its exit code, 128 and more where a signal ended it."""
    unshown: str = ""
    """Why not all of its output was written; empty: it was, or nobody wanted to read it."""


def run_client(
    command: Sequence[str],
    environ: Mapping[str, str],
    shown: OutputFormatter | None,
    hear: Callable[[bytes], None],
    out: int = 1,
) -> ClientExit:
    """Run a client to its end.

    shown: makes what is written to the file descriptor `out`; None: the client writes there itself.
    hear: is told each line of its output, without its end. Raises OSError where it cannot be run.
    """
    unshown = ""
    with _signals() as passes:
        pipe = None if shown is None else subprocess.PIPE
        process = subprocess.Popen(command, env=dict(environ), stdout=pipe)
        passes(process)
        try:
            if shown is not None and process.stdout is not None:
                with process.stdout as stream:
                    unshown = _pump(process, stream.fileno(), shown, hear, out)
        finally:
            code = process.wait()
    return ClientExit(code if code >= 0 else 128 - code, unshown)


def _pump(
    process: subprocess.Popen[bytes],
    source: int,
    shown: OutputFormatter,
    hear: Callable[[bytes], None],
    out: int,
) -> str:
    """Pass on what comes, until there is no more, or it cannot be written; return why not.

    Where it cannot, the client learns it from its own pipe, which nobody reads then.
    """
    cut, unshown = LineSplitter(), ""
    try:
        while data := _next(process, source):
            try:
                _write(out, shown.take(data))
            finally:
                for line in cut.take(data):
                    hear(line)
        _write(out, shown.end())
    except BrokenPipeError:
        pass  # who reads us left, and wants to see no more
    except OSError as error:
        unshown = error.strerror or str(error)
    if rest := cut.end():
        hear(rest)
    return unshown


def _next(process: subprocess.Popen[bytes], source: int) -> bytes:
    """Return what comes next; nothing: it has ended."""
    while not select([source], [], [], _AFTER_S)[0]:
        if process.poll() is not None:
            return b""
    return os.read(source, _AT_ONCE_BYTES)


def _write(out: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(out, view) :]
        except BlockingIOError:  # the client shares it, and has told it not to wait
            select([], [out], [])


@contextmanager
def _signals() -> Iterator[Callable[[subprocess.Popen[bytes]], None]]:
    """Pass on signals to the process that is given, until it has ended."""
    if current_thread() is not main_thread():
        yield lambda _: None
        return
    running: list[subprocess.Popen[bytes]] = []
    early: list[int] = []

    def pass_on(number: int, _frame: FrameType | None) -> None:
        if not running:
            early.append(number)
        elif number not in _TYPED or not _is_typed_here():
            running[0].send_signal(number)

    def begin(process: subprocess.Popen[bytes]) -> None:
        running.append(process)
        for number in early:
            process.send_signal(number)

    heeded = [n for n in _PASSED_ON if signal.getsignal(n) is not signal.SIG_IGN]
    before = {number: signal.signal(number, pass_on) for number in heeded}
    try:
        yield begin
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _is_typed_here() -> bool:
    """Whether what is typed reaches us from a terminal: then it has reached the client, too."""
    for fd in (0, 1, 2):
        try:
            if os.tcgetpgrp(fd) == os.getpgrp():
                return True
        except OSError:
            continue
    return False
