"""`AgentSnapshot`: all that makes an agent what it is, apart from the session in which it lives.

From it another agent is made: in the same session (a clone), or in another one (out of a dump).
What belongs to a place or to a session is not in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Any

import msgspec

from harken.agents.agent import Agent
from harken.agents.agent_classes import get_agent_class
from harken.agents.guards import is_born_as_hook
from harken.agents.hooks.hook import Hook
from harken.agents.initial_transcript import INTERRUPTED, UNNAMED, complete_transcript, message_dict
from harken.agents.runtime import AgentRuntime
from harken.core.events import AgentStateSaved, Cause, InterlocutorsSet, Json, Relation
from harken.core.ids import AgentId, MessageId
from harken.core.messages import Message
from harken.session.session import Session
from harken.session.state import AgentState

OF_A_PLACE = frozenset({"points", "keeps", "copy", "subagents", "self_made"})
"""Members of a spec that say how an agent stands as a hook."""
OF_A_SESSION = frozenset({"recorded", "rerun", "triggers", "original", "reaches", "leaves"})
"""Members of a spec that mean something only where the agent was born."""


class AgentSnapshot(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True, frozen=True):
    """What an agent is; dumps hold it so (docs/formats/agent-dump.md)."""

    kind: str
    """`smart`, or the name under which code is registered."""
    name: str
    model: str | None = None
    spec: dict[str, Json] = {}
    """What its birth says, but for the kind and what belongs to a session."""
    transcript: list[dict[str, Json]] = []
    """What its model would read, system prompt and all, as message dicts."""
    saved: Json = None
    """The state of one for whom code decides."""
    hooks: list[AgentSnapshot] = []
    """In the order in which they are asked."""
    subagents: list[AgentSnapshot] = []
    speakers: list[str] = []
    listeners: list[str] = []

    def everybody(self) -> Iterator[AgentSnapshot]:
        """Yield it and all above and below it; nobody comes before whom it stands at."""
        waiting = [self]
        for one in waiting:  # grows
            waiting += [*one.hooks, *one.subagents]
            yield one

    @property
    def levels(self) -> int:
        """How many levels of subagents stand below it."""
        deepest, row = 0, [self]
        while row := [below for one in row for below in one.subagents]:
            deepest += 1
        return deepest


def blueprint_of(agent: Agent) -> AgentSnapshot:
    """Return what an agent is, alone; its messages have the ids that they have in its session."""
    state = agent.state
    kept = {
        name: value
        for name, value in state.spec.items()
        if name not in OF_A_SESSION and name != "kind"
    }
    return AgentSnapshot(
        kind=state.spec.get("kind", "smart"),
        name=agent.name,
        model=state.language_model,
        spec=kept,
        transcript=agent.transcript,
        saved=state.saved_state,
    )


def with_everybody(agent: Agent, call: str, *, is_users: bool) -> AgentSnapshot:
    """Return what an agent is, with its hooks and subagents, for another session.

    Calls under way get a result, `call`, the one that asks for this, that it was done. Left out
    is who may not be taken elsewhere. An agent does not learn what watches it thinks: unless the
    user asks for this, hooks are as their copies begin.
    """
    state, agents = agent.state, agent.session.agents
    hooks = [hook for hook in map(agent.agent_by_id, state.hooks) if hook.can_restore]
    if is_users:
        above = [with_everybody(hook, call, is_users=True) for hook in hooks]
    else:
        above = [plan for plan in map(_as_copied, hooks) if plan is not None]
    below = [child for child in agent.subagents.values() if child.can_restore]
    there = {child.agent_id: child.name for child in below}
    return msgspec.structs.replace(
        blueprint_of(agent),
        transcript=_finished(agent, call),
        hooks=above,
        subagents=[with_everybody(child, call, is_users=is_users) for child in below],
        speakers=[there[id_] for id_ in state.speakers if id_ in there and id_ in agents],
        listeners=[there[id_] for id_ in state.listeners if id_ in there and id_ in agents],
    )


def _as_copied(hook: Agent) -> AgentSnapshot | None:
    """Return a hook with what it was told, without what it has heard, thought and kept since.

    None for one that came to stand there by a move: it is no hook of those that are copied.
    """
    plan = blueprint_of(hook)
    if not isinstance(hook, Hook) and not is_born_as_hook(plan.spec):
        return None
    told = takewhile(lambda message: message.get("role") == "system", plan.transcript)
    return msgspec.structs.replace(plan, transcript=[*told], saved=None)


def _finished(agent: Agent, call: str) -> list[dict[str, Json]]:
    """Return a transcript without ids in which every call has its result."""
    of_a_log = ("message_id", "substance")
    messages = [{n: v for n, v in one.items() if n not in of_a_log} for one in agent.transcript]
    for one in agent.state.open_calls.values():
        is_this = one.reference == call
        result = Message(
            "tool",
            "It was done: this is as far as you remember." if is_this else _cut_off(one.name),
            tool_call_id=one.id,
            name=one.name or UNNAMED,
            is_error=not is_this,
        )
        messages.append(message_dict(result))
    return messages


def _cut_off(tool: str) -> str:
    return INTERRUPTED.format(tool)


def made_from(plan: AgentSnapshot, session: Session, runtime: AgentRuntime) -> Agent:
    """Make an agent, without its birth. Raises NameNotFound, ValueError, and what its kind raises.

    It is made as one that was born before is: its code is given the spec and the state.
    """
    initial = complete_transcript(plan.transcript)
    kind: type[Agent] = get_agent_class(plan.kind, runtime)
    state = AgentState(id=session.allocate_agent_id(), birth=MessageId(""))
    state.name, state.language_model = plan.name, plan.model
    state.spec, state.saved_state = {"kind": plan.kind, **plan.spec}, plan.saved
    try:
        agent = kind.from_state(session, state, runtime)
    except BaseException:
        session.live.pop(state.id, None)
        raise
    agent.set_initial_transcript(initial)
    return agent


def bear(agent: Agent, plan: AgentSnapshot, cause: Cause, name: str, relation: Relation) -> None:
    """Log the birth of an agent that was made from a blueprint, with its state and transcript."""
    agent.session.log_agent_created(
        agent.agent_id,
        cause,
        name,
        plan.model,
        relation=relation,
        spec={"kind": plan.kind, **plan.spec},
    )
    if plan.saved is not None:
        agent.session.append(AgentStateSaved(agent_id=agent.agent_id, state=plan.saved))
    agent.log_initial_transcript()


def set_speakers(
    agent: Agent, call: str, speakers: Sequence[AgentId], listeners: Sequence[AgentId]
) -> None:
    """Log whom a new agent addresses, where there is somebody."""
    if speakers or listeners:
        event = InterlocutorsSet(
            agent_id=agent.agent_id, speakers=[*speakers], listeners=[*listeners], cause=call
        )
        agent.session.append(event)


def without(spec: dict[str, Any], names: frozenset[str]) -> dict[str, Any]:
    """Return a spec without some members."""
    return {name: value for name, value in spec.items() if name not in names}
