"""Harken runs trees of LLM agents and keeps everything they heard, said and understood.

    from harken import Runtime, ScriptedModel, SessionViewer, load_session

Importing it opens no file, reads no environment and prints nothing. A public name is imported
when it is first used, so that a program pays for what it uses and `harken --help` for nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harken.agents.base import Agent, evict, register
    from harken.agents.budget import Budget
    from harken.agents.dumb import DumbAgent
    from harken.agents.hook import Comment, Deny, Hook, Ok, Question, Rewrite
    from harken.agents.load import load_session
    from harken.agents.runtime import Runtime
    from harken.agents.smart import SmartAgent
    from harken.core.text import LoggedString
    from harken.errors import HarkenError
    from harken.llm.replay import ReplayModel
    from harken.llm.scripted import FunctionModel, ScriptedModel
    from harken.session.older import MessageString, SessionLogger
    from harken.session.session import Session, SessionOptions
    from harken.views.viewer import SessionViewer
    from harken.world.tool import Tool, tool
    from harken.world.world import World

__version__ = "0.1.0"

_HOMES = {
    "Agent": "harken.agents.base",
    "Budget": "harken.agents.budget",
    "Comment": "harken.agents.hook",
    "Deny": "harken.agents.hook",
    "DumbAgent": "harken.agents.dumb",
    "FunctionModel": "harken.llm.scripted",
    "HarkenError": "harken.errors",
    "Hook": "harken.agents.hook",
    "LoggedString": "harken.core.text",
    "MessageString": "harken.session.older",
    "Ok": "harken.agents.hook",
    "Question": "harken.agents.hook",
    "ReplayModel": "harken.llm.replay",
    "Rewrite": "harken.agents.hook",
    "Runtime": "harken.agents.runtime",
    "ScriptedModel": "harken.llm.scripted",
    "Session": "harken.session.session",
    "SessionLogger": "harken.session.older",
    "SessionOptions": "harken.session.session",
    "SessionViewer": "harken.views.viewer",
    "SmartAgent": "harken.agents.smart",
    "Tool": "harken.world.tool",
    "World": "harken.world.world",
    "evict": "harken.agents.base",
    "load_session": "harken.agents.load",
    "register": "harken.agents.base",
    "tool": "harken.world.tool",
}

__all__ = [
    "Agent",
    "Budget",
    "Comment",
    "Deny",
    "DumbAgent",
    "FunctionModel",
    "HarkenError",
    "Hook",
    "LoggedString",
    "MessageString",
    "Ok",
    "Question",
    "ReplayModel",
    "Rewrite",
    "Runtime",
    "ScriptedModel",
    "Session",
    "SessionLogger",
    "SessionOptions",
    "SessionViewer",
    "SmartAgent",
    "Tool",
    "World",
    "evict",
    "load_session",
    "register",
    "tool",
]


def __getattr__(name: str) -> Any:
    """Import a public name at its first use."""
    if name not in _HOMES:
        raise AttributeError(f"module 'harken' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
