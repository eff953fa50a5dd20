"""Structural calls that were cut off: how far they had come.

A crash, a cancellation or a failed model call leaves calls without a result. What they had done
by then stands in the log, so the result that they get later can say more than "it may have
acted". And an agent that was cut off at its birth, before it had its hooks, its memory or its
instructions, is ended: nobody shall talk with an agent whose guards are missing, or be watched by
one that does not know what for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from harken.agents.agent import Agent
from harken.agents.guards import is_born_as_hook, is_made, may_act
from harken.agents.tree.actions import end_subtree, parse_arguments_or_empty, strings_in
from harken.core.events import AgentCreated, AgentMoved, Event
from harken.core.ids import AgentId, reference_number
from harken.session.log.reader import events
from harken.session.session import Session
from harken.session.state import AgentState, OpenCall

MAKING = frozenset({"hook", "clone", "restore"})
"""Actions, beside `task`, that make agents."""
MOVING = frozenset({"meta", "endo", "talk_with"})
"""Actions after which another agent stands in the place of one."""


def note_on(agent: Agent, call: OpenCall) -> str:
    """Return what is known of a call that was cut off; nothing for most tools."""
    if call.name == "task":
        return _note_on_task(agent, call)
    if call.name == "discuss":
        return _note_on_discuss(agent, call)
    if call.name in MAKING:
        made = [agent.session.agents[id_] for id_ in _born_of(agent, call)]
        there = [_name(one) for one in made if one.place != "gone"]
        return f" Made: {_listed(there[:1])}."  # the others stand below or above the first
    if call.name in MOVING:
        return _note_on_move(agent, call)
    return ""


def abandon(agent: Agent, call: OpenCall) -> None:
    """End what a call that makes an agent left half made when it was cut off."""
    if call.name in MAKING:
        _abandon_made(agent, call)
    elif call.name == "task":
        _abandon_task(agent, call)


def finish_watching(session: Session, revived: Callable[[AgentId], Agent]) -> None:
    """Complete what a crash left half done where a hook came: whoever shall be watched is.

    A smart hook without its instructions knows not what for: it is ended. One that was to reach
    those below it reaches those whom it had not. revived: gives an agent by its id.
    """
    is_live = session.state.is_live
    hooks = [state for state in session.agents.values() if state.place == "hook"]
    for state in hooks:
        is_empty = state.transcript == [] and not session.context(state.id)
        if is_empty and is_born_as_hook(state.spec) and is_live(state.id):
            end_subtree(session, state.id, state.birth)
    for state in hooks:
        if state.spec.get("reaches") and is_live(state.id):
            revived(state.id).copy_to_subagents()


def _abandon_made(agent: Agent, call: OpenCall) -> None:
    """End the agent that a call made, where something of it is missing.

    Such a call makes one agent, and then others below or above that one. When all are there, it
    names the first, if that is a subagent, as an interlocutor: so until the call has its result,
    the newest subagent is complete where it is one. A hook is complete when it has instructions;
    of one that may act nobody knows whether it has all its guards, so it is ended.
    """
    agents = agent.session.agents
    made = next((agents[id_] for id_ in _born_of(agent, call)), None)
    if made is None or made.parent is None or made.place not in ("subagent", "hook"):
        return
    above = agents[made.parent]
    is_smart = made.spec.get("kind") == "smart"
    if made.place == "hook":
        has_guards = is_made(made.spec) and may_act(made.spec)
        told = bool(agent.session.agent(made.id).transcript)
        is_whole = not is_smart or (told and not has_guards)
    else:
        is_whole = made.id in above.speakers or made.id != above.subagents[-1]
    if not is_whole:
        end_subtree(agent.session, made.id, call.reference)


def _born_of(agent: Agent, call: OpenCall) -> list[AgentId]:
    """Return the agents that a call made, oldest first: the log is read for it."""
    births = (event for event in _of(agent, call) if isinstance(event, AgentCreated))
    return [birth.agent_id for birth in births if birth.agent_id is not None]


def _note_on_move(agent: Agent, call: OpenCall) -> str:
    agents = agent.session.agents
    moved = [event for event in _of(agent, call) if isinstance(event, AgentMoved)]
    if not moved:
        return " Nobody has moved."
    taker = agents[moved[-1].agent_id or agent.agent_id]
    return f" {_name(taker)} has taken the place."


def _of(agent: Agent, call: OpenCall) -> Iterator[Event]:
    """Yield the events that a call caused."""
    for event in events(agent.session.path):
        cause = getattr(event, "cause", None)
        if call.reference in ([cause] if isinstance(cause, str) else cause or ()):
            yield event


def _abandon_task(agent: Agent, call: OpenCall) -> None:
    """End the subagent that a `task` left half made.

    `task` sets the interlocutors when a subagent is complete, and awaits nothing before: so only
    the newest subagent can be incomplete, and it is where it neither is one nor heard anything.
    """
    child = _made_by(agent, call)
    if child is None or child.id in agent.state.speakers or child.id != agent.state.subagents[-1]:
        return
    if all(entry.role == "system" for entry in agent.session.agent(child.id).transcript or ()):
        end_subtree(agent.session, child.id, call.reference)


def _note_on_task(agent: Agent, call: OpenCall) -> str:
    child = _made_by(agent, call)
    if child is None:
        return " No subagent was created."
    arguments = parse_arguments_or_empty(call.arguments)
    if not (arguments.get("prompt") or arguments.get("user_prompt")):
        return f" Subagent {_name(child)} was created."
    answered = "had" if _spoke(agent, child, call) else "had not"
    return f" Subagent {_name(child)} was created and {answered} answered."


def _note_on_discuss(agent: Agent, call: OpenCall) -> str:
    agents, named = (
        agent.session.agents,
        strings_in(parse_arguments_or_empty(call.arguments).get("speakers")),
    )
    ids: Sequence[AgentId] = agent.state.speakers
    if named:
        by_name = {agents[id_].name: id_ for id_ in agent.state.subagents}
        ids = [by_name[name] for name in dict.fromkeys(named) if name in by_name]
    spoken = [_name(agents[id_]) for id_ in ids if _spoke(agent, agents[id_], call)]
    silent = [_name(agents[id_]) for id_ in ids if _name(agents[id_]) not in spoken]
    if not ids:
        return ""
    return f" Had spoken: {_listed(spoken)}. Had not: {_listed(silent)}."


def _made_by(agent: Agent, call: OpenCall) -> AgentState | None:
    """Return the living subagent that a `task` made; a hook may have changed its name."""
    subagents = [agent.session.agents[id_] for id_ in agent.state.subagents]
    since = reference_number(call.reference)
    born = [child for child in subagents if reference_number(child.birth) > since]
    name = parse_arguments_or_empty(call.arguments).get("name")
    named = [child for child in born if child.name == name]
    tasks = [other for other in agent.state.open_calls.values() if other.name == "task"]
    return next(iter(named or (born if len(tasks) == 1 else [])), None)


def _spoke(agent: Agent, other: AgentState, call: OpenCall) -> bool:
    """Whether another agent has answered, to the end, since the call was made."""
    causes: set[str] = set()  # an answer that was cut off is the cause of a note that says so
    for entry in reversed(agent.session.agent(other.id).transcript or ()):
        if reference_number(entry.message_id) <= reference_number(call.reference):
            return False
        if entry.is_utterance and entry.message_id not in causes:
            return True
        causes.add(entry.cause if isinstance(entry.cause, str) else "")
    return False


def _name(agent: AgentState) -> str:
    return agent.name or agent.id


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "nobody"
