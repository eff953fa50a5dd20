"""Interrupted structural calls: how far they had come, and how they are ended.

A crash, a cancellation or a failed model call leaves calls without a result. Their effects are in
the log, so the later result can say more than "it may have acted". A birth is in the log with all
hooks, memory and instructions of the new agent, or not at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harken.agents import texts
from harken.agents.agent import Agent
from harken.agents.tree.actions import filter_strings, parse_arguments_or_empty
from harken.core.events import AgentCreated, AgentMoved, Event
from harken.core.ids import AgentId, reference_number
from harken.session.log.reader import iter_events
from harken.session.state import AgentState, OpenCall

CREATING_ACTIONS = frozenset({"hook", "clone", "restore"})
"""Actions besides `task` that create agents."""
MOVING_ACTIONS = frozenset({"meta", "endo", "talk_with"})
"""Actions after which another agent has an agent's place."""


def describe_interrupted_call(agent: Agent, call: OpenCall) -> str:
    """Return the known effects of an interrupted call; empty for most tools."""
    if call.name == "task":
        return _describe_task(agent, call)
    if call.name == "discuss":
        return _describe_discuss(agent, call)
    if call.name in CREATING_ACTIONS:
        created = [agent.session.agents[id_] for id_ in _created_agents(agent, call)]
        names = [_name(state) for state in created if state.place != "gone"]
        return texts.CREATED_BEFORE.format(
            _join_names(names[:1])
        )  # the others are below or above the first
    if call.name in MOVING_ACTIONS:
        return _describe_move(agent, call)
    return ""


def _created_agents(agent: Agent, call: OpenCall) -> list[AgentId]:
    """Return the agents that a call created, oldest first. Reads the log."""
    births = (
        event for event in _iter_caused_events(agent, call) if isinstance(event, AgentCreated)
    )
    return [birth.agent_id for birth in births if birth.agent_id is not None]


def _describe_move(agent: Agent, call: OpenCall) -> str:
    agents = agent.session.agents
    moves = [event for event in _iter_caused_events(agent, call) if isinstance(event, AgentMoved)]
    if not moves:
        return texts.NOT_MOVED
    taker = agents[moves[-1].agent_id or agent.agent_id]
    return texts.MOVED_BEFORE.format(_name(taker))


def _iter_caused_events(agent: Agent, call: OpenCall) -> Iterator[Event]:
    """Yield the events that a call caused."""
    for event in iter_events(agent.session.path):
        cause = getattr(event, "cause", None)
        if call.reference in ([cause] if isinstance(cause, str) else cause or ()):
            yield event


def _describe_task(agent: Agent, call: OpenCall) -> str:
    child = _find_task_agent(agent, call)
    if child is None:
        return texts.TASK_NOT_CREATED
    arguments = parse_arguments_or_empty(call.arguments)
    if not (arguments.get("prompt") or arguments.get("user_prompt")):
        return texts.TASK_CREATED.format(_name(child))
    has_answered = _has_answered(agent, child, call)
    template = texts.TASK_ANSWERED if has_answered else texts.TASK_UNANSWERED
    return template.format(_name(child))


def _describe_discuss(agent: Agent, call: OpenCall) -> str:
    agents, names = (
        agent.session.agents,
        filter_strings(parse_arguments_or_empty(call.arguments).get("speakers")),
    )
    ids: Sequence[AgentId] = agent.state.speakers
    if names:
        by_name = {agents[id_].name: id_ for id_ in agent.state.subagents}
        ids = [by_name[name] for name in dict.fromkeys(names) if name in by_name]
    names_done = [_name(agents[id_]) for id_ in ids if _has_answered(agent, agents[id_], call)]
    silent = [_name(agents[id_]) for id_ in ids if _name(agents[id_]) not in names_done]
    if not ids:
        return ""
    return texts.DISCUSS_PROGRESS.format(_join_names(names_done), _join_names(silent))


def _find_task_agent(agent: Agent, call: OpenCall) -> AgentState | None:
    """Return the live subagent that a `task` created; a hook may have changed its name."""
    subagents = [agent.session.agents[id_] for id_ in agent.state.subagents]
    since = reference_number(call.reference)
    created = [child for child in subagents if reference_number(child.birth) > since]
    name = parse_arguments_or_empty(call.arguments).get("name")
    matches = [child for child in created if child.name == name]
    tasks = [open_call for open_call in agent.state.open_calls.values() if open_call.name == "task"]
    return next(iter(matches or (created if len(tasks) == 1 else [])), None)


def _has_answered(agent: Agent, answerer: AgentState, call: OpenCall) -> bool:
    """Whether another agent has answered completely since the call."""
    causes: set[str] = set()  # an interrupted answer is the cause of a note
    for entry in reversed(agent.session.agent(answerer.id).transcript or ()):
        if reference_number(entry.message_id) <= reference_number(call.reference):
            return False
        if entry.is_utterance and entry.message_id not in causes:
            return True
        causes.add(entry.cause if isinstance(entry.cause, str) else "")
    return False


def _name(agent: AgentState) -> str:
    return agent.name or agent.id


def _join_names(names: Sequence[str]) -> str:
    return ", ".join(names) or texts.NO_NAMES
