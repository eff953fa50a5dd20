"""Harken runs trees of LLM agents and keeps everything they heard, said and understood.

    from harken import AgentRuntime as Runtime, ScriptedModel, SessionViewer, load_session

Importing it opens no file, reads no environment and prints nothing. A public name is imported
when it is first used, so that a program pays for what it uses and `harken --help` for nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harken.core.lazy import lazy_exports

_MODULES = {
    "agent": "harken.agents.session_agent",
    "checkpoint": "harken.context.checkpoint",
    "fork": "harken.context.fork",
    "load_session": "harken.agents.load",
    "local_world": "harken.world.local",
    "materialize": "harken.context.materialize",
    "register_agent_class": "harken.agents.agent_classes",
    "render": "harken.context.render",
    "resolve_model": "harken.llm.resolve",
    "start_from_commit": "harken.agents.load",
    "tool": "harken.world.tool",
    "Agent": "harken.agents.agent",
    "AgentRuntime": "harken.agents.runtime",
    "AnthropicModel": "harken.llm.anthropic",
    "Budget": "harken.core.event_types.spec",
    "Comment": "harken.core.verdict",
    "ConfigError": "harken.errors",
    "Conversation": "harken.agents.turn.conversation",
    "Deny": "harken.core.verdict",
    "DumbAgent": "harken.agents.dumb_agent",
    "FunctionModel": "harken.llm.scripted",
    "HarkenError": "harken.errors",
    "Hook": "harken.agents.hooks.hook",
    "HookQuestion": "harken.core.verdict",
    "LocalWorld": "harken.world.local_world",
    "LoggedString": "harken.core.logged_string",
    "Message": "harken.core.messages",
    "Model": "harken.llm.base",
    "ModelError": "harken.errors",
    "Ok": "harken.core.verdict",
    "OpenAIModel": "harken.llm.openai",
    "Permissions": "harken.world.permissions.permissions",
    "Rewrite": "harken.core.verdict",
    "ScriptedModel": "harken.llm.scripted",
    "Session": "harken.session.session",
    "SessionOptions": "harken.session.session",
    "SessionViewer": "harken.views.viewer",
    "Skills": "harken.agents.templates.skills",
    "SmartAgent": "harken.agents.smart_agent",
    "SqliteStore": "harken.store.sqlite.store",
    "Templates": "harken.agents.templates.template",
    "Tool": "harken.world.tool",
    "ToolContext": "harken.world.tool",
    "ToolError": "harken.world.result",
    "User": "harken.world.user",
}

if TYPE_CHECKING:
    from harken.agents.agent import Agent
    from harken.agents.agent_classes import register_agent_class
    from harken.agents.dumb_agent import DumbAgent
    from harken.agents.hooks.hook import Hook
    from harken.agents.load import load_session, start_from_commit
    from harken.agents.runtime import AgentRuntime
    from harken.agents.session_agent import agent
    from harken.agents.smart_agent import SmartAgent
    from harken.agents.templates.skills import Skills
    from harken.agents.templates.template import Templates
    from harken.agents.turn.conversation import Conversation
    from harken.context.checkpoint import checkpoint
    from harken.context.fork import fork
    from harken.context.materialize import materialize
    from harken.context.render import render
    from harken.core.event_types.spec import Budget
    from harken.core.logged_string import LoggedString
    from harken.core.messages import Message
    from harken.core.verdict import Comment, Deny, HookQuestion, Ok, Rewrite
    from harken.errors import ConfigError, HarkenError, ModelError
    from harken.llm.anthropic import AnthropicModel
    from harken.llm.base import Model
    from harken.llm.openai import OpenAIModel
    from harken.llm.resolve import resolve_model
    from harken.llm.scripted import FunctionModel, ScriptedModel
    from harken.session.session import Session, SessionOptions
    from harken.store.sqlite.store import SqliteStore
    from harken.views.viewer import SessionViewer
    from harken.world.local import local_world
    from harken.world.local_world import LocalWorld
    from harken.world.permissions.permissions import Permissions
    from harken.world.result import ToolError
    from harken.world.tool import Tool, ToolContext, tool
    from harken.world.user import User
else:
    __getattr__ = lazy_exports(__name__, _MODULES)

__version__ = "0.1.0"

__all__ = [
    "Agent",
    "AgentRuntime",
    "AnthropicModel",
    "Budget",
    "Comment",
    "ConfigError",
    "Conversation",
    "Deny",
    "DumbAgent",
    "FunctionModel",
    "HarkenError",
    "Hook",
    "HookQuestion",
    "LocalWorld",
    "LoggedString",
    "Message",
    "Model",
    "ModelError",
    "Ok",
    "OpenAIModel",
    "Permissions",
    "Rewrite",
    "ScriptedModel",
    "Session",
    "SessionOptions",
    "SessionViewer",
    "Skills",
    "SmartAgent",
    "SqliteStore",
    "Templates",
    "Tool",
    "ToolContext",
    "ToolError",
    "User",
    "agent",
    "checkpoint",
    "fork",
    "load_session",
    "local_world",
    "materialize",
    "register_agent_class",
    "render",
    "resolve_model",
    "start_from_commit",
    "tool",
]


def __dir__() -> list[str]:
    return [*globals(), *__all__]
