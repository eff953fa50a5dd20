"""The registry of session file formats of other runtimes.

A format is a module with a `NATIVE`, which recognizes its own files. A new format is a file and a
line here.
"""

from __future__ import annotations

import importlib
from functools import cache

from harken.formats.runtimes.base import RuntimeFormat
from harken.formats.runtimes.joined_records import strip_byte_order_mark

CHECKED_BYTES = 64 * 1024
"""The number of first bytes of a file by which its format is recognized."""
_MODULES = (
    "harken.formats.runtimes.codex.reader",
    "harken.formats.runtimes.pi.reader",
    "harken.formats.runtimes.gemini_cli.reader",
    "harken.formats.runtimes.copilot_cli.reader",
    "harken.formats.runtimes.opencode.reader",
    "harken.formats.runtimes.research.atif",
    "harken.formats.runtimes.research.inspect_ai.reader",
    "harken.formats.runtimes.research.swe_agent",
    "harken.formats.runtimes.research.mini_swe_agent",
    "harken.formats.runtimes.research.tau",
    "harken.formats.runtimes.research.chatdev",
    "harken.formats.runtimes.research.who_and_when",
    "harken.formats.runtimes.claude_code.reader",  # Last, because it matches many JSON lines.
)


@cache
def list_runtime_formats() -> tuple[RuntimeFormat, ...]:
    """Return all formats, in the order in which they are checked."""
    formats: list[RuntimeFormat] = [importlib.import_module(name).NATIVE for name in _MODULES]
    return tuple(formats)


def detect_runtime_format(path: str, beginning: bytes) -> RuntimeFormat | None:
    """Return the format of a file, by its path and its beginning. Return None if it is unknown."""
    text = strip_byte_order_mark(beginning)
    return next(
        (format_ for format_ in list_runtime_formats() if format_.is_session_file(path, text)), None
    )


def find_runtime_format(runtime: str) -> RuntimeFormat | None:
    """Return the format that a runtime writes now. Return None if the runtime is unknown."""
    return next((format_ for format_ in list_runtime_formats() if format_.runtime == runtime), None)
