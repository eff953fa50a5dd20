"""`meta`, `endo`, `talk_with`: who stands where.

One idea: a move is a swap of two that stand directly above each other, in one event. So each is
undone by the other, at any depth, and a crash leaves none half done.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from harken.agents.actions import named, piece, prompt_in
from harken.agents.actor import Actor
from harken.agents.base import Agent
from harken.agents.budget import Budget, budget_of
from harken.agents.hooking import watched_by
from harken.core.events import AgentConfigured, AgentMoved, Cause, Event, Reference
from harken.core.messages import text_of
from harken.world.result import BadArguments, Result

LONGEST = 4_000
"""How much of its input whoever takes an agent's place is told, in characters."""


async def run_endo(agent: Actor, call: Reference, arguments: Mapping[str, Any]) -> Result:
    """Let a subagent take the caller's place; the caller is its last hook. Raises BadArguments."""
    (child,) = named(agent, [arguments["subagent"]])
    prompt = prompt_in(arguments["prompt"])
    endo(agent, child, call, arguments["points"])
    if prompt is not None:
        agent.inform(child, piece(agent, call, prompt))
    return Result(f"{child.name} has taken your place; you watch it as its hook.")


async def run_meta(agent: Actor, call: Reference, arguments: Mapping[str, Any]) -> Result:
    """Let the calling hook take the place of the agent that it watches. Raises BadArguments."""
    watched = watched_by(agent)
    heard = _last_input(watched)
    meta(agent, call)
    said = f" It was last told: {heard}" if heard else ""
    return Result(f"You have taken the place of {watched.name}, now your subagent.{said}")


async def run_talk_with(agent: Actor, call: Reference, arguments: Mapping[str, Any]) -> Result:
    """Let another agent take the caller's place, the caller waits. Raises BadArguments."""
    taken = talk_with(agent, arguments["name"], call)
    return Result(f"{taken.name} has taken your place.")


def endo(agent: Agent, child: Agent, cause: Cause, points: Sequence[str] | None = None) -> None:
    """Let a subagent take the place of its parent, which becomes its last hook.

    points: where the parent is asked then (None: everywhere). Raises BadArguments, AgentBusy.
    """
    child.check_free()
    _swap(child, agent, "hook", cause)
    spec = {"points": None if points is None else list(points)}
    if spec["points"] != agent.state.spec.get("points"):
        agent.session.append(AgentConfigured(agent_id=agent.agent_id, spec=spec))


def meta(hook: Agent, cause: Cause) -> None:
    """Let a hook take the place of the agent that it watches, which becomes its subagent.

    Raises BadArguments.
    """
    watched = watched_by(hook)
    if watched.name in hook.subagent_ids:
        raise BadArguments(f"you have a subagent {watched.name!r} already: terminate it first")
    _swap(hook, watched, "subagent", cause)


def talk_with(agent: Agent, path: str, cause: Cause) -> Agent:
    """Let a subagent or a hook of an agent take its place, or one further down: `editor/critic`.

    An agent that a subagent replaces waits as its silent hook. Raises BadArguments, where nothing
    has moved; AgentBusy.
    """
    way = _way(agent, path)
    for at, one in zip([agent, *way], way, strict=False):
        if one.state.place == "hook":
            meta(one, cause)
        else:
            endo(at, one, cause, points=())
    return way[-1]


def _way(agent: Agent, path: str) -> list[Agent]:
    """Return the agents that a path leads through. Raises BadArguments."""
    way: list[Agent] = []
    for name in path.split("/"):
        at = way[-1] if way else agent
        there = {hook.name: hook for hook in at.hooks} | at.subagents
        if name not in there:
            raise BadArguments(
                f"{at.name} has no subagent or hook {name!r}; there is: "
                f"{', '.join(there) or 'nobody'}"
            )
        there[name].check_free()
        way.append(there[name])
    return way


def _swap(taker: Agent, before: Agent, now: Literal["subagent", "hook"], cause: Cause) -> None:
    """Let one agent take the place of the one that it stands at, with its budget."""
    state = before.state
    if state.parent is not None and state.place == "subagent":
        above = before.sibling(state.parent)
        if taker.name in above.subagent_ids and above.subagent_ids[taker.name] != before.agent_id:
            raise BadArguments(f"{above.name} has a subagent {taker.name!r} already")
    moved = AgentMoved(
        agent_id=taker.agent_id,
        place=state.place,
        replaces=before.agent_id,
        replaced_as=now,
        cause=cause,
    )
    taker.session.append_all([*_budget_for(taker, before, cause), moved])


def _budget_for(taker: Agent, before: Agent, cause: Cause) -> list[Event]:
    """Return what gives an agent the budget of the place that it takes: the tighter of both."""
    own, theirs = budget_of(taker.state.spec), budget_of(before.state.spec)
    if theirs is None:
        return []
    tighter = {
        name: min((limit for limit in limits if limit is not None), default=None)
        for name in Budget.__struct_fields__
        for limits in [[getattr(one, name) for one in (own, theirs) if one is not None]]
    }
    budget = msgspec.to_builtins(Budget(**tighter))
    if budget == taker.state.spec.get("budget"):
        return []
    return [AgentConfigured(agent_id=taker.agent_id, spec={"budget": budget}, cause=cause)]


def _last_input(agent: Agent) -> str:
    """Return the beginning of what an agent was last told by somebody else than its hooks."""
    for message in reversed(agent.session.context(agent.agent_id)):
        if message.role == "user" and getattr(message, "cause", None) is None:
            return text_of(message.content)[:LONGEST]
    return ""
