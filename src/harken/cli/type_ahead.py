"""Type-ahead: text that waits in the terminal, typed before a prompt or a question was shown.

It must not answer a question. The terminal hands out whole lines only; it is switched to single
characters to read it, so that a line that is half typed is found, too.
"""

from __future__ import annotations

import os
import select
import sys

try:
    import termios
    import tty
except ImportError:  # no POSIX terminals here
    termios = None  # type: ignore[assignment]


def take_type_ahead(descriptor: int | None = None) -> str:
    """Read and return what was typed into a terminal until now, of standard input by default.

    Return an empty text if the descriptor is not a terminal. Never blocks.
    """
    if descriptor is None:
        descriptor = sys.stdin.fileno() if sys.stdin.isatty() else -1
    if termios is None or not os.isatty(descriptor):
        return ""
    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor, termios.TCSANOW)
        return read_waiting(descriptor).replace("\r", "\n")
    finally:
        termios.tcsetattr(descriptor, termios.TCSANOW, before)


def read_waiting(descriptor: int) -> str:
    """Read what a terminal without line mode has, without blocking."""
    data = b""
    while select.select([descriptor], [], [], 0)[0]:
        read = os.read(descriptor, 65_536)
        if not read:
            break
        data += read
    return data.decode("utf-8", "replace")
