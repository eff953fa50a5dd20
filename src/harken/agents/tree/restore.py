"""`AgentRestorer`: create agents from a dump, with no more rights than are allowed here."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import takewhile
from typing import Any

import msgspec

from harken.agents import texts
from harken.agents.agent import Agent, birth_spec
from harken.agents.agent_classes import get_agent_class
from harken.agents.budget import check_birth
from harken.agents.checkpoints import checkpoint_if_due
from harken.agents.hooks.smart_hook import copied_instructions, own_instructions
from harken.agents.names import check_agent_name, free_name
from harken.agents.rights import allowed_tools, inherited_model, usable_tools
from harken.agents.tree.actions import birth_cause, create_hook_copies, install_hooks
from harken.agents.tree.agent_snapshot import (
    AgentSnapshot,
    create_from_snapshot,
    log_snapshot_birth,
    set_speakers,
)
from harken.core import structs
from harken.core.clock import format_rfc3339
from harken.core.event_types.message_parser import parse_message
from harken.core.event_types.spec import SMART, AgentSpec, HookPoint, Limits, Standing
from harken.core.events import Cause, Reference, Relation
from harken.core.ids import AgentId
from harken.core.messages import Message, text_of
from harken.errors import NameNotFound
from harken.world.result import InvalidArguments


class AgentRestorer:
    """Creates the agents of a dump."""

    def __init__(self, agent: Agent, call: Reference) -> None:
        """Restore agents for an agent, because of a call."""
        self.agent, self.call = agent, call
        self.session, self.runtime = agent.session, agent.runtime
        self._agents_by_plan: dict[int, tuple[Agent, list[tuple[str, Agent]]]] = {}
        """By plan: the agent before its birth, and the copies of hooks that will watch it."""

    def create(self, plan: AgentSnapshot, name: str) -> AgentSnapshot:
        """Create, without their births, the agents of a plan. Return the plan as limited here.

        Raises InvalidArguments and BudgetExceeded.
        """
        births = 1 + sum(
            len(snapshot.subagents) + len(snapshot.hooks) for snapshot in plan.iter_snapshots()
        )
        check_birth(self.session.state, self.agent.agent_id, births, plan.levels)
        plan = self._restrict(structs.replace(plan, name=name), "subagent")
        try:
            self._create_agents(plan, watched=True)
        except BaseException:
            for agent, copies in self._agents_by_plan.values():
                for unborn in (agent, *(copy for _, copy in copies)):
                    self.session.live.pop(unborn.agent_id, None)
            raise
        checkpoint_if_due(self.agent, "spawn")
        return plan

    def log_births(self, plan: AgentSnapshot, name: str) -> Agent:
        """Log the births of the agents that `create` created. Return the new subagent."""
        child, _ = self._agents_by_plan[id(plan)]
        self._log_births(plan, birth_cause(self.agent, self.call), "subagent", name)
        return child

    def format_restored_notice(self, plan: AgentSnapshot, name: str) -> str:
        """Return the message to the restored agent."""
        world, model = self.runtime.world, self._model(plan)
        folder = "" if world.folder is None else texts.RESTORED_FOLDER.format(world.folder.name)
        return texts.RESTORED.format(
            time=format_rfc3339(self.session.options.clock()),
            session=self.session.state.session_id,
            folder=folder,
            above=self.agent.name,
            name=name,
            model="" if model == plan.model else texts.RESTORED_MODEL.format(plan.model, model),
        )

    def _restrict(self, plan: AgentSnapshot, relation: Relation) -> AgentSnapshot:
        """Return a plan limited to what is allowed here, recursively. Raises InvalidArguments.

        Only a hook keeps the members that describe a hook: otherwise a subagent that later becomes
        a hook by a move would pass for a guard.
        """
        check_agent_name(plan.name)
        try:
            kind = get_agent_class(plan.kind, self.runtime.library)
        except NameNotFound as error:
            raise InvalidArguments(f"the dump cannot be restored here: {error}") from None
        if not kind._can_restore:
            raise InvalidArguments(
                f"{plan.name} is a {plan.kind}, which cannot be restored from a file"
            )
        spec = self._spec(plan)
        return structs.replace(
            plan,
            model=self._model(plan),
            spec=spec if relation == "hook" else spec.without_role(),
            transcript=[_strip_message(message) for message in plan.transcript],
            hooks=[_mark_self_made(self._restrict(hook, "hook")) for hook in plan.hooks],
            subagents=[self._restrict(child, "subagent") for child in plan.subagents],
        )

    def _model(self, plan: AgentSnapshot) -> str | None:
        """Return the name of its model if this session uses it already, else the caller's model.

        A file must not decide which provider gets the data, and at which cost.
        """
        if plan.kind != SMART:
            return None
        default = None if self.runtime.default_model is None else self.runtime.default_model.name
        known_models = {default, *(state.language_model for state in self.session.agents.values())}
        return plan.model if plan.model in known_models else inherited_model(self.agent)

    def _spec(self, plan: AgentSnapshot) -> AgentSpec:
        """Return the spec for the birth: of a smart agent, the members that a file may set."""
        spec = plan.spec
        if plan.kind != SMART:
            return spec.portable()
        allowed = allowed_tools(self.agent)
        if spec.limits.tools is not None:
            usable = usable_tools(self.agent)
            allowed = [tool for tool in spec.limits.tools if tool in usable]
        limits = Limits(tools=allowed, skills=spec.limits.skills, budget=spec.limits.budget)
        return AgentSpec(
            kind=SMART,
            template=spec.template,
            parameters=self.runtime.parameters_for(self._model(plan)) or None,
            keeps=spec.keeps,
            copies=spec.copies,
            limits=limits,
            standing=Standing(points=spec.standing.points),
        )

    def _create_agents(self, plan: AgentSnapshot, *, watched: bool) -> None:
        """Create the agents of a plan; agents that may act get copies of the caller's hooks.

        Raises InvalidArguments.
        """
        try:
            agent = create_from_snapshot(plan, self.session, self.runtime)
        except Exception as error:  # noqa: BLE001 - registered code refuses as it likes
            why = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
            raise InvalidArguments(f"{plan.name} cannot be created from the dump: {why}") from None
        self._agents_by_plan[id(plan)] = agent, []
        if watched:
            self._agents_by_plan[id(plan)] = agent, create_hook_copies(agent, self.agent)
        for hook in self._hooks(plan):
            self._create_agents(hook, watched=hook.spec.may_act)
        for child in plan.subagents:
            self._create_agents(child, watched=True)

    def _hooks(self, plan: AgentSnapshot) -> list[AgentSnapshot]:
        """Return the hooks of a plan without those that are copied from the caller anyway."""
        _, copies = self._agents_by_plan[id(plan)]
        copied_code = [_code_identity(birth_spec(copy)) for _, copy in copies]
        originals = {copy._birth_spec.original for _, copy in copies}
        copied_hooks = [hook for hook in self.agent.hooks if hook._original_id in originals]
        copied_text = [identity for hook in copied_hooks for identity in _text_identities(hook)]
        return [
            hook
            for hook in plan.hooks
            if (
                _planned_text_identity(hook) not in copied_text
                if hook.kind == SMART
                else _code_identity(hook.spec) not in copied_code
            )
        ]

    def _log_births(
        self, plan: AgentSnapshot, cause: Cause, relation: Relation, name: str
    ) -> AgentId:
        """Log the births of an agent and of all agents above and below it."""
        agent, copies = self._agents_by_plan[id(plan)]
        log_snapshot_birth(agent, plan, cause, name, relation)
        install_hooks(copies, agent)
        child_cause: Cause = [agent.state.birth, self.call]
        used_names = {name for name, _ in copies}
        for hook in self._hooks(plan):
            hook_name = free_name(hook.name, used_names)
            used_names.add(hook_name)
            self._log_births(hook, child_cause, "hook", hook_name)
        ids = {
            child.name: self._log_births(child, child_cause, "subagent", child.name)
            for child in plan.subagents
        }
        speakers, listeners = (
            [ids[name] for name in names if name in ids]
            for names in (plan.speakers, plan.listeners)
        )
        set_speakers(agent, self.call, speakers, listeners)
        return agent.agent_id


def _code_identity(spec: AgentSpec) -> Any:
    """Return the identity of a hook that is code: kind, options and points."""
    return spec.kind, msgspec.to_builtins(spec.options), _points(spec)


def _text_identities(hook: Agent) -> list[Any]:
    """Return the identities of a smart hook and of its copies: instructions and points."""
    points = _points(hook.state.spec)
    return [(text, points) for text in (own_instructions(hook), copied_instructions(hook))]


def _planned_text_identity(hook: AgentSnapshot) -> Any:
    entries = takewhile(lambda message: message.get("role") == "system", hook.transcript)
    text = "\n\n".join(text_of(parse_message(message).content) for message in entries)
    return text, _points(hook.spec)


def _points(spec: AgentSpec) -> frozenset[HookPoint]:
    return frozenset(spec.with_points().standing.points or [])


def _mark_self_made(hook: AgentSnapshot) -> AgentSnapshot:
    """Mark a hook as self-made: it is asked before the guards, which judge its rewrites."""
    mark = AgentSpec(standing=Standing(made="file"))
    return structs.replace(hook, spec=hook.spec.with_points().merge(mark))


def _strip_message(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message without the members that tie it to a session."""
    return {name: message[name] for name in Message.__struct_fields__ if name in message}
