"""Harken runs trees of LLM agents and keeps everything they heard, said and understood.

    from harken import AgentRuntime as Runtime, ScriptedModel, SessionViewer, load_session

Importing it opens no file, reads no environment and prints nothing. A public name is imported
when it is first used, so that a program pays for what it uses and `harken --help` for nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harken.agents.agent import Agent, load_agent, unload_agent
    from harken.agents.agent_classes import register_agent_class
    from harken.agents.budget import Budget
    from harken.agents.checkpointer import Checkpointer
    from harken.agents.dumb_agent import DumbAgent
    from harken.agents.hooks.hook import Hook
    from harken.agents.load import load_session, start_from_commit
    from harken.agents.runtime import AgentRuntime
    from harken.agents.smart_agent import SmartAgent
    from harken.agents.templates.skills import Skills, skill_tool
    from harken.agents.templates.template import Templates
    from harken.agents.tree.hook_file import HookFiles
    from harken.agents.turn.compaction import CompactionResult
    from harken.agents.turn.conversation import Conversation
    from harken.context.checkpoint import CommitDraft, CommitOrigin, checkpoint
    from harken.context.compaction import compact, snapshot
    from harken.context.fork import fork
    from harken.context.history import CommitDiff, commit_history, diff
    from harken.context.materialize import MaterializedContext, materialize
    from harken.context.render import RenderedConversation, render
    from harken.context.socket_client import current_context
    from harken.context.socket_server import ContextSocketServer
    from harken.core.logged_string import LoggedString
    from harken.core.messages import Message
    from harken.core.stream import Chunk, Finish, TextDelta, ThinkingDelta, ToolCallDelta
    from harken.core.verdict import Comment, Deny, HookPoint, HookQuestion, Ok, Rewrite, Verdict
    from harken.errors import (
        AgentBusy,
        AmbiguousName,
        ArtifactNotMessages,
        BudgetExceeded,
        BundleError,
        ConfigError,
        FormatError,
        HarkenError,
        InvalidEvent,
        InvalidStore,
        LogCorrupted,
        LogDeleted,
        LogError,
        LogLocked,
        LogWriteError,
        ModelError,
        NameNotFound,
        NotesConflict,
        ObjectCorrupted,
        ObjectNotFound,
        ObjectTooLarge,
        StoreError,
        StoreLocked,
        StoreVersionUnsupported,
        StoreWriteError,
    )
    from harken.formats.base import ConversationEntry, Format
    from harken.formats.registry import FormatRegistry
    from harken.interactions.logger import InteractionLogger, InteractionLoggingConfig
    from harken.interactions.sdk.wrap import wrap_client
    from harken.llm.anthropic import AnthropicModel
    from harken.llm.base import Model, ModelRequest
    from harken.llm.context_windows import ContextWindows
    from harken.llm.http_model import ModelEndpoint
    from harken.llm.openai import OpenAIModel
    from harken.llm.providers import Provider
    from harken.llm.replay import ReplayModel
    from harken.llm.resolve import resolve_model
    from harken.llm.scripted import FunctionModel, ScriptedModel
    from harken.recording.exchange import CapturedRequest, CapturedResponse, ClientHints
    from harken.recording.rebuild import RequestRebuilder
    from harken.recording.recorder import Recorder
    from harken.recording.session_pool import RecorderOptions
    from harken.session.session import Session, SessionOptions
    from harken.session.v1_names import MessageString, SessionLogger
    from harken.store.base import (
        GcResult,
        RetentionPolicy,
        Store,
        StoredCommit,
        StoreStats,
        Tombstone,
        WriteBatch,
    )
    from harken.store.copy import copy_commits
    from harken.store.fsck import fsck
    from harken.store.memory import MemoryStore
    from harken.store.remote.store import RemoteStore
    from harken.store.sqlite.check import StoreFinding
    from harken.store.sqlite.store import SqliteStore
    from harken.store.tiered import TieredStore
    from harken.views.viewer import SessionViewer
    from harken.world.local import local_tools, local_triggers, local_world
    from harken.world.memory.notes import NotesMemory
    from harken.world.memory.tool import memory_tool
    from harken.world.permissions.permissions import Permissions
    from harken.world.permissions.rules import PermissionRules
    from harken.world.result import ToolError
    from harken.world.tool import Tool, ToolContext, tool
    from harken.world.triggers.tools import trigger_tools
    from harken.world.user import (
        ApprovalDecision,
        ApprovalRequest,
        User,
        UserQuestion,
        UserUnavailable,
    )
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
    "UserQuestion": "harken.world.user",
    "WriteBatch": "harken.store.base",
    "Budget": "harken.agents.budget",
    "BudgetExceeded": "harken.errors",
    "BundleError": "harken.errors",
    "CapturedRequest": "harken.recording.exchange",
    "ToolCallDelta": "harken.core.stream",
    "ToolContext": "harken.world.tool",
    "Checkpointer": "harken.agents.checkpointer",
    "Chunk": "harken.core.stream",
    "GcResult": "harken.store.base",
    "Comment": "harken.core.verdict",
    "CompactionResult": "harken.agents.turn.compaction",
    "ConfigError": "harken.errors",
    "ContextSocketServer": "harken.context.socket_server",
    "Conversation": "harken.agents.turn.conversation",
    "Deny": "harken.core.verdict",
    "CommitDiff": "harken.context.history",
    "CommitDraft": "harken.context.checkpoint",
    "DumbAgent": "harken.agents.dumb_agent",
    "ModelEndpoint": "harken.llm.http_model",
    "InvalidEvent": "harken.errors",
    "ToolError": "harken.world.result",
    "StoreFinding": "harken.store.sqlite.check",
    "Finish": "harken.core.stream",
    "Format": "harken.formats.base",
    "FormatError": "harken.errors",
    "FormatRegistry": "harken.formats.registry",
    "FunctionModel": "harken.llm.scripted",
    "HarkenError": "harken.errors",
    "ClientHints": "harken.recording.exchange",
    "Hook": "harken.agents.hooks.hook",
    "HookFiles": "harken.agents.tree.hook_file",
    "InteractionLogger": "harken.interactions.logger",
    "InteractionLoggingConfig": "harken.interactions.logger",
    "RetentionPolicy": "harken.store.base",
    "ApprovalDecision": "harken.world.user",
    "LogCorrupted": "harken.errors",
    "LogDeleted": "harken.errors",
    "LogError": "harken.errors",
    "LogLocked": "harken.errors",
    "LogWriteError": "harken.errors",
    "LoggedString": "harken.core.logged_string",
    "MaterializedContext": "harken.context.materialize",
    "MemoryStore": "harken.store.memory",
    "Message": "harken.core.messages",
    "MessageString": "harken.session.v1_names",
    "Model": "harken.llm.base",
    "ModelError": "harken.errors",
    "UserUnavailable": "harken.world.user",
    "InvalidStore": "harken.errors",
    "ArtifactNotMessages": "harken.errors",
    "NotesConflict": "harken.errors",
    "NotesMemory": "harken.world.memory.notes",
    "ObjectCorrupted": "harken.errors",
    "ObjectNotFound": "harken.errors",
    "ObjectTooLarge": "harken.errors",
    "Ok": "harken.core.verdict",
    "OpenAIModel": "harken.llm.openai",
    "CommitOrigin": "harken.context.checkpoint",
    "Permissions": "harken.world.permissions.permissions",
    "HookPoint": "harken.core.verdict",
    "Provider": "harken.llm.providers",
    "HookQuestion": "harken.core.verdict",
    "RequestRebuilder": "harken.recording.rebuild",
    "Recorder": "harken.recording.recorder",
    "RecorderOptions": "harken.recording.session_pool",
    "RemoteStore": "harken.store.remote.store",
    "RenderedConversation": "harken.context.render",
    "ReplayModel": "harken.llm.replay",
    "CapturedResponse": "harken.recording.exchange",
    "ModelRequest": "harken.llm.base",
    "Rewrite": "harken.core.verdict",
    "PermissionRules": "harken.world.permissions.rules",
    "AgentRuntime": "harken.agents.runtime",
    "ScriptedModel": "harken.llm.scripted",
    "Session": "harken.session.session",
    "SessionLogger": "harken.session.v1_names",
    "SessionOptions": "harken.session.session",
    "SessionViewer": "harken.views.viewer",
    "Skills": "harken.agents.templates.skills",
    "SmartAgent": "harken.agents.smart_agent",
    "SqliteStore": "harken.store.sqlite.store",
    "StoreStats": "harken.store.base",
    "Store": "harken.store.base",
    "StoreError": "harken.errors",
    "StoreLocked": "harken.errors",
    "StoreVersionUnsupported": "harken.errors",
    "StoreWriteError": "harken.errors",
    "StoredCommit": "harken.store.base",
    "Templates": "harken.agents.templates.template",
    "TextDelta": "harken.core.stream",
    "ThinkingDelta": "harken.core.stream",
    "TieredStore": "harken.store.tiered",
    "Tombstone": "harken.store.base",
    "Tool": "harken.world.tool",
    "NameNotFound": "harken.errors",
    "User": "harken.world.user",
    "Verdict": "harken.core.verdict",
    "ApprovalRequest": "harken.world.user",
    "ConversationEntry": "harken.formats.base",
    "ContextWindows": "harken.llm.context_windows",
    "World": "harken.world.world",
    "checkpoint": "harken.context.checkpoint",
    "compact": "harken.context.compaction",
    "copy_commits": "harken.store.copy",
    "current_context": "harken.context.socket_client",
    "diff": "harken.context.history",
    "unload_agent": "harken.agents.agent",
    "fork": "harken.context.fork",
    "fsck": "harken.store.fsck",
    "commit_history": "harken.context.history",
    "load_session": "harken.agents.load",
    "local_triggers": "harken.world.local",
    "local_tools": "harken.world.local",
    "local_world": "harken.world.local",
    "materialize": "harken.context.materialize",
    "memory_tool": "harken.world.memory.tool",
    "register_agent_class": "harken.agents.agent_classes",
    "render": "harken.context.render",
    "resolve_model": "harken.llm.resolve",
    "load_agent": "harken.agents.agent",
    "skill_tool": "harken.agents.templates.skills",
    "snapshot": "harken.context.compaction",
    "start_from_commit": "harken.agents.load",
    "tool": "harken.world.tool",
    "trigger_tools": "harken.world.triggers.tools",
    "wrap_client": "harken.interactions.sdk.wrap",
}

__all__ = [
    "Agent",
    "AgentBusy",
    "AgentRuntime",
    "AmbiguousName",
    "AnthropicModel",
    "ApprovalDecision",
    "ApprovalRequest",
    "ArtifactNotMessages",
    "Budget",
    "BudgetExceeded",
    "BundleError",
    "CapturedRequest",
    "CapturedResponse",
    "Checkpointer",
    "Chunk",
    "ClientHints",
    "Comment",
    "CommitDiff",
    "CommitDraft",
    "CommitOrigin",
    "CompactionResult",
    "ConfigError",
    "ContextSocketServer",
    "ContextWindows",
    "Conversation",
    "ConversationEntry",
    "Deny",
    "DumbAgent",
    "Finish",
    "Format",
    "FormatError",
    "FormatRegistry",
    "FunctionModel",
    "GcResult",
    "HarkenError",
    "Hook",
    "HookFiles",
    "HookPoint",
    "HookQuestion",
    "InteractionLogger",
    "InteractionLoggingConfig",
    "InvalidEvent",
    "InvalidStore",
    "LogCorrupted",
    "LogDeleted",
    "LogError",
    "LogLocked",
    "LogWriteError",
    "LoggedString",
    "MaterializedContext",
    "MemoryStore",
    "Message",
    "MessageString",
    "Model",
    "ModelEndpoint",
    "ModelError",
    "ModelRequest",
    "NameNotFound",
    "NotesConflict",
    "NotesMemory",
    "ObjectCorrupted",
    "ObjectNotFound",
    "ObjectTooLarge",
    "Ok",
    "OpenAIModel",
    "PermissionRules",
    "Permissions",
    "Provider",
    "Recorder",
    "RecorderOptions",
    "RemoteStore",
    "RenderedConversation",
    "ReplayModel",
    "RequestRebuilder",
    "RetentionPolicy",
    "Rewrite",
    "ScriptedModel",
    "Session",
    "SessionLogger",
    "SessionOptions",
    "SessionViewer",
    "Skills",
    "SmartAgent",
    "SqliteStore",
    "Store",
    "StoreError",
    "StoreFinding",
    "StoreLocked",
    "StoreStats",
    "StoreVersionUnsupported",
    "StoreWriteError",
    "StoredCommit",
    "Templates",
    "TextDelta",
    "ThinkingDelta",
    "TieredStore",
    "Tombstone",
    "Tool",
    "ToolCallDelta",
    "ToolContext",
    "ToolError",
    "User",
    "UserQuestion",
    "UserUnavailable",
    "Verdict",
    "World",
    "WriteBatch",
    "checkpoint",
    "commit_history",
    "compact",
    "copy_commits",
    "current_context",
    "diff",
    "fork",
    "fsck",
    "load_agent",
    "load_session",
    "local_tools",
    "local_triggers",
    "local_world",
    "materialize",
    "memory_tool",
    "register_agent_class",
    "render",
    "resolve_model",
    "skill_tool",
    "snapshot",
    "start_from_commit",
    "tool",
    "trigger_tools",
    "unload_agent",
    "wrap_client",
]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
