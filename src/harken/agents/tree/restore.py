"""`AgentRestorer`: agents are made of what a file says, as far as that is allowed here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from harken.agents.agent import Agent
from harken.agents.agent_classes import get_agent_class
from harken.agents.budget import Budget, check_birth
from harken.agents.guards import MADE, SELF_MADE, may_act
from harken.agents.names import check_plain, free_name
from harken.agents.tool_agent import ToolAgent
from harken.agents.tree.actions import birth_cause, copies_for, end_subtree, install
from harken.agents.tree.agent_snapshot import (
    OF_A_PLACE,
    OF_A_SESSION,
    AgentSnapshot,
    bear,
    made_from,
    set_speakers,
    without,
)
from harken.core.clock import format_rfc3339
from harken.core.events import Cause, Reference, Relation
from harken.core.ids import AgentId
from harken.core.messages import Message
from harken.core.verdict import POINTS
from harken.errors import NameNotFound
from harken.world.result import InvalidArguments

SMART = "smart"
WOKEN = (
    "You were restored from a dump and have just woken up, perhaps in another world than the one "
    "that you remember. It is {time}. This is session {session}{folder}. {above} restored you, and "
    "you work for it now; here you are called {name}.{model} Files, agents and people that you "
    "remember may have changed or be gone: look before you rely on them."
)
"""What an agent is told that was restored."""


class AgentRestorer:
    """Makes the agents of one dump."""

    def __init__(self, agent: ToolAgent, call: Reference) -> None:
        """Restore for an agent, because of a call."""
        self.agent, self.call = agent, call
        self.session, self.runtime = agent.session, agent.runtime
        self._made: dict[int, tuple[Agent, list[tuple[str, Agent]]]] = {}
        """By plan: the agent, not born yet, and the copies of hooks that will watch it."""

    def restore(self, plan: AgentSnapshot, name: str) -> Agent:
        """Return a new subagent made of a plan, with everybody at it.

        Raises InvalidArguments and BudgetExceeded, where nobody was born.
        """
        births = 1 + sum(len(one.subagents) + len(one.hooks) for one in plan.everybody())
        check_birth(self.session.state, self.agent.agent_id, births, plan.levels)
        plan = self._admitted(msgspec.structs.replace(plan, name=name), "subagent")
        try:
            self._make(plan, watched=True)
        except BaseException:
            for agent, copies in self._made.values():
                for one in (agent, *(copy for _, copy in copies)):
                    self.session.live.pop(one.agent_id, None)
            raise
        self.agent.checkpoint_if_due("spawn")
        child, _ = self._made[id(plan)]
        try:
            self._bear(plan, birth_cause(self.agent, self.call), "subagent", name)
        except Exception:
            if child.agent_id in self.session.agents:
                end_subtree(self.session, child.agent_id, self.call)
            raise
        return child

    def told(self, plan: AgentSnapshot, name: str) -> str:
        """Return what the agent is told when it wakes."""
        world, model = self.runtime.world, self._model(plan)
        folder = "" if world.folder is None else f", in the folder {world.folder.name}"
        return WOKEN.format(
            time=format_rfc3339(self.session.options.clock()),
            session=self.session.state.session_id,
            folder=folder,
            above=self.agent.name,
            name=name,
            model=""
            if model == plan.model
            else f" Your model was {plan.model}; it is {model} now.",
        )

    def _admitted(self, plan: AgentSnapshot, relation: Relation) -> AgentSnapshot:
        """Return a plan, and those in it, as they may be here. Raises InvalidArguments.

        Only a hook keeps what its spec says of how it stands as one: else a subagent that became
        one by a move would pass for a guard.
        """
        check_plain(plan.name)
        try:
            kind = get_agent_class(plan.kind, self.runtime)
        except NameNotFound as error:
            raise InvalidArguments(f"the dump cannot be restored here: {error}") from None
        if not kind.can_restore:
            raise InvalidArguments(f"{plan.name} is a {plan.kind}: no file may say what that does")
        spec = self._spec(plan)
        return msgspec.structs.replace(
            plan,
            model=self._model(plan),
            spec=spec if relation == "hook" else without(spec, OF_A_PLACE),
            transcript=[_message(one) for one in plan.transcript],
            hooks=[_self_made(self._admitted(one, "hook")) for one in plan.hooks],
            subagents=[self._admitted(one, "subagent") for one in plan.subagents],
        )

    def _model(self, plan: AgentSnapshot) -> str | None:
        """Return the name of its model, where this session asks it already, else the caller's.

        A file shall not say with whom we talk, and what that costs.
        """
        if plan.kind != SMART:
            return None
        own = None if self.runtime.default_model is None else self.runtime.default_model.name
        known = {own, *(state.language_model for state in self.session.agents.values())}
        return plan.model if plan.model in known else self.agent.language_model

    def _spec(self, plan: AgentSnapshot) -> dict[str, Any]:
        """Return what the birth will say.

        Raises InvalidArguments where the plan has what it cannot.
        """
        try:
            given = msgspec.convert(plan.spec, _Given)
        except msgspec.ValidationError as error:
            raise InvalidArguments(
                f"what the dump says of {plan.name} cannot be: {error}"
            ) from None
        if given.points is not None and not POINTS.issuperset(given.points):
            raise InvalidArguments(f"{plan.name} is asked at points that there are not")
        if plan.kind != SMART:
            return without(plan.spec, OF_A_SESSION | {"kind"})
        allowed = self.agent.allowed
        if given.tools is not None:
            allowed = [one for one in given.tools if one in self.agent.tools]
        parameters = self.runtime.parameters_for(self._model(plan)) or None
        said = {**msgspec.to_builtins(given), "tools": allowed, "parameters": parameters}
        return {name: value for name, value in said.items() if value is not None}

    def _make(self, plan: AgentSnapshot, *, watched: bool) -> None:
        """Make it and everybody at it; those who could act are watched as the caller is.

        Raises InvalidArguments.
        """
        try:
            agent = made_from(plan, self.session, self.runtime)
        except Exception as error:  # noqa: BLE001 - registered code refuses as it likes
            why = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
            raise InvalidArguments(f"{plan.name} cannot be made as the dump says: {why}") from None
        self._made[id(plan)] = agent, []
        if watched:
            self._made[id(plan)] = agent, copies_for(agent, self.agent)
        for hook in self._hooks(plan):
            self._make(hook, watched=may_act({**hook.spec, "kind": hook.kind}))
        for child in plan.subagents:
            self._make(child, watched=True)

    def _hooks(self, plan: AgentSnapshot) -> list[AgentSnapshot]:
        """Return the hooks of a plan, but those of code that watch it here just the same."""
        _, copies = self._made[id(plan)]
        there = [_code({**copy.spec(), **copy.born_with}) for _, copy in copies]
        code = [_code({**hook.spec, "kind": hook.kind}) for hook in plan.hooks]
        pairs = zip(plan.hooks, code, strict=True)
        return [hook for hook, one in pairs if hook.kind == SMART or one not in there]

    def _bear(self, plan: AgentSnapshot, cause: Cause, relation: Relation, name: str) -> AgentId:
        """Log its birth and those of everybody at it."""
        agent, copies = self._made[id(plan)]
        bear(agent, plan, cause, name, relation)
        install(copies, agent)
        at: Cause = [agent.state.birth, self.call]
        taken = {name for name, _ in copies}
        for hook in self._hooks(plan):
            called = free_name(hook.name, taken)
            taken.add(called)
            self._bear(hook, at, "hook", called)
        ids = {one.name: self._bear(one, at, "subagent", one.name) for one in plan.subagents}
        speakers, listeners = (
            [ids[one] for one in row if one in ids] for row in (plan.speakers, plan.listeners)
        )
        set_speakers(agent, self.call, speakers, listeners)
        return agent.agent_id


def _code(spec: Mapping[str, Any]) -> Any:
    """Return what makes a hook of code what it is: two that have the same do the same."""
    return msgspec.to_builtins([spec.get(name) for name in ("kind", "options", "points")])


def _self_made(hook: AgentSnapshot) -> AgentSnapshot:
    """Return a hook that is asked before others: they judge what it makes of its agent's words."""
    return msgspec.structs.replace(hook, spec={**hook.spec, SELF_MADE: MADE})


class _Given(msgspec.Struct, omit_defaults=True):
    """What a dump may say of an agent; of one that a model decides for, all else is passed over."""

    tools: list[str] | None = None
    budget: Budget | None = None
    template: dict[str, str] | None = None
    points: list[str] | None = None
    keeps: Literal["notes", "all"] | None = None
    copy: str | None = None
    skills: list[str] | None = None
    subagents: bool | None = None


def _message(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message without what would tie it to a session."""
    return {name: given[name] for name in Message.__struct_fields__ if name in given}
