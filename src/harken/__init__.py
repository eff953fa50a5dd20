"""Harken runs trees of LLM agents and keeps everything they heard, said and understood.

    from harken import Runtime, ScriptedModel, SessionViewer, load_session

Importing it opens no file, reads no environment and prints nothing. A public name is imported
when it is first used, so that a program pays for what it uses and `harken --help` for nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harken.agents.base import Agent, evict, register, revive
    from harken.agents.budget import Budget
    from harken.agents.dumb import DumbAgent
    from harken.agents.hook import Comment, Deny, Hook, Ok, Point, Question, Rewrite, Verdict
    from harken.agents.load import load_session
    from harken.agents.runtime import Runtime
    from harken.agents.smart import SmartAgent
    from harken.core.chunks import CallDelta, Chunk, Finish, TextDelta, ThinkingDelta
    from harken.core.messages import Message
    from harken.core.text import LoggedString
    from harken.errors import (
        AgentBusy,
        BudgetExceeded,
        ConfigError,
        EventRefused,
        HarkenError,
        LogDamaged,
        LogError,
        LogLocked,
        LogWriteError,
        ModelError,
        UnknownName,
    )
    from harken.llm.base import Model, Request
    from harken.llm.replay import ReplayModel
    from harken.llm.scripted import FunctionModel, ScriptedModel
    from harken.session.older import MessageString, SessionLogger
    from harken.session.session import Session, SessionOptions
    from harken.views.viewer import SessionViewer
    from harken.world.tool import Caller, Tool, tool
    from harken.world.world import World
else:

    def __getattr__(name: str) -> object:
        """Import a public name at its first use."""
        if name not in _HOMES:
            raise AttributeError(f"module 'harken' has no attribute {name!r}")
        value = getattr(importlib.import_module(_HOMES[name]), name)
        globals()[name] = value
        return value


__version__ = "0.1.0"

_HOMES = {
    "Agent": "harken.agents.base",
    "AgentBusy": "harken.errors",
    "Budget": "harken.agents.budget",
    "BudgetExceeded": "harken.errors",
    "CallDelta": "harken.core.chunks",
    "Caller": "harken.world.tool",
    "Chunk": "harken.core.chunks",
    "Comment": "harken.agents.hook",
    "ConfigError": "harken.errors",
    "Deny": "harken.agents.hook",
    "DumbAgent": "harken.agents.dumb",
    "EventRefused": "harken.errors",
    "Finish": "harken.core.chunks",
    "FunctionModel": "harken.llm.scripted",
    "HarkenError": "harken.errors",
    "Hook": "harken.agents.hook",
    "LogDamaged": "harken.errors",
    "LogError": "harken.errors",
    "LogLocked": "harken.errors",
    "LogWriteError": "harken.errors",
    "LoggedString": "harken.core.text",
    "Message": "harken.core.messages",
    "MessageString": "harken.session.older",
    "Model": "harken.llm.base",
    "ModelError": "harken.errors",
    "Ok": "harken.agents.hook",
    "Point": "harken.agents.hook",
    "Question": "harken.agents.hook",
    "ReplayModel": "harken.llm.replay",
    "Request": "harken.llm.base",
    "Rewrite": "harken.agents.hook",
    "Runtime": "harken.agents.runtime",
    "ScriptedModel": "harken.llm.scripted",
    "Session": "harken.session.session",
    "SessionLogger": "harken.session.older",
    "SessionOptions": "harken.session.session",
    "SessionViewer": "harken.views.viewer",
    "SmartAgent": "harken.agents.smart",
    "TextDelta": "harken.core.chunks",
    "ThinkingDelta": "harken.core.chunks",
    "Tool": "harken.world.tool",
    "UnknownName": "harken.errors",
    "Verdict": "harken.agents.hook",
    "World": "harken.world.world",
    "evict": "harken.agents.base",
    "load_session": "harken.agents.load",
    "register": "harken.agents.base",
    "revive": "harken.agents.base",
    "tool": "harken.world.tool",
}

__all__ = [
    "Agent",
    "AgentBusy",
    "Budget",
    "BudgetExceeded",
    "CallDelta",
    "Caller",
    "Chunk",
    "Comment",
    "ConfigError",
    "Deny",
    "DumbAgent",
    "EventRefused",
    "Finish",
    "FunctionModel",
    "HarkenError",
    "Hook",
    "LogDamaged",
    "LogError",
    "LogLocked",
    "LogWriteError",
    "LoggedString",
    "Message",
    "MessageString",
    "Model",
    "ModelError",
    "Ok",
    "Point",
    "Question",
    "ReplayModel",
    "Request",
    "Rewrite",
    "Runtime",
    "ScriptedModel",
    "Session",
    "SessionLogger",
    "SessionOptions",
    "SessionViewer",
    "SmartAgent",
    "TextDelta",
    "ThinkingDelta",
    "Tool",
    "UnknownName",
    "Verdict",
    "World",
    "evict",
    "load_session",
    "register",
    "revive",
    "tool",
]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
