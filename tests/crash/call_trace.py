"""Record the file operations that code asks of the system, in order, without replacing them.

The profiler of Python reports each call of a C function before it is made. So a test sees the real
operations of real code, including those that go through no `Disk`, and a dropped one is missing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

_OPERATIONS = {
    "write": "write",
    "writev": "write",
    "fdatasync": "sync",
    "fsync": "sync",
    "rename": "rename",
    "replace": "rename",
    "link": "link",
    "unlink": "unlink",
    "remove": "unlink",
    "ftruncate": "truncate",
}
_FILE_TYPES = ("BufferedWriter", "FileIO")
_PID_FILE_FUNCTIONS = ("_write_pid", "close")
"""Functions of a log that write or remove its pid file, which need not survive anything."""


class PowerCut(BaseException):
    """The machine is off. No code catches this."""


def _is_temporary(path: object) -> bool:
    """Whether a path is that of a file that no reader looks for."""
    is_part = isinstance(path, Path) and path.suffix in (".part", ".partial")
    return is_part or (isinstance(path, Path) and path.name.startswith("."))


@contextmanager
def record_calls(on_call: Callable[[str], None] | None = None) -> Iterator[list[str]]:
    """Record the file operations of this thread. `sync_folder` is the sync of a folder,
    adjacent writes are one, and the removal of a temporary file is none.

    `on_call` is called before each operation and may raise PowerCut.
    """
    calls: list[str] = []

    def profile(frame: FrameType, event: str, function: Any) -> None:
        if event != "c_call":
            return
        name = function.__name__
        owner = getattr(function, "__self__", None)
        is_posix = getattr(owner, "__name__", "") in ("posix", "nt")
        if name not in _OPERATIONS or not (is_posix or type(owner).__name__ in _FILE_TYPES):
            return
        caller = frame.f_back if "pathlib" in frame.f_code.co_filename else frame
        if caller is not None and caller.f_code.co_name in _PID_FILE_FUNCTIONS:
            return
        operation = _OPERATIONS[name]
        if operation == "unlink" and _is_temporary(frame.f_locals.get("self")):
            return
        if operation == "sync" and "folder" in frame.f_code.co_name:
            operation = "sync_folder"
        if on_call is not None:
            on_call(operation)
        if operation != "write" or calls[-1:] != ["write"]:
            calls.append(operation)

    previous = sys.getprofile()
    sys.setprofile(profile)
    try:
        yield calls
    finally:
        sys.setprofile(previous)
