"""`AgentSnapshot`: the content of an agent, independent of the session in which it lives.

Another agent can be created from it: in the same session (a clone), or in another session (a dump).
Members that belong to a place in the tree or to a session are not in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile

import msgspec

from harken.agents import texts
from harken.agents.agent import Agent, get_agent
from harken.agents.agent_classes import get_agent_class
from harken.agents.hooks.duty import is_duty
from harken.agents.hooks.hook import Hook
from harken.agents.initial_transcript import UNNAMED, complete_transcript, message_dict
from harken.agents.runtime import AgentRuntime
from harken.core import structs
from harken.core.event_types.spec import SMART, AgentSpec
from harken.core.events import AgentStateSaved, Cause, InterlocutorsSet, Json, Relation
from harken.core.ids import AgentId, MessageId
from harken.core.messages import Message
from harken.session.fold import current_messages
from harken.session.session import Session
from harken.session.state import AgentState


class AgentSnapshot(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True, frozen=True):
    """The content of an agent, as stored in dumps (docs/formats/agent-dump.md)."""

    name: str
    spec: AgentSpec
    """Its spec, without what refers to the session."""
    model: str | None = None
    transcript: list[dict[str, Json]] = []
    """The context that its model would read, including the system prompt, as message dicts."""
    saved: Json = None
    """The saved state of a dumb agent."""
    hooks: list[AgentSnapshot] = []
    """In the order in which they are asked."""
    subagents: list[AgentSnapshot] = []
    speakers: list[str] = []
    listeners: list[str] = []

    @property
    def kind(self) -> str:
        """`smart`, or the name of a registered class."""
        return self.spec.kind or SMART

    def iter_snapshots(self) -> Iterator[AgentSnapshot]:
        """Yield the agent and all agents above and below it, parents before children."""
        pending = [self]
        for snapshot in pending:  # the loop extends it
            pending += [*snapshot.hooks, *snapshot.subagents]
            yield snapshot

    @property
    def levels(self) -> int:
        """The number of levels of subagents below it."""
        count, level = 0, [self]
        while level := [child for snapshot in level for child in snapshot.subagents]:
            count += 1
        return count


def snapshot_agent(agent: Agent) -> AgentSnapshot:
    """Return the snapshot of a single agent; its messages keep the ids of its session."""
    state = agent.state
    return AgentSnapshot(
        name=agent.name,
        spec=state.spec.portable(),
        model=state.language_model,
        transcript=_messages(agent),
        saved=state.saved_state,
    )


def snapshot_subtree(agent: Agent, call: str, *, is_users: bool) -> AgentSnapshot:
    """Return the snapshot of an agent with its hooks and subagents, for another session.

    Open calls get a result; that of `call`, the dump itself, says that it was done. Agents that
    cannot be restored elsewhere are left out. An agent must not learn the thoughts of its hooks:
    unless the user asked for the snapshot, hooks are reduced to their instructions.
    """
    state, agents = agent.state, agent.session.agents
    hooks = [hook for hook in (get_agent(agent, id_) for id_ in state.hooks) if hook._can_restore]
    if is_users:
        hook_plans = [snapshot_subtree(hook, call, is_users=True) for hook in hooks]
    else:
        hook_plans = [plan for plan in map(_strip_hook, hooks) if plan is not None]
    children = [child for child in agent.subagents.values() if child._can_restore]
    names = {child.agent_id: child.name for child in children}
    return structs.replace(
        snapshot_agent(agent),
        transcript=_closed_transcript(agent, call),
        hooks=hook_plans,
        subagents=[snapshot_subtree(child, call, is_users=is_users) for child in children],
        speakers=[names[id_] for id_ in state.speakers if id_ in names and id_ in agents],
        listeners=[names[id_] for id_ in state.listeners if id_ in names and id_ in agents],
    )


def _messages(agent: Agent) -> list[dict[str, Json]]:
    """Return the context of an agent without its duty: a restored hook gets one at its birth."""
    messages = current_messages(agent.state)
    return [message_dict(message) for message in messages if not is_duty(message)]


def _strip_hook(hook: Agent) -> AgentSnapshot | None:
    """Return a hook with its instructions only, without its later context and state.

    Returns None for an agent that became a hook by a move: it is not copied.
    """
    plan = snapshot_agent(hook)
    if not isinstance(hook, Hook) and not plan.spec.is_born_as_hook:
        return None
    system_messages = takewhile(lambda message: message.get("role") == "system", plan.transcript)
    return structs.replace(plan, transcript=[*system_messages], saved=None)


def _closed_transcript(agent: Agent, call: str) -> list[dict[str, Json]]:
    """Return a transcript without ids in which every call has its result."""
    log_members = ("message_id", "substance")
    messages = [
        {n: v for n, v in message.items() if n not in log_members} for message in _messages(agent)
    ]
    for open_call in agent.state.open_calls.values():
        is_dump = open_call.reference == call
        result = Message(
            "tool",
            texts.DUMPED_HERE if is_dump else texts.INTERRUPTED.format(open_call.name),
            tool_call_id=open_call.id,
            name=open_call.name or UNNAMED,
            is_error=not is_dump,
        )
        messages.append(message_dict(result))
    return messages


def create_from_snapshot(plan: AgentSnapshot, session: Session, runtime: AgentRuntime) -> Agent:
    """Create an agent, without its birth, from a snapshot.

    It is created like a revived agent: its class gets the spec and the state. Raises NameNotFound,
    ValueError, and what its class raises.
    """
    initial = complete_transcript(plan.transcript)
    kind: type[Agent] = get_agent_class(plan.kind, runtime.library)
    state = AgentState(id=session.allocate_agent_id(), birth=MessageId(""))
    state.name, state.language_model = plan.name, plan.model
    state.spec, state.saved_state = plan.spec, plan.saved
    try:
        agent = kind._from_state(session, state, runtime)
    except BaseException:
        session.live.pop(state.id, None)
        raise
    agent._initial += initial
    return agent


def log_snapshot_birth(
    agent: Agent, plan: AgentSnapshot, cause: Cause, name: str, relation: Relation
) -> None:
    """Log the birth of an agent created from a snapshot, with its state and transcript."""
    with agent.session.group():
        agent.session.log_agent_created(
            agent.agent_id,
            cause,
            name,
            plan.model,
            relation=relation,
            spec=plan.spec,
        )
        if plan.saved is not None:
            agent.session.append(AgentStateSaved(agent_id=agent.agent_id, state=plan.saved))
        agent._log_initial_transcript()
        if relation == "hook":
            agent._update_duty(is_hook=True, points=agent.state.spec.standing.points)


def set_speakers(
    agent: Agent, call: str, speakers: Sequence[AgentId], listeners: Sequence[AgentId]
) -> None:
    """Log the agents that a new agent addresses, if there are any."""
    if speakers or listeners:
        event = InterlocutorsSet(
            agent_id=agent.agent_id, speakers=[*speakers], listeners=[*listeners], cause=call
        )
        agent.session.append(event)
