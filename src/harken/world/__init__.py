"""The World and its tools: everything outside the agents that they can act on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harken.core.lazy import lazy_exports

if TYPE_CHECKING:
    from harken.world.local import local_tools, local_triggers
    from harken.world.memory.notes import NotesMemory
    from harken.world.memory.tool import memory_tool
    from harken.world.permissions.rules import PermissionRules
    from harken.world.result import ActionBlocked, InvalidArguments
    from harken.world.triggers.tools import trigger_tools
    from harken.world.user import ApprovalDecision, ApprovalRequest, UserQuestion, UserUnavailable
    from harken.world.world import World
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "local_tools": "harken.world.local",
            "local_triggers": "harken.world.local",
            "memory_tool": "harken.world.memory.tool",
            "trigger_tools": "harken.world.triggers.tools",
            "ActionBlocked": "harken.world.result",
            "ApprovalDecision": "harken.world.user",
            "ApprovalRequest": "harken.world.user",
            "InvalidArguments": "harken.world.result",
            "NotesMemory": "harken.world.memory.notes",
            "PermissionRules": "harken.world.permissions.rules",
            "UserQuestion": "harken.world.user",
            "UserUnavailable": "harken.world.user",
            "World": "harken.world.world",
        },
    )

__all__ = [
    "ActionBlocked",
    "ApprovalDecision",
    "ApprovalRequest",
    "InvalidArguments",
    "NotesMemory",
    "PermissionRules",
    "UserQuestion",
    "UserUnavailable",
    "World",
    "local_tools",
    "local_triggers",
    "memory_tool",
    "trigger_tools",
]
