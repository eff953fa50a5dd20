"""The registry of built-in hooks: their registered names and modules.

A module is imported when its hook is first needed, so that `import harken` stays cheap while logs
can name every hook.
"""

from __future__ import annotations

from harken.agents.agent_classes import get_agent_class, register_lazy
from harken.agents.hooks.hook import Hook
from harken.agents.runtime import AgentRuntime
from harken.errors import NameNotFound

BUILT_IN: dict[str, str] = {
    "budget-guard": "harken.agents.built_in.budget_guard",
    "changed-files": "harken.agents.built_in.changed_files",
    "discussion-rounds": "harken.agents.built_in.discussion_rounds",
    "garbage-collector": "harken.agents.built_in.garbage_collector",
    "planning-mode": "harken.agents.built_in.planning_mode",
    "read-before-write": "harken.agents.built_in.read_before_write",
    "single-minded": "harken.agents.built_in.subagent_hook",
    "task-limiter": "harken.agents.built_in.task_limiter",
    "todo-reminder": "harken.agents.built_in.todo_reminder",
    "command-hook": "harken.agents.command_hooks.hook",
}
"""Modules by registered name."""

register_lazy(BUILT_IN)


def get_hook_class(name: str, runtime: AgentRuntime) -> type[Hook]:
    """Return the class of dumb hooks with a registered name: built-in, or a user's.

    Create a hook with `kind(session, runtime=runtime, options={...})`. Raises NameNotFound with the
    names of the built-in hooks.
    """
    try:
        kind: type = get_agent_class(name, runtime.library)
    except NameNotFound:
        raise NameNotFound("built-in hook", name, BUILT_IN) from None
    if not issubclass(kind, Hook):
        raise NameNotFound("built-in hook", name, BUILT_IN)
    return kind
