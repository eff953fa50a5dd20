"""`meta`, `endo`, `talk_with`: who stands where.

One idea: a move is a swap of two that stand directly above each other, in one event. So each is
undone by the other, at any depth, and a crash leaves none half done. What belongs to a place goes
with it: its budget, and where whoever stands there as a hook is asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from harken.agents.agent import Agent
from harken.agents.budget import Budget, budget_of
from harken.agents.guards import MOVED, SELF_MADE, is_born_as_hook, is_made
from harken.agents.tool_agent import ToolAgent
from harken.agents.tree.actions import copies_for, get_subagents, install, log_text_piece, prompt_in
from harken.agents.tree.hook_action import protocol, watched_by
from harken.core.events import AgentMoved, Cause, Reference
from harken.core.ids import reference_message_id
from harken.core.messages import text_of
from harken.core.verdict import POINTS
from harken.world.permissions.permissions import narrower
from harken.world.result import InvalidArguments, ToolResult

LONGEST = 4_000
"""How much of its input whoever takes an agent's place is told, in characters."""


async def run_endo(agent: ToolAgent, call: Reference, arguments: Mapping[str, Any]) -> ToolResult:
    """Let a subagent take the caller's place; the caller is its last hook.

    Raises InvalidArguments.
    """
    name, prompt = arguments["subagent"], prompt_in(arguments["prompt"])
    (child,) = get_subagents(agent, [name])
    await child.finish_calls()
    (child,) = get_subagents(agent, [name])  # its hook may have taken its place by then
    check_endo(agent, child)
    if agent.state.place == "hook":
        duty = protocol(_points_at(agent), "all").strip()
        agent.inform(child, log_text_piece(agent, call, f"You take my place. {duty}"))
    if prompt is not None:  # it hears this first: when it stands there, it owes the answer
        agent.inform(child, log_text_piece(agent, call, prompt))
    endo(agent, child, call, arguments["points"])
    return ToolResult(f"{child.name} has taken your place; you watch it as its hook.")


async def run_meta(agent: ToolAgent, call: Reference, arguments: Mapping[str, Any]) -> ToolResult:
    """Let the calling hook take the place of the agent that it watches. Raises InvalidArguments."""
    watched = watched_by(agent)
    heard = _last_input(watched)
    meta(agent, call)
    said = f" It was last told: {heard}" if heard else ""
    return ToolResult(f"You have taken the place of {watched.name}, now your subagent.{said}")


async def run_talk_with(
    agent: ToolAgent, call: Reference, arguments: Mapping[str, Any]
) -> ToolResult:
    """Let another agent take the caller's place, the caller waits. Raises InvalidArguments.

    An agent leads to subagents alone: it has no authority over hooks. A user leads to both.
    """
    is_own = reference_message_id(call) in agent.session.state.cause_owners
    taken = talk_with(agent, arguments["name"], call, hooks=not is_own)
    return ToolResult(f"{taken.name} has taken your place.")


def endo(agent: Agent, child: Agent, cause: Cause, points: Sequence[str] | None = None) -> None:
    """Let a subagent take the place of its parent, which becomes its last hook.

    points: where the parent is asked then (None: everywhere). What watches the parent and not the
    child gets a copy that does: a move is no way out from under a hook. Raises InvalidArguments,
    AgentBusy.
    """
    check_endo(agent, child)
    install(copies_for(child, agent, below=False), child, but={agent.name})
    _swap(child, agent, "hook", cause, points)


def check_endo(agent: Agent, child: Agent) -> None:
    """Raise InvalidArguments or AgentBusy where a subagent cannot take its parent's place."""
    child.check_free()
    _check_talks(child)
    _check_names(child, agent, agent, "hook")


def meta(hook: Agent, cause: Cause) -> None:
    """Let a hook take the place of the agent that it watches, which becomes its subagent.

    One that the agent made gets copies of what watches that one: before the move, so that nobody
    stands there without them whenever a crash comes. Raises InvalidArguments.
    """
    watched = watched_by(hook)
    _check_talks(hook)
    _check_names(hook, watched, watched, "subagent")
    if is_made(hook.state.spec):
        install(copies_for(hook, watched, own=False, below=False), hook)
    _swap(hook, watched, "subagent", cause)


def talk_with(agent: Agent, path: str, cause: Cause, *, hooks: bool = True) -> Agent:
    """Let a subagent or a hook of an agent take its place, or one further down: `editor/critic`.

    An agent that a subagent replaces waits as its silent hook; one that was born as a hook goes on
    to watch as it did. hooks: whether it may lead to them. Raises InvalidArguments and AgentBusy,
    where nothing has moved.
    """
    way = _way(agent, path, hooks=hooks)
    for at, one in zip([agent, *way], way, strict=False):
        if one.state.place == "hook":
            meta(one, cause)
        else:
            endo(at, one, cause, points=_points_at(at) if is_born_as_hook(at.state.spec) else ())
    return way[-1]


def _way(agent: Agent, path: str, *, hooks: bool) -> list[Agent]:
    """Return the agents that a path leads through; each could take the place where it begins."""
    way: list[Agent] = []
    for name in path.split("/"):
        at = way[-1] if way else agent
        there = {hook.name: hook for hook in at.hooks} | at.subagents
        if name not in there:
            raise InvalidArguments(
                f"{at.name} has no subagent or hook {name!r}; there is: "
                f"{', '.join(there) or 'nobody'}"
            )
        one = there[name]
        if one.state.place == "hook" and not hooks:
            raise InvalidArguments("a hook is not yours to move: only it, or the user, can do that")
        one.check_free()
        _check_talks(one)
        _check_names(one, at, agent, "subagent" if one.state.place == "hook" else "hook")
        way.append(one)
    return way


def _check_talks(taker: Agent) -> None:
    if not taker.can_talk:
        raise InvalidArguments(f"{taker.name} only judges: it cannot talk with anybody")


def _check_names(
    taker: Agent, before: Agent, first: Agent, now: Literal["subagent", "hook"]
) -> None:
    """Raise InvalidArguments where two in one row would have one name.

    first: who stands in the row in which the taker will.
    """
    place, above = first.state.place, first.state.parent
    if above is not None:
        higher = first.agent_by_id(above)
        _check_row(higher, place, taker.name, but=(first.agent_id, taker.agent_id))
    _check_row(taker, now, before.name, but=(before.agent_id,))


def _check_row(above: Agent, place: str, name: str, but: Sequence[str]) -> None:
    state, agents = above.state, above.session.agents
    row = state.hooks if place == "hook" else state.subagents
    if name in {agents[id_].name or id_ for id_ in row if id_ not in but}:
        raise InvalidArguments(
            f"{above.name} has a {place} {name!r} already, so no move is possible"
        )


def _swap(
    taker: Agent,
    before: Agent,
    now: Literal["subagent", "hook"],
    cause: Cause,
    points: Sequence[str] | None = None,
) -> None:
    """Let one agent take the place of the one that it stands at, with what goes with the place.

    points: where that one is asked from now on, where it is a hook then.
    """
    place = before.state.place
    own: dict[str, Any] = {}
    if place == "hook":
        own = {"points": _points_at(before), **_made_as(before, taker)}
    theirs: dict[str, Any] = {}
    if now == "hook":
        theirs = {"points": None if points is None else list(points)}
        theirs |= {} if is_born_as_hook(before.state.spec) else {SELF_MADE: MOVED}
    moved = AgentMoved(
        agent_id=taker.agent_id,
        place=place,
        replaces=before.agent_id,
        replaced_as=now,
        spec=_changed(taker, {**_limits_for(taker, before), **own}),
        replaced_spec=_changed(before, theirs),
        cause=cause,
    )
    taker.session.append(moved)


def _changed(agent: Agent, members: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the members that an agent's spec does not have so; None: there is none."""
    spec = agent.state.spec
    return {name: value for name, value in members.items() if spec.get(name) != value} or None


def _points_at(hook: Agent) -> list[str] | None:
    """Return where a hook is asked, as its spec says it; None: everywhere."""
    asked_at = hook.hook_points
    return None if asked_at == POINTS else sorted(asked_at)


def _made_as(before: Agent, taker: Agent) -> dict[str, Any]:
    """Return what goes over to who takes the place of a hook that an agent put there itself."""
    made = before.state.spec.get(SELF_MADE)
    return {SELF_MADE: made} if made and not is_made(taker.state.spec) else {}


def _limits_for(taker: Agent, before: Agent) -> dict[str, Any]:
    """Return the limits of who takes a place: the tighter of its own and those of the place."""
    return {**_budget_for(taker, before), **_permission_for(taker, before)}


def _permission_for(taker: Agent, before: Agent) -> dict[str, Any]:
    own, theirs = (one.state.spec.get("permission") for one in (taker, before))
    if theirs is None:
        return {}
    return {"permission": theirs if own is None else narrower(own, theirs)}


def _budget_for(taker: Agent, before: Agent) -> dict[str, Any]:
    own, theirs = budget_of(taker.state.spec), budget_of(before.state.spec)
    if theirs is None:
        return {}
    tighter = {
        name: min((limit for limit in limits if limit is not None), default=None)
        for name in Budget.__struct_fields__
        for limits in [[getattr(one, name) for one in (own, theirs) if one is not None]]
    }
    return {"budget": msgspec.to_builtins(Budget(**tighter))}


def _last_input(agent: Agent) -> str:
    """Return the beginning of what an agent was last told by somebody else than its hooks."""
    for message in reversed(agent.session.context(agent.agent_id)):
        if message.role == "user" and getattr(message, "cause", None) is None:
            return text_of(message.content)[:LONGEST]
    return ""
