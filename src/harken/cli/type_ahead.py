"""Type-ahead: text that waits in the terminal and was typed before a question was shown.

A question must not be answered by it. The terminal hands out whole lines only; for a moment it is
switched to single characters, so that a line that is half typed is found, too.
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
    data, before = b"", termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor, termios.TCSANOW)
        while select.select([descriptor], [], [], 0)[0]:
            read = os.read(descriptor, 65_536)
            if not read:
                break
            data += read
    finally:
        termios.tcsetattr(descriptor, termios.TCSANOW, before)
    return data.decode("utf-8", "replace").replace("\r", "\n")
