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
    from harken.agents.templates import Templates
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
    from harken.llm.anthropic import AnthropicModel
    from harken.llm.base import Model, Request
    from harken.llm.openai import OpenAIModel
    from harken.llm.providers import Provider
    from harken.llm.remote import Endpoint
    from harken.llm.replay import ReplayModel
    from harken.llm.resolve import resolve_model
    from harken.llm.scripted import FunctionModel, ScriptedModel
    from harken.session.older import MessageString, SessionLogger
    from harken.session.session import Session, SessionOptions
    from harken.views.viewer import SessionViewer
    from harken.world.local import local_tools, local_world
    from harken.world.permissions.permissions import Permissions
    from harken.world.permissions.rules import Rules
    from harken.world.result import Failed
    from harken.world.tool import Caller, Tool, tool
    from harken.world.user import Asked, Leave, NobodyThere, User, Wanted
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
    "AnthropicModel": "harken.llm.anthropic",
    "Asked": "harken.world.user",
    "Budget": "harken.agents.budget",
    "BudgetExceeded": "harken.errors",
    "CallDelta": "harken.core.chunks",
    "Caller": "harken.world.tool",
    "Chunk": "harken.core.chunks",
    "Comment": "harken.agents.hook",
    "ConfigError": "harken.errors",
    "Deny": "harken.agents.hook",
    "DumbAgent": "harken.agents.dumb",
    "Endpoint": "harken.llm.remote",
    "EventRefused": "harken.errors",
    "Failed": "harken.world.result",
    "Finish": "harken.core.chunks",
    "FunctionModel": "harken.llm.scripted",
    "HarkenError": "harken.errors",
    "Hook": "harken.agents.hook",
    "Leave": "harken.world.user",
    "LogDamaged": "harken.errors",
    "LogError": "harken.errors",
    "LogLocked": "harken.errors",
    "LogWriteError": "harken.errors",
    "LoggedString": "harken.core.text",
    "Message": "harken.core.messages",
    "MessageString": "harken.session.older",
    "Model": "harken.llm.base",
    "ModelError": "harken.errors",
    "NobodyThere": "harken.world.user",
    "Ok": "harken.agents.hook",
    "OpenAIModel": "harken.llm.openai",
    "Permissions": "harken.world.permissions.permissions",
    "Point": "harken.agents.hook",
    "Provider": "harken.llm.providers",
    "Question": "harken.agents.hook",
    "ReplayModel": "harken.llm.replay",
    "Request": "harken.llm.base",
    "Rewrite": "harken.agents.hook",
    "Rules": "harken.world.permissions.rules",
    "Runtime": "harken.agents.runtime",
    "ScriptedModel": "harken.llm.scripted",
    "Session": "harken.session.session",
    "SessionLogger": "harken.session.older",
    "SessionOptions": "harken.session.session",
    "SessionViewer": "harken.views.viewer",
    "SmartAgent": "harken.agents.smart",
    "Templates": "harken.agents.templates",
    "TextDelta": "harken.core.chunks",
    "ThinkingDelta": "harken.core.chunks",
    "Tool": "harken.world.tool",
    "UnknownName": "harken.errors",
    "User": "harken.world.user",
    "Verdict": "harken.agents.hook",
    "Wanted": "harken.world.user",
    "World": "harken.world.world",
    "evict": "harken.agents.base",
    "load_session": "harken.agents.load",
    "local_tools": "harken.world.local",
    "local_world": "harken.world.local",
    "register": "harken.agents.base",
    "resolve_model": "harken.llm.resolve",
    "revive": "harken.agents.base",
    "tool": "harken.world.tool",
}

__all__ = [
    "Agent",
    "AgentBusy",
    "AnthropicModel",
    "Asked",
    "Budget",
    "BudgetExceeded",
    "CallDelta",
    "Caller",
    "Chunk",
    "Comment",
    "ConfigError",
    "Deny",
    "DumbAgent",
    "Endpoint",
    "EventRefused",
    "Failed",
    "Finish",
    "FunctionModel",
    "HarkenError",
    "Hook",
    "Leave",
    "LogDamaged",
    "LogError",
    "LogLocked",
    "LogWriteError",
    "LoggedString",
    "Message",
    "MessageString",
    "Model",
    "ModelError",
    "NobodyThere",
    "Ok",
    "OpenAIModel",
    "Permissions",
    "Point",
    "Provider",
    "Question",
    "ReplayModel",
    "Request",
    "Rewrite",
    "Rules",
    "Runtime",
    "ScriptedModel",
    "Session",
    "SessionLogger",
    "SessionOptions",
    "SessionViewer",
    "SmartAgent",
    "Templates",
    "TextDelta",
    "ThinkingDelta",
    "Tool",
    "UnknownName",
    "User",
    "Verdict",
    "Wanted",
    "World",
    "evict",
    "load_session",
    "local_tools",
    "local_world",
    "register",
    "resolve_model",
    "revive",
    "tool",
]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
