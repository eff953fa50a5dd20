"""Harken runs trees of LLM agents and keeps everything they heard, said and understood.

    from harken import Runtime, ScriptedModel, SessionViewer, load_session

Importing it opens no file, reads no environment and prints nothing. A public name is imported
when it is first used, so that a program pays for what it uses and `harken --help` for nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harken.agents.base import Agent, evict, revive
    from harken.agents.budget import Budget
    from harken.agents.checkpoints import Checkpointer
    from harken.agents.compaction import Compacted
    from harken.agents.conversation import Conversation
    from harken.agents.dumb import DumbAgent
    from harken.agents.hook import Hook
    from harken.agents.hook_files import HookFiles
    from harken.agents.kinds import register
    from harken.agents.load import load_session, start_from
    from harken.agents.runtime import Runtime
    from harken.agents.skills import Skills, skill_tool
    from harken.agents.smart import SmartAgent
    from harken.agents.templates import Templates
    from harken.context.checkpoint import Draft, Origin, checkpoint
    from harken.context.compaction import compact, snapshot
    from harken.context.fork import fork
    from harken.context.history import Difference, diff, history
    from harken.context.materialize import Materialized, materialize
    from harken.context.rendering import Rendered, render
    from harken.context.server import ContextSockets
    from harken.context.socket import current_context
    from harken.core.chunks import CallDelta, Chunk, Finish, TextDelta, ThinkingDelta
    from harken.core.messages import Message
    from harken.core.text import LoggedString
    from harken.core.verdict_words import Comment, Deny, Ok, Point, Question, Rewrite, Verdict
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
    from harken.interactions.wrap import wrap
    from harken.llm.anthropic import AnthropicModel
    from harken.llm.base import Model, Request
    from harken.llm.openai import OpenAIModel
    from harken.llm.providers import Provider
    from harken.llm.remote import Endpoint
    from harken.llm.replay import ReplayModel
    from harken.llm.resolve import resolve_model
    from harken.llm.scripted import FunctionModel, ScriptedModel
    from harken.llm.windows import Windows
    from harken.recording.exchange import Call, Hints, Reply
    from harken.recording.rebuilt import Rebuilder
    from harken.recording.recorder import Recorder
    from harken.recording.shelf import RecorderOptions
    from harken.session.older import MessageString, SessionLogger
    from harken.session.session import Session, SessionOptions
    from harken.store.base import Batch, Collected, Keeping, Stats, Store, Stored, Tombstone
    from harken.store.checks import fsck
    from harken.store.copy import copy_commits
    from harken.store.file_check import Finding
    from harken.store.memory import MemoryStore
    from harken.store.remote.client import RemoteStore
    from harken.store.sqlite import SqliteStore
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
    "Agent": "harken.agents.base",
    "AgentBusy": "harken.errors",
    "AmbiguousName": "harken.errors",
    "AnthropicModel": "harken.llm.anthropic",
    "Asked": "harken.world.user",
    "Batch": "harken.store.base",
    "Budget": "harken.agents.budget",
    "BudgetExceeded": "harken.errors",
    "BundleError": "harken.errors",
    "Call": "harken.recording.exchange",
    "CallDelta": "harken.core.chunks",
    "Caller": "harken.world.tool",
    "Checkpointer": "harken.agents.checkpoints",
    "Chunk": "harken.core.chunks",
    "Collected": "harken.store.base",
    "Comment": "harken.core.verdict_words",
    "Compacted": "harken.agents.compaction",
    "ConfigError": "harken.errors",
    "ContextSockets": "harken.context.server",
    "Conversation": "harken.agents.conversation",
    "Deny": "harken.core.verdict_words",
    "Difference": "harken.context.history",
    "Draft": "harken.context.checkpoint",
    "DumbAgent": "harken.agents.dumb",
    "Endpoint": "harken.llm.remote",
    "EventRefused": "harken.errors",
    "Failed": "harken.world.result",
    "Finding": "harken.store.file_check",
    "Finish": "harken.core.chunks",
    "Format": "harken.formats.base",
    "FormatError": "harken.errors",
    "Formats": "harken.formats.registry",
    "FunctionModel": "harken.llm.scripted",
    "HarkenError": "harken.errors",
    "Hints": "harken.recording.exchange",
    "Hook": "harken.agents.hook",
    "HookFiles": "harken.agents.hook_files",
    "InteractionLogger": "harken.interactions.logger",
    "InteractionLoggingConfig": "harken.interactions.logger",
    "Keeping": "harken.store.base",
    "Leave": "harken.world.user",
    "LogDamaged": "harken.errors",
    "LogDeleted": "harken.errors",
    "LogError": "harken.errors",
    "LogLocked": "harken.errors",
    "LogWriteError": "harken.errors",
    "LoggedString": "harken.core.text",
    "Materialized": "harken.context.materialize",
    "MemoryStore": "harken.store.memory",
    "Message": "harken.core.messages",
    "MessageString": "harken.session.older",
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
    "Ok": "harken.core.verdict_words",
    "OpenAIModel": "harken.llm.openai",
    "Origin": "harken.context.checkpoint",
    "Permissions": "harken.world.permissions.permissions",
    "Point": "harken.core.verdict_words",
    "Provider": "harken.llm.providers",
    "Question": "harken.core.verdict_words",
    "Rebuilder": "harken.recording.rebuilt",
    "Recorder": "harken.recording.recorder",
    "RecorderOptions": "harken.recording.shelf",
    "RemoteStore": "harken.store.remote.client",
    "Rendered": "harken.context.rendering",
    "ReplayModel": "harken.llm.replay",
    "Reply": "harken.recording.exchange",
    "Request": "harken.llm.base",
    "Rewrite": "harken.core.verdict_words",
    "Rules": "harken.world.permissions.rules",
    "Runtime": "harken.agents.runtime",
    "ScriptedModel": "harken.llm.scripted",
    "Session": "harken.session.session",
    "SessionLogger": "harken.session.older",
    "SessionOptions": "harken.session.session",
    "SessionViewer": "harken.views.viewer",
    "Skills": "harken.agents.skills",
    "SmartAgent": "harken.agents.smart",
    "SqliteStore": "harken.store.sqlite",
    "Stats": "harken.store.base",
    "Store": "harken.store.base",
    "StoreError": "harken.errors",
    "StoreLocked": "harken.errors",
    "StoreTooNew": "harken.errors",
    "StoreWriteError": "harken.errors",
    "Stored": "harken.store.base",
    "Templates": "harken.agents.templates",
    "TextDelta": "harken.core.chunks",
    "ThinkingDelta": "harken.core.chunks",
    "TieredStore": "harken.store.tiered",
    "Tombstone": "harken.store.base",
    "Tool": "harken.world.tool",
    "UnknownName": "harken.errors",
    "User": "harken.world.user",
    "Verdict": "harken.core.verdict_words",
    "Wanted": "harken.world.user",
    "WholeEntry": "harken.formats.base",
    "Windows": "harken.llm.windows",
    "World": "harken.world.world",
    "checkpoint": "harken.context.checkpoint",
    "compact": "harken.context.compaction",
    "copy_commits": "harken.store.copy",
    "current_context": "harken.context.socket",
    "diff": "harken.context.history",
    "evict": "harken.agents.base",
    "fork": "harken.context.fork",
    "fsck": "harken.store.checks",
    "history": "harken.context.history",
    "load_session": "harken.agents.load",
    "local_sources": "harken.world.local",
    "local_tools": "harken.world.local",
    "local_world": "harken.world.local",
    "materialize": "harken.context.materialize",
    "memory_tool": "harken.world.memory.tool",
    "register": "harken.agents.kinds",
    "render": "harken.context.rendering",
    "resolve_model": "harken.llm.resolve",
    "revive": "harken.agents.base",
    "skill_tool": "harken.agents.skills",
    "snapshot": "harken.context.compaction",
    "start_from": "harken.agents.load",
    "tool": "harken.world.tool",
    "trigger_tools": "harken.world.triggers.tools",
    "wrap": "harken.interactions.wrap",
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
