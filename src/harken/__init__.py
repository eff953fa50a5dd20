"""Harken runs trees of LLM agents and keeps everything they heard, said and understood.

    from harken import Runtime, ScriptedModel, SessionViewer, load_session

Importing it opens no file, reads no environment and prints nothing. A public name is imported
when it is first used, so that a program pays for what it uses and `harken --help` for nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harken.agents.agent import Agent, evict, revive
    from harken.agents.agent_classes import register
    from harken.agents.budget import Budget
    from harken.agents.checkpointer import Checkpointer
    from harken.agents.dumb_agent import DumbAgent
    from harken.agents.hooks.hook import Hook
    from harken.agents.load import load_session, start_from
    from harken.agents.runtime import Runtime
    from harken.agents.smart_agent import SmartAgent
    from harken.agents.templates.skills import Skills, skill_tool
    from harken.agents.templates.template import Templates
    from harken.agents.tree.hook_file import HookFiles
    from harken.agents.turn.compaction import Compacted
    from harken.agents.turn.conversation import Conversation
    from harken.context.checkpoint import Draft, Origin, checkpoint
    from harken.context.compaction import compact, snapshot
    from harken.context.fork import fork
    from harken.context.history import Difference, diff, history
    from harken.context.materialize import Materialized, materialize
    from harken.context.render import Rendered, render
    from harken.context.socket_client import current_context
    from harken.context.socket_server import ContextSockets
    from harken.core.logged_string import LoggedString
    from harken.core.messages import Message
    from harken.core.stream import CallDelta, Chunk, Finish, TextDelta, ThinkingDelta
    from harken.core.verdict import Comment, Deny, Ok, Point, Question, Rewrite, Verdict
    from harken.errors import (
        AgentBusy,
        AmbiguousName,
        BudgetExceeded,
        BundleError,
        ConfigError,
        EventRefused,
        FormatError,
        HarkenError,
        LogDamaged,
        LogDeleted,
        LogError,
        LogLocked,
        LogWriteError,
        ModelError,
        NotAStore,
        NotesChanged,
        NotMessages,
        ObjectDamaged,
        ObjectMissing,
        ObjectTooLarge,
        StoreError,
        StoreLocked,
        StoreTooNew,
        StoreWriteError,
        UnknownName,
    )
    from harken.formats.base import Format, WholeEntry
    from harken.formats.registry import Formats
    from harken.interactions.logger import InteractionLogger, InteractionLoggingConfig
    from harken.interactions.sdk.wrap import wrap
    from harken.llm.anthropic import AnthropicModel
    from harken.llm.base import Model, Request
    from harken.llm.context_windows import Windows
    from harken.llm.http_model import Endpoint
    from harken.llm.openai import OpenAIModel
    from harken.llm.providers import Provider
    from harken.llm.replay import ReplayModel
    from harken.llm.resolve import resolve_model
    from harken.llm.scripted import FunctionModel, ScriptedModel
    from harken.recording.exchange import Call, Hints, Reply
    from harken.recording.rebuild import Rebuilder
    from harken.recording.recorder import Recorder
    from harken.recording.session_pool import RecorderOptions
    from harken.session.session import Session, SessionOptions
    from harken.session.v1_names import MessageString, SessionLogger
    from harken.store.base import Batch, Collected, Keeping, Stats, Store, Stored, Tombstone
    from harken.store.copy import copy_commits
    from harken.store.fsck import fsck
    from harken.store.memory import MemoryStore
    from harken.store.remote.store import RemoteStore
    from harken.store.sqlite.check import Finding
    from harken.store.sqlite.store import SqliteStore
    from harken.store.tiered import TieredStore
    from harken.views.viewer import SessionViewer
    from harken.world.local import local_sources, local_tools, local_world
    from harken.world.memory.notes import NotesMemory
    from harken.world.memory.tool import memory_tool
    from harken.world.permissions.permissions import Permissions
    from harken.world.permissions.rules import Rules
    from harken.world.result import Failed
    from harken.world.tool import Caller, Tool, tool
    from harken.world.triggers.tools import trigger_tools
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
    "Agent": "harken.agents.agent",
    "AgentBusy": "harken.errors",
    "AmbiguousName": "harken.errors",
    "AnthropicModel": "harken.llm.anthropic",
    "Asked": "harken.world.user",
    "Batch": "harken.store.base",
    "Budget": "harken.agents.budget",
    "BudgetExceeded": "harken.errors",
    "BundleError": "harken.errors",
    "Call": "harken.recording.exchange",
    "CallDelta": "harken.core.stream",
    "Caller": "harken.world.tool",
    "Checkpointer": "harken.agents.checkpointer",
    "Chunk": "harken.core.stream",
    "Collected": "harken.store.base",
    "Comment": "harken.core.verdict",
    "Compacted": "harken.agents.turn.compaction",
    "ConfigError": "harken.errors",
    "ContextSockets": "harken.context.socket_server",
    "Conversation": "harken.agents.turn.conversation",
    "Deny": "harken.core.verdict",
    "Difference": "harken.context.history",
    "Draft": "harken.context.checkpoint",
    "DumbAgent": "harken.agents.dumb_agent",
    "Endpoint": "harken.llm.http_model",
    "EventRefused": "harken.errors",
    "Failed": "harken.world.result",
    "Finding": "harken.store.sqlite.check",
    "Finish": "harken.core.stream",
    "Format": "harken.formats.base",
    "FormatError": "harken.errors",
    "Formats": "harken.formats.registry",
    "FunctionModel": "harken.llm.scripted",
    "HarkenError": "harken.errors",
    "Hints": "harken.recording.exchange",
    "Hook": "harken.agents.hooks.hook",
    "HookFiles": "harken.agents.tree.hook_file",
    "InteractionLogger": "harken.interactions.logger",
    "InteractionLoggingConfig": "harken.interactions.logger",
    "Keeping": "harken.store.base",
    "Leave": "harken.world.user",
    "LogDamaged": "harken.errors",
    "LogDeleted": "harken.errors",
    "LogError": "harken.errors",
    "LogLocked": "harken.errors",
    "LogWriteError": "harken.errors",
    "LoggedString": "harken.core.logged_string",
    "Materialized": "harken.context.materialize",
    "MemoryStore": "harken.store.memory",
    "Message": "harken.core.messages",
    "MessageString": "harken.session.v1_names",
    "Model": "harken.llm.base",
    "ModelError": "harken.errors",
    "NobodyThere": "harken.world.user",
    "NotAStore": "harken.errors",
    "NotMessages": "harken.errors",
    "NotesChanged": "harken.errors",
    "NotesMemory": "harken.world.memory.notes",
    "ObjectDamaged": "harken.errors",
    "ObjectMissing": "harken.errors",
    "ObjectTooLarge": "harken.errors",
    "Ok": "harken.core.verdict",
    "OpenAIModel": "harken.llm.openai",
    "Origin": "harken.context.checkpoint",
    "Permissions": "harken.world.permissions.permissions",
    "Point": "harken.core.verdict",
    "Provider": "harken.llm.providers",
    "Question": "harken.core.verdict",
    "Rebuilder": "harken.recording.rebuild",
    "Recorder": "harken.recording.recorder",
    "RecorderOptions": "harken.recording.session_pool",
    "RemoteStore": "harken.store.remote.store",
    "Rendered": "harken.context.render",
    "ReplayModel": "harken.llm.replay",
    "Reply": "harken.recording.exchange",
    "Request": "harken.llm.base",
    "Rewrite": "harken.core.verdict",
    "Rules": "harken.world.permissions.rules",
    "Runtime": "harken.agents.runtime",
    "ScriptedModel": "harken.llm.scripted",
    "Session": "harken.session.session",
    "SessionLogger": "harken.session.v1_names",
    "SessionOptions": "harken.session.session",
    "SessionViewer": "harken.views.viewer",
    "Skills": "harken.agents.templates.skills",
    "SmartAgent": "harken.agents.smart_agent",
    "SqliteStore": "harken.store.sqlite.store",
    "Stats": "harken.store.base",
    "Store": "harken.store.base",
    "StoreError": "harken.errors",
    "StoreLocked": "harken.errors",
    "StoreTooNew": "harken.errors",
    "StoreWriteError": "harken.errors",
    "Stored": "harken.store.base",
    "Templates": "harken.agents.templates.template",
    "TextDelta": "harken.core.stream",
    "ThinkingDelta": "harken.core.stream",
    "TieredStore": "harken.store.tiered",
    "Tombstone": "harken.store.base",
    "Tool": "harken.world.tool",
    "UnknownName": "harken.errors",
    "User": "harken.world.user",
    "Verdict": "harken.core.verdict",
    "Wanted": "harken.world.user",
    "WholeEntry": "harken.formats.base",
    "Windows": "harken.llm.context_windows",
    "World": "harken.world.world",
    "checkpoint": "harken.context.checkpoint",
    "compact": "harken.context.compaction",
    "copy_commits": "harken.store.copy",
    "current_context": "harken.context.socket_client",
    "diff": "harken.context.history",
    "evict": "harken.agents.agent",
    "fork": "harken.context.fork",
    "fsck": "harken.store.fsck",
    "history": "harken.context.history",
    "load_session": "harken.agents.load",
    "local_sources": "harken.world.local",
    "local_tools": "harken.world.local",
    "local_world": "harken.world.local",
    "materialize": "harken.context.materialize",
    "memory_tool": "harken.world.memory.tool",
    "register": "harken.agents.agent_classes",
    "render": "harken.context.render",
    "resolve_model": "harken.llm.resolve",
    "revive": "harken.agents.agent",
    "skill_tool": "harken.agents.templates.skills",
    "snapshot": "harken.context.compaction",
    "start_from": "harken.agents.load",
    "tool": "harken.world.tool",
    "trigger_tools": "harken.world.triggers.tools",
    "wrap": "harken.interactions.sdk.wrap",
}

__all__ = [
    "Agent",
    "AgentBusy",
    "AmbiguousName",
    "AnthropicModel",
    "Asked",
    "Batch",
    "Budget",
    "BudgetExceeded",
    "BundleError",
    "Call",
    "CallDelta",
    "Caller",
    "Checkpointer",
    "Chunk",
    "Collected",
    "Comment",
    "Compacted",
    "ConfigError",
    "ContextSockets",
    "Conversation",
    "Deny",
    "Difference",
    "Draft",
    "DumbAgent",
    "Endpoint",
    "EventRefused",
    "Failed",
    "Finding",
    "Finish",
    "Format",
    "FormatError",
    "Formats",
    "FunctionModel",
    "HarkenError",
    "Hints",
    "Hook",
    "HookFiles",
    "InteractionLogger",
    "InteractionLoggingConfig",
    "Keeping",
    "Leave",
    "LogDamaged",
    "LogDeleted",
    "LogError",
    "LogLocked",
    "LogWriteError",
    "LoggedString",
    "Materialized",
    "MemoryStore",
    "Message",
    "MessageString",
    "Model",
    "ModelError",
    "NobodyThere",
    "NotAStore",
    "NotMessages",
    "NotesChanged",
    "NotesMemory",
    "ObjectDamaged",
    "ObjectMissing",
    "ObjectTooLarge",
    "Ok",
    "OpenAIModel",
    "Origin",
    "Permissions",
    "Point",
    "Provider",
    "Question",
    "Rebuilder",
    "Recorder",
    "RecorderOptions",
    "RemoteStore",
    "Rendered",
    "ReplayModel",
    "Reply",
    "Request",
    "Rewrite",
    "Rules",
    "Runtime",
    "ScriptedModel",
    "Session",
    "SessionLogger",
    "SessionOptions",
    "SessionViewer",
    "Skills",
    "SmartAgent",
    "SqliteStore",
    "Stats",
    "Store",
    "StoreError",
    "StoreLocked",
    "StoreTooNew",
    "StoreWriteError",
    "Stored",
    "Templates",
    "TextDelta",
    "ThinkingDelta",
    "TieredStore",
    "Tombstone",
    "Tool",
    "UnknownName",
    "User",
    "Verdict",
    "Wanted",
    "WholeEntry",
    "Windows",
    "World",
    "checkpoint",
    "compact",
    "copy_commits",
    "current_context",
    "diff",
    "evict",
    "fork",
    "fsck",
    "history",
    "load_session",
    "local_sources",
    "local_tools",
    "local_world",
    "materialize",
    "memory_tool",
    "register",
    "render",
    "resolve_model",
    "revive",
    "skill_tool",
    "snapshot",
    "start_from",
    "tool",
    "trigger_tools",
    "wrap",
]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
