"""The registry of structural actions: the coroutine that runs each action."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

from harken.agents.agent import Agent
from harken.agents.hooks.notes import run_keep_note
from harken.agents.hooks.verdict_call import run_verdict
from harken.agents.tree.actions import run_task, run_terminate
from harken.agents.tree.clone import run_clone
from harken.agents.tree.context_actions import run_compact, run_export
from harken.agents.tree.discuss import run_discuss, run_introduce
from harken.agents.tree.dump import run_dump, run_restore
from harken.agents.tree.hook_action import run_hook, run_quit
from harken.agents.tree.moves import run_endo, run_meta, run_talk_with
from harken.agents.tree.read_log import run_read_log
from harken.core.events import Reference
from harken.world.result import ToolResult

Run: TypeAlias = Callable[[Agent, Reference, Mapping[str, Any]], Awaitable[ToolResult]]
"""Takes the acting agent, the reference of its call for causes, and the checked arguments."""

RUN: dict[str, Run] = {
    "task": run_task,
    "discuss": run_discuss,
    "terminate": run_terminate,
    "hook": run_hook,
    "quit": run_quit,
    "keep_note": run_keep_note,
    "verdict": run_verdict,
    "read_log": run_read_log,
    "meta": run_meta,
    "endo": run_endo,
    "talk_with": run_talk_with,
    "clone": run_clone,
    "dump": run_dump,
    "restore": run_restore,
    "introduce": run_introduce,
    "compact": run_compact,
    "export": run_export,
}
