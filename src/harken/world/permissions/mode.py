"""`Mode`: the actions that permissions allow without a question."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from harken.core.event_types.spec import PermissionMode

Mode: TypeAlias = PermissionMode
"""`ask`: reading is free, all else is asked; `edits`: editing files below the folder is free,
too; `all`: no call is asked; `plan`: only reading is allowed. An edit of a sensitive path, which
decides which programs run later (`.git`, `.bashrc`, ...), is asked in all modes."""
MODES_BY_RESTRICTIVENESS: Sequence[Mode] = ("plan", "ask", "edits", "all")


def narrower(mode: Mode, other: Mode) -> Mode:
    """Return the more restrictive of two modes.

    >>> narrower("all", "ask")
    'ask'
    """
    return min(mode, other, key=MODES_BY_RESTRICTIVENESS.index)
