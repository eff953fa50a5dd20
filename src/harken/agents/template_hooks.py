"""The hooks that a template says: made for an agent that is not born yet."""

from __future__ import annotations

from collections.abc import Collection

from harken.agents.base import Agent
from harken.agents.built_in import hook_kind
from harken.agents.command_hooks.entry import read_hooks
from harken.agents.command_hooks.hook import CommandHook, Commands, let_run
from harken.agents.templates import Template
from harken.errors import HarkenError
from harken.world.result import BadArguments


def hooks_of(
    template: Template | None, watched: Agent, there: Collection[str]
) -> list[tuple[str, Agent]]:
    """Return the hooks that a template says, with their names; none that is `there` already.

    Raises BadArguments where one cannot be had: a guard is never left out in silence.
    """
    if template is None:
        return []
    try:
        found = [(name, make_hook(name, watched)) for name in template.hooks if name not in there]
        if template.commands is not None:
            found.append((f"{template.name}-hooks", _commands(template, watched)))
    except HarkenError as error:
        raise BadArguments(f"template:{template.name} cannot be used: {error}") from None
    return found


def make_hook(name: str, watched: Agent) -> Agent:
    """Return a hook by its name, to be installed. Raises UnknownName, ConfigError."""
    finder = watched.runtime.hooks
    if finder is not None:
        found: Agent = finder.make(name, watched)
        return found
    return hook_kind(name, watched.runtime)(watched.session, runtime=watched.runtime)


def _commands(template: Template, watched: Agent) -> CommandHook:
    is_first = watched.agent_id == watched.session.state.root
    hooks = read_hooks(template.commands, str(template.path), of_subagent=not is_first)
    for note in hooks.notes:
        watched.runtime.tell(note)
    options = let_run(watched.runtime, Commands(hooks.entries))
    return CommandHook(watched.session, runtime=watched.runtime, options=options)
