"""Permissions: which actions need the user's leave, and which are not done at all.

A mode says what holds in general, rules say what holds for some tools and agents. A refusal is
a result that the agent reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from harken.world.tool import Caller, Tool

Mode: TypeAlias = Literal["ask", "edits", "all", "plan"]
"""`ask`: reading is free, all else is asked; `edits`: editing files below the folder is free,
too; `all`: nothing is asked; `plan`: nothing but reading is done."""


@dataclass(slots=True)
class Permissions:
    """What agents may do without being asked; shared by all agents of a run."""

    mode: Mode = "ask"

    async def check(self, tool: Tool, arguments: Mapping[str, Any], caller: Caller) -> None:
        """Return where the call may run. Raises Failed, with the reason, where it may not."""
