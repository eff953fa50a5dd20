"""The moves `meta`, `endo` and `talk_with`: agents that swap places in the tree.

A move swaps two agents of which the first is the parent of the second, in a single event. Each move
is therefore undone by the opposite move, at any depth, and a crash never leaves a move half done.
The properties of a place stay with it: its budget, and the points at which its agent is asked as a
hook.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from harken.agents import texts
from harken.agents.agent import Agent, check_free, get_agent
from harken.agents.call_result import answer_call, close_moved_call
from harken.agents.dumb_agent import can_answer
from harken.agents.hooks.hook import hook_points
from harken.agents.hooks.smart_hook import is_judging
from harken.agents.open_calls import finish_open_calls
from harken.agents.stopped_turn import log_moved_stop
from harken.agents.structure import CODE_CALL_PREFIX
from harken.agents.tool_agent import ToolAgent
from harken.agents.tree.action_result import ActionResult
from harken.agents.tree.actions import (
    create_hook_copies,
    get_subagents,
    install_hooks,
    log_text_piece,
    select_prompt,
)
from harken.agents.tree.hook_action import get_watched
from harken.core.arguments import format_existing
from harken.core.event_types.spec import (
    NO_LIMITS,
    NO_STANDING,
    Budget,
    HookPoint,
    Limits,
    MadeBy,
    PermissionMode,
    Standing,
)
from harken.core.events import AgentMoved, Cause, Reference, TranscriptEntry
from harken.core.ids import reference_message_id
from harken.core.messages import text_of
from harken.core.verdict import HOOK_POINTS
from harken.world.permissions.mode import narrower
from harken.world.result import InvalidArguments

MOVES = frozenset({"meta", "endo", "talk_with"})
"""The actions after which another agent has an agent's place."""
MAX_INPUT_CHARS = 4_000
"""Maximum characters of the last input that are shown to an agent that takes another's place."""


async def run_endo(
    agent: Agent, call: Reference, arguments: Mapping[str, Any]
) -> ActionResult[Agent]:
    """Let a subagent take the caller's place; the caller becomes its last hook.

    Raises InvalidArguments.
    """
    name, prompt = arguments["subagent"], select_prompt(arguments["prompt"])
    (child,) = get_subagents(agent, [name])
    await finish_open_calls(child)
    (child,) = get_subagents(agent, [name])  # its hook may have taken its place by then
    check_endo(agent, child)
    with agent.session.group():
        if agent.state.place == "hook":  # before the prompt, which its hooks judge
            child._update_duty(is_hook=True, points=_spec_points(agent))
        elif prompt is not None or _is_own(agent, call):  # else the user's command tells it
            _announce_place(child, agent, call)
        if prompt is not None:  # it hears this first: when it stands there, it owes the answer
            agent.inform(child, log_text_piece(agent, call, prompt))
        endo(agent, child, call, arguments["points"])
        text = texts.ENDO_RESULT.format(child.name)
        return _answer_move(agent, call, ActionResult(text, value=child))


async def run_meta(
    agent: Agent, call: Reference, arguments: Mapping[str, Any]
) -> ActionResult[Agent]:
    """Let the calling hook take the place of the agent it watches. Raises InvalidArguments."""
    watched = get_watched(agent)
    last_input = _last_input(watched)
    context = texts.META_LAST_INPUT.format(last_input) if last_input else ""
    text = texts.META_RESULT.format(watched.name, context)
    with agent.session.group():
        is_asked = is_judging(agent)
        is_relieved = meta(agent, call)
        text += f" {_format_relief(agent)}" if is_relieved else ""
        if is_asked and isinstance(watched, ToolAgent):
            log_moved_stop(watched)  # the hook judged a message of its turn
        return answer_call(agent, call, ActionResult(text, value=watched))


async def run_talk_with(
    agent: Agent, call: Reference, arguments: Mapping[str, Any]
) -> ActionResult[Agent]:
    """Let another agent take the caller's place; the caller waits. Raises InvalidArguments.

    An agent may name only subagents, since it has no authority over hooks. A user may name both.
    """
    is_own = _is_own(agent, call)
    with agent.session.group():
        path = _resolve_path(agent, arguments["name"], hooks=not is_own)
        if is_own:
            _announce_place(path[-1], agent, call)
        taker = talk_with(agent, arguments["name"], call, hooks=not is_own)
        text = texts.TALK_WITH_RESULT.format(taker.name)
        return _answer_move(agent, call, ActionResult(text, value=taker))


def _is_own(agent: Agent, call: Reference) -> bool:
    """Whether an agent moves by a call of its own, not by a command of the user."""
    return reference_message_id(call) in agent.session.state.cause_owners


def _announce_place(taker: Agent, before: Agent, cause: Cause) -> None:
    """Tell a subagent that takes the place of the primary agent that it talks with the user."""
    if before.state.place != "primary" or not isinstance(taker, ToolAgent):
        return
    entry = TranscriptEntry(
        agent_id=taker.agent_id,
        role="user",
        content=texts.NEW_PRIMARY.format(before.name),
        cause=cause,
        purpose="told",
    )
    taker.session.append(entry)


def _answer_move(agent: Agent, call: Reference, result: ActionResult[Agent]) -> ActionResult[Agent]:
    """Log the result of a move, and the end of the turn in which a model made it.

    Calls of the same message that have not begun are not run.
    """
    open_calls = agent.state.open_calls.values()
    move_call = next((item for item in open_calls if item.reference == call), None)
    answer_call(agent, call, result)
    if move_call is not None and not move_call.id.startswith(CODE_CALL_PREFIX):
        for later in list(agent.state.open_calls.values()):
            if not later.is_started:
                close_moved_call(agent, later)
        log_moved_stop(agent)
    return result


def endo(
    agent: Agent, child: Agent, cause: Cause, points: Sequence[HookPoint] | None = None
) -> None:
    """Let a subagent take the place of its parent, which becomes its last hook.

    points: the points at which the parent is asked then (None: all). Hooks of the parent that do
    not watch the child get copies that do: a move must not escape a hook. Raises InvalidArguments,
    AgentBusy.
    """
    check_endo(agent, child)
    copies = create_hook_copies(child, agent, below=False)
    with agent.session.group():
        install_hooks(copies, child, but={agent.name})
        _swap(child, agent, "hook", cause, points)


def check_endo(agent: Agent, child: Agent) -> None:
    """Raise InvalidArguments or AgentBusy if a subagent cannot take its parent's place."""
    check_free(child)
    _check_talks(child)
    _check_names(child, agent, agent, "hook")


def meta(hook: Agent, cause: Cause) -> bool:
    """Let a hook take the place of the agent that it watches, which becomes its subagent.

    Return whether it had the duty of a hook and is not told yet that nobody asks it any more.

    A self-made hook gets copies of the hooks of the watched agent in the same group of events, so
    that it is never without them. Raises InvalidArguments.
    """
    watched = get_watched(hook)
    _check_talks(hook)
    _check_names(hook, watched, watched, "subagent")
    is_self_made = hook.state.spec.standing.is_made
    copies = create_hook_copies(hook, watched, own=False, below=False) if is_self_made else []
    with hook.session.group():
        install_hooks(copies, hook)
        return _swap(hook, watched, "subagent", cause)


def talk_with(agent: Agent, path: str, cause: Cause, *, hooks: bool = True) -> Agent:
    """Let a subagent or hook take the place of an agent; `editor/critic` goes deeper.

    A replaced agent waits as a silent hook of the subagent; an agent created as a hook keeps its
    points. hooks: whether the path may name hooks. Raises InvalidArguments and AgentBusy before
    anything has moved.
    """
    path_agents = _resolve_path(agent, path, hooks=hooks)
    with agent.session.group():
        for above, taker in zip([agent, *path_agents], path_agents, strict=False):
            if taker.state.place == "hook":
                meta(taker, cause)
            else:
                endo(
                    above,
                    taker,
                    cause,
                    points=_spec_points(above) if above.state.spec.is_born_as_hook else (),
                )
    return path_agents[-1]


def _resolve_path(agent: Agent, path: str, *, hooks: bool) -> list[Agent]:
    """Return the agents on a path, each checked to be able to take the first agent's place."""
    path_agents = _find_path(agent, path, hooks=hooks)
    for above, candidate in zip([agent, *path_agents], path_agents, strict=False):
        check_free(candidate)
        _check_talks(candidate)
        _check_names(
            candidate, above, agent, "subagent" if candidate.state.place == "hook" else "hook"
        )
    return path_agents


def _find_path(agent: Agent, path: str, *, hooks: bool) -> list[Agent]:
    """Return the agents on a path of names or ids; a name may contain a slash.

    Raises InvalidArguments if there is no such path, or if several agents are at its end.
    """
    matches: list[list[Agent]] = []
    pending: list[tuple[list[Agent], str]] = [([], path)]
    deepest: tuple[Agent, str] = agent, path
    for agents, tail in pending:  # the loop extends it
        above = agents[-1] if agents else agent
        if len(tail) < len(deepest[1]):
            deepest = above, tail
        for candidate in (*above.hooks, *above.subagents.values()):
            names = {candidate.name, candidate.agent_id}
            matches += [[*agents, candidate]] if tail in names else []
            pending += [
                ([*agents, candidate], tail.removeprefix(f"{name}/"))
                for name in names
                if tail.startswith(f"{name}/")
            ]
    if not matches:
        raise _no_such_agent(*deepest)
    allowed = [match for match in matches if hooks or not _has_hook(match)]
    if not allowed:
        raise InvalidArguments("you cannot move a hook: only the hook itself or the user can")
    if len(allowed) > 1:
        places = ", ".join(f"a {match[-1].state.place} ({match[-1].agent_id})" for match in allowed)
        raise InvalidArguments(f"{path!r} names several agents: {places}; use an id")
    return allowed[0]


def _has_hook(agents: Sequence[Agent]) -> bool:
    return any(agent.state.place == "hook" for agent in agents)


def _no_such_agent(above: Agent, tail: str) -> InvalidArguments:
    names = [agent.name for agent in (*above.hooks, *above.subagents.values())]
    return InvalidArguments(
        f"{above.name} has no subagent or hook {tail.partition('/')[0]!r}"
        + format_existing(names, "agents below it")
    )


def _check_talks(taker: Agent) -> None:
    if not can_answer(type(taker)):
        raise InvalidArguments(
            f"{taker.name} only gives verdicts: it cannot take part in a conversation"
        )


def _check_names(
    taker: Agent, replaced: Agent, first: Agent, new_place: Literal["subagent", "hook"]
) -> None:
    """Raise InvalidArguments if two siblings would have the same name.

    first: the agent among whose siblings the taker will stand.
    """
    place, above = first.state.place, first.state.parent
    if above is not None:
        higher = get_agent(first, above)
        _check_row(higher, place, taker.name, but=(first.agent_id, taker.agent_id))
    _check_row(taker, new_place, replaced.name, but=(replaced.agent_id,))


def _check_row(above: Agent, place: str, name: str, but: Sequence[str]) -> None:
    state, agents = above.state, above.session.agents
    ids = state.hooks if place == "hook" else state.subagents
    if name in {agents[id_].name or id_ for id_ in ids if id_ not in but}:
        raise InvalidArguments(f"{above.name} already has a {place} {name!r}")


def _swap(
    taker: Agent,
    before: Agent,
    now: Literal["subagent", "hook"],
    cause: Cause,
    points: Sequence[HookPoint] | None = None,
) -> bool:
    """Log the swap of an agent with the agent above it, with the properties of the place.

    points: the points at which the replaced agent is asked if it becomes a hook. The duty of a hook
    goes with the place. Return whether the agent lost it and has an open call, whose result is to
    say so; otherwise it gets a message.
    """
    place = before.state.place
    standing, replaced_standing = NO_STANDING, NO_STANDING
    if place == "hook":
        standing = Standing(points=_spec_points(before), made=_inherited_made(before, taker))
    if now == "hook":
        replaced_standing = Standing(
            points=sorted(HOOK_POINTS) if points is None else [*points],
            made=None if before.state.spec.is_born_as_hook else "moved",
        )
    event = AgentMoved(
        agent_id=taker.agent_id,
        place=place,
        replaces=before.agent_id,
        replaced_as=now,
        spec=taker.state.spec.change(_limits_for(taker, before), standing),
        replaced_spec=before.state.spec.change(NO_LIMITS, replaced_standing),
        cause=cause,
    )
    is_hook = now == "hook"
    with taker.session.group():
        taker.session.append(event)
        before._update_duty(is_hook=is_hook, points=points if is_hook else None)
        if place == "hook":
            taker._update_duty(is_hook=True, points=_spec_points(taker))
            return False
        return taker._update_duty(is_hook=False) and not _relieve(taker, cause)


def _relieve(agent: Agent, cause: Cause) -> bool:
    """Tell an agent that it is asked for verdicts no more. Return whether that was possible."""
    if agent.state.open_calls:
        return False  # no message can stand between a call and its result
    entry = TranscriptEntry(
        agent_id=agent.agent_id,
        role="user",
        content=_format_relief(agent),
        cause=cause,
        purpose="told",
    )
    agent.session.append(entry)
    return True


def _format_relief(agent: Agent) -> str:
    above = agent.state.parent
    talker = texts.THE_USER if above is None else get_agent(agent, above).name
    return texts.HOOK_DUTY_ENDED.format(talker)


def _spec_points(hook: Agent) -> list[HookPoint]:
    """Return the points of a hook for its spec."""
    return sorted(hook_points(hook))


def _inherited_made(before: Agent, taker: Agent) -> MadeBy | None:
    """Return the mark that the new agent inherits with the place of a hook that is no guard."""
    standing = before.state.spec.standing
    is_kept = standing.is_guard or taker.state.spec.standing.is_made
    return None if is_kept else standing.made


def _limits_for(taker: Agent, before: Agent) -> Limits:
    """Return the limits of the new agent: the tighter of its own and those of the place."""
    limits = (taker.state.spec.limits, before.state.spec.limits)
    return Limits(permission=_tighter_permission(*limits), budget=_tighter_budget(*limits))


def _tighter_permission(limits: Limits, place_limits: Limits) -> PermissionMode | None:
    if limits.permission is None or place_limits.permission is None:
        return place_limits.permission
    return narrower(limits.permission, place_limits.permission)


def _tighter_budget(limits: Limits, place_limits: Limits) -> Budget | None:
    limit_of_taker, place_budget = limits.budget, place_limits.budget
    if place_budget is None:
        return None
    tighter = {
        name: min((limit for limit in limits if limit is not None), default=None)
        for name in Budget.__struct_fields__
        for limits in [
            [
                getattr(budget, name)
                for budget in (limit_of_taker, place_budget)
                if budget is not None
            ]
        ]
    }
    return Budget(**tighter)


def _last_input(agent: Agent) -> str:
    """Return the start of the last input of an agent that did not come from its hooks."""
    for message in reversed(agent.session.context(agent.agent_id)):
        if message.role == "user" and getattr(message, "cause", None) is None:
            return text_of(message.content)[:MAX_INPUT_CHARS]
    return ""
