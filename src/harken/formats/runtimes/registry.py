"""The kinds of files of other runtimes that can be read.

One idea: a kind is a module with a `NATIVE`, and says itself which files are of it. A new one is a
file and a line here.
"""

from __future__ import annotations

import importlib
from functools import cache

from harken.formats.runtimes.base import RuntimeFormat
from harken.formats.runtimes.joined_records import without_mark

LOOKED_AT_BYTES = 64 * 1024
"""So much of a file is looked at to say what it is."""
_MODULES = (
    "harken.formats.runtimes.codex.reader",
    "harken.formats.runtimes.pi.reader",
    "harken.formats.runtimes.gemini_cli.reader",
    "harken.formats.runtimes.copilot_cli",
    "harken.formats.runtimes.opencode.reader",
    "harken.formats.runtimes.atif",
    "harken.formats.runtimes.claude_code.reader",  # last: it takes lines of JSON for its own
)


@cache
def natives() -> tuple[RuntimeFormat, ...]:
    """Return all kinds, in the order in which they are asked."""
    found: list[RuntimeFormat] = [importlib.import_module(name).NATIVE for name in _MODULES]
    return tuple(found)


def native_of(path: str, beginning: bytes) -> RuntimeFormat | None:
    """Return the kind of a file, by its path and its beginning; None: nobody here reads it."""
    text = without_mark(beginning)
    return next((one for one in natives() if one.looks(path, text)), None)


def native_for(runtime: str) -> RuntimeFormat | None:
    """Return the kind of files that a runtime writes now; None: nobody here knows it."""
    return next((one for one in natives() if one.runtime == runtime), None)
