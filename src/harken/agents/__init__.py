"""Agents: the loop, the tree, its actions, and the hooks above it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harken.core.lazy import lazy_exports

if TYPE_CHECKING:
    from harken.agents.agent import load_agent, log_birth, unload_agent
    from harken.agents.checkpointer import Checkpointer
    from harken.agents.checkpoints import checkpoint_agent
    from harken.agents.discussion import Discussion, DiscussionReply, DiscussionVerdict
    from harken.agents.open_calls import has_open_calls
    from harken.agents.runtime import (
        ActionPolicy,
        AgentLibrary,
        ContextLimits,
        ModelSettings,
        Observers,
    )
    from harken.agents.session_agent import SessionAgent
    from harken.agents.structure import AgentReply
    from harken.agents.templates.skills import skill_tool
    from harken.agents.tree.hook_file import HookFiles
    from harken.agents.turn.compaction import CompactionResult
    from harken.core.event_types.spec import HookPoint
    from harken.core.verdict import Verdict
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "checkpoint_agent": "harken.agents.checkpoints",
            "has_open_calls": "harken.agents.open_calls",
            "load_agent": "harken.agents.agent",
            "log_birth": "harken.agents.agent",
            "skill_tool": "harken.agents.templates.skills",
            "unload_agent": "harken.agents.agent",
            "ActionPolicy": "harken.agents.runtime",
            "AgentLibrary": "harken.agents.runtime",
            "AgentReply": "harken.agents.structure",
            "ContextLimits": "harken.agents.runtime",
            "Discussion": "harken.agents.discussion",
            "DiscussionReply": "harken.agents.discussion",
            "DiscussionVerdict": "harken.agents.discussion",
            "ModelSettings": "harken.agents.runtime",
            "Observers": "harken.agents.runtime",
            "Checkpointer": "harken.agents.checkpointer",
            "CompactionResult": "harken.agents.turn.compaction",
            "HookFiles": "harken.agents.tree.hook_file",
            "SessionAgent": "harken.agents.session_agent",
            "HookPoint": "harken.core.events",
            "Verdict": "harken.core.verdict",
        },
    )

__all__ = [
    "ActionPolicy",
    "AgentLibrary",
    "AgentReply",
    "Checkpointer",
    "CompactionResult",
    "ContextLimits",
    "Discussion",
    "DiscussionReply",
    "DiscussionVerdict",
    "HookFiles",
    "HookPoint",
    "ModelSettings",
    "Observers",
    "SessionAgent",
    "Verdict",
    "checkpoint_agent",
    "has_open_calls",
    "load_agent",
    "log_birth",
    "skill_tool",
    "unload_agent",
]
