"""`hook` and `quit` at work: hooks that are made at run time, and leave by their own will."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harken.agents.actions import allowed_for, check_plain, instructions_in, template_in
from harken.agents.actor import Actor
from harken.agents.base import Agent
from harken.core.events import Reference
from harken.core.ids import base_of
from harken.world.result import BadArguments, Result

MAX_HOOKS = 16
"""So many hooks an agent may have above it that agents put there."""

PROTOCOL = """

You are a hook: you watch agent {watched}, which has no authority over you. You are asked at
{points}. Each time answer with nothing but a verdict:
OK
COMMENT: what the agent shall hear
DENY: why its action or response must not be (at `action` and `response`)
REWRITE: the arguments of the action as JSON, or the response, as they shall be instead
You need not remember what you were asked: read_log shows what happened, keep_note keeps what you
want to know next time."""
"""What a smart hook is told after its instructions."""


async def run_hook(agent: Actor, call: Reference, arguments: Mapping[str, Any]) -> Result:
    """Put a smart hook above the caller, or above the agent that a calling hook watches.

    Raises BadArguments.
    """
    watched = watched_by(agent) if agent.state.place == "hook" else agent
    name = arguments["name"]
    check_hook_name(watched, name)
    template = template_in(agent, arguments["instructions"])
    given = arguments["instructions"]
    text = template.instructions if template else instructions_in(agent, call, given)
    if text is None or not text.strip():
        raise BadArguments("a hook needs instructions: say what it watches for")
    points = arguments["points"]
    tools = allowed_for(agent, arguments["tools"] or [], template)
    is_own = watched is agent and base_of(call) in agent.session.state.owners
    spec = {"points": points, "keeps": "notes", "self_made": is_own or None}
    hook = agent.make_subagent(text + protocol(watched, points), tools, template, spec)
    hook.log_birth([watched.state.birth, call], name, "hook")
    return Result(f"Installed hook: {name} watches {watched.name}")


async def run_quit(agent: Actor, call: Reference, arguments: Mapping[str, Any]) -> Result:
    """Note that the calling hook leaves after its verdict; see `Agent.leaving`."""
    return Result("You watch no longer, after the verdict that you give now.")


def protocol(watched: Agent, points: list[str] | None) -> str:
    """Return what a smart hook is told of its place."""
    named = ", ".join(points or ("input", "action", "result", "response"))
    return PROTOCOL.format(watched=watched.name, points=named)


def watched_by(hook: Agent) -> Agent:
    """Return the agent that a hook watches. Raises BadArguments where it is no hook."""
    state = hook.state
    if state.place != "hook" or state.parent is None:
        raise BadArguments(f"{hook.name} watches nobody: it is no hook")
    return hook.sibling(state.parent)


def check_hook_name(watched: Agent, name: str) -> None:
    """Raise BadArguments for a name that another hook has, or for one hook too many."""
    check_plain(name)
    there = [hook.name for hook in watched.hooks]
    if name in there:
        raise BadArguments(f"there is a hook {name!r} already; choose another name")
    if len(there) >= MAX_HOOKS:
        raise BadArguments(f"{watched.name} has {len(there)} hooks: no more than {MAX_HOOKS}")
