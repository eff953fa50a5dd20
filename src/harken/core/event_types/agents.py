"""The events of agents: births, changes, moves and triggers."""

from __future__ import annotations

from typing import Literal, TypeAlias

from harken.core.event_types.base import Cause, EventBase, Json, Reference
from harken.core.event_types.spec import AgentSpec, ForeignAgent, SpecChange
from harken.core.ids import AgentId

Relation: TypeAlias = Literal["primary", "subagent", "hook"]
Place: TypeAlias = Literal["primary", "subagent", "hook", "gone"]


class AgentCreated(EventBase, tag="agent_created", kw_only=True):
    """An agent was created. Its parent, or for a hook the watched agent, is that of the cause."""

    cause: Cause = None
    name: str | None = None
    language_model: str | None = None
    relation: Relation | None = None
    """Always written; logs of older dialects may lack it."""
    spec: AgentSpec | None = None


class AgentConfigured(EventBase, tag="agent_configured", kw_only=True):
    """The agent's name, model or limits changed; absent members are unchanged."""

    name: str | None = None
    language_model: str | None = None
    parameters: dict[str, Json] | None = None
    """All further members of its model requests."""
    spec: SpecChange | None = None
    """Members of its limits; its standing changes only with its place."""
    foreign: ForeignAgent | None = None
    """For an agent of another program that named it after its birth."""
    cause: Cause = None


class AgentStateSaved(EventBase, tag="agent_state_saved", kw_only=True):
    """The complete state of a dumb agent or hook, as it returned it."""

    state: Json = None


class AgentMoved(EventBase, tag="agent_moved", kw_only=True):
    """The agent's place in the tree changed; `gone` removes its whole subtree."""

    place: Place
    parent: AgentId | None = None
    """The agent that it watches (hook) or its parent (subagent); absent if unchanged."""
    replaces: AgentId | None = None
    """The agent directly above or below it that it replaces; it takes over that agent's parent."""
    replaced_as: Literal["subagent", "hook"] | None = None
    """The new relation of the replaced agent to it: its newest subagent, or its last hook."""
    spec: SpecChange | None = None
    """Its limits and its standing that change with the place, such as the budget."""
    replaced_spec: SpecChange | None = None
    """Those of the replaced agent, such as its hook points."""
    cause: Cause = None


class InterlocutorsSet(EventBase, tag="interlocutors_set", kw_only=True):
    """The default participants of the agent's next `discuss`."""

    speakers: list[AgentId] = []
    listeners: list[AgentId] = []
    cause: Cause = None


class TriggerArmed(EventBase, tag="trigger_armed", kw_only=True):
    """The agent armed a trigger, which wakes it later."""

    name: str
    trigger: dict[str, Json]
    """Its `kind`, and the members of that kind."""
    cause: Reference
    """The call that armed it."""


class TriggerDisarmed(EventBase, tag="trigger_disarmed", kw_only=True):
    """A trigger was stopped, or it has ended."""

    name: str
    cause: Cause = None
    """The call that stopped it, or its last event."""
