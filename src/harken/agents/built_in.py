"""Which hooks are built in: their registered names, and where each is.

A module is imported when its hook is asked for, in a program or by a log: so that `import harken`
stays cheap, and a log can still name them all.
"""

from __future__ import annotations

from harken.agents.hook import Hook
from harken.agents.kinds import kind_named, register_later
from harken.agents.runtime import Runtime
from harken.errors import UnknownName

BUILT_IN: dict[str, str] = {
    "budget-guard": "harken.agents.hooks.budget_guard",
    "changed-files": "harken.agents.hooks.changed_files",
    "discussion-rounds": "harken.agents.hooks.discussion_rounds",
    "garbage-collector": "harken.agents.hooks.garbage_collector",
    "planning-mode": "harken.agents.hooks.planning_mode",
    "read-before-write": "harken.agents.hooks.read_before_write",
    "single-minded": "harken.agents.hooks.births",
    "task-limiter": "harken.agents.hooks.task_limiter",
    "todo-reminder": "harken.agents.hooks.todo_reminder",
    "command-hook": "harken.agents.command_hooks.hook",
}
"""Registered name -> module."""

register_later(BUILT_IN)


def hook_kind(name: str, runtime: Runtime) -> type[Hook]:
    """Return the class of dumb hooks with a registered name: built in, or a user's.

    It is made with `kind(session, runtime=runtime, options={...})`. Raises UnknownName with the
    names that are built in.
    """
    try:
        kind: type = kind_named(name, runtime)
    except UnknownName:
        raise UnknownName("built-in hook", name, BUILT_IN) from None
    if not issubclass(kind, Hook):
        raise UnknownName("built-in hook", name, BUILT_IN)
    return kind
