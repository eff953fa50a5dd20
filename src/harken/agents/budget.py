"""Budgets: what an agent and everybody below it may use up.

A budget that is used up ends in text that a reader understands, never in a crash: the agent
that hits it answers with it, `task` answers with it where a new subagent would go too far.

Spending: what an agent has used up together with everybody who ever was below it.

It is counted on as the log grows, so that asking costs nothing. A move in the tree makes it count
anew, from what the log says of each agent: so it is the same after a resume.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from weakref import WeakKeyDictionary

import msgspec

from harken.agents.guards import below
from harken.core.arguments import check_fields
from harken.core.events import AgentMoved, Event, LlmRequest, LlmResponse
from harken.core.ids import AgentId
from harken.errors import BudgetExceeded
from harken.session.session import Session
from harken.session.state import AgentState, SessionState, UsageTotals


class Budget(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Limits for an agent together with its whole subtree; None is no limit."""

    model_calls: int | None = None
    tokens: int | None = None
    """Input and output together."""
    cost_usd: float | None = None
    depth: int | None = None
    """How many levels of subagents may stand below it."""
    live_subagents: int | None = None
    """How many agents may live below it at one time. Hooks that it put above itself, also by a
    move, count with all below them: nobody gets room for more by changing places."""

    def __post_init__(self) -> None:
        """Raise TypeError for a limit that is no number, ValueError for one below 0."""
        check_fields(self)
        for name in self.__struct_fields__:
            limit = getattr(self, name)
            if limit is not None and limit < 0:
                raise ValueError(f"Budget: {name} must be 0 or more, not {limit}")


def budget_of(spec: Mapping[str, Any]) -> Budget | None:
    """Return the budget in an agent's spec."""
    return msgspec.convert(spec["budget"], Budget) if spec.get("budget") else None


def check_spending(state: SessionState, agent_id: AgentId) -> None:
    """Raise BudgetExceeded where this agent, or one above it, may not call a model once more."""
    for agent in upwards(state, agent_id):
        budget = budget_of(agent.spec) or Budget()
        if (budget.model_calls, budget.tokens, budget.cost_usd) != (None, None, None):
            _check_spent(state, agent, budget)


def check_birth(state: SessionState, parent: AgentId, births: int = 1, lower: int = 0) -> None:
    """Raise BudgetExceeded where `parent` may not get one more subagent.

    births: how many agents that is, it and those below it; lower: how many levels stand below it.
    """
    for levels, agent in enumerate(upwards(state, parent), 1 + lower):
        budget = budget_of(agent.spec) or Budget()
        if budget.depth is not None and levels > budget.depth:
            raise BudgetExceeded(f"{_who(agent)} may have {budget.depth} levels of subagents below")
        limit = budget.live_subagents
        there = 0 if limit is None else sum(1 for _ in below(state.agents, agent))
        if limit is not None and there + births > limit:
            has = "and has them" if there >= limit else f"and has {there}"
            raise BudgetExceeded(f"{_who(agent)} may have {limit} live subagents, {has}")


def _check_spent(state: SessionState, agent: AgentState, budget: Budget) -> None:
    everyone = [agent, *_ever_below(state, agent)]
    calls = sum(one.usage.model_calls for one in everyone)
    tokens = sum(one.usage.tokens for one in everyone)
    cost = sum(one.usage.cost_usd for one in everyone)
    if budget.model_calls is not None and calls >= budget.model_calls:
        raise BudgetExceeded(f"{_who(agent)} has used {calls} of {budget.model_calls} model calls")
    if budget.tokens is not None and tokens >= budget.tokens:
        raise BudgetExceeded(f"{_who(agent)} has used {tokens} of {budget.tokens} tokens")
    if budget.cost_usd is not None and cost >= budget.cost_usd:
        raise BudgetExceeded(f"{_who(agent)} has spent {cost:.4f} of {budget.cost_usd:.4f} USD")


def _who(agent: AgentState) -> str:
    return f"agent {agent.name or agent.id}"


def upwards(state: SessionState, agent_id: AgentId) -> Iterator[AgentState]:
    """Yield an agent, then all above it."""
    above: AgentId | None = agent_id
    for _ in range(len(state.agents)):  # a foreign log might name a circle
        if above is None:
            return
        agent = state.agents[above]
        yield agent
        above = agent.parent


def _ever_below(state: SessionState, agent: AgentState) -> Iterator[AgentState]:
    """Also those that are gone, and hooks: what they spent is spent."""
    known: dict[AgentId | None, bool] = {None: False, agent.id: True}
    for other in state.agents.values():
        chain: list[AgentId] = []
        above: AgentId | None = other.id
        while above is not None and above not in known:
            chain.append(above)
            above = state.agents[above].parent
        known |= dict.fromkeys(chain, known[above])
        if other is not agent and known[other.id]:
            yield other


_of_sessions: WeakKeyDictionary[Session, SpendingTotals] = WeakKeyDictionary()


def spent_by(session: Session, agent_id: AgentId) -> UsageTotals:
    """Return what an agent and everybody below it have spent; hooks and those gone count."""
    spending = _of_sessions.get(session)
    if spending is None:
        spending = _of_sessions[session] = SpendingTotals(session.state)
        session.add_listener(spending.hear)
    return spending.of(agent_id)


class SpendingTotals:
    """Totals of one session, by agent."""

    def __init__(self, state: SessionState) -> None:
        """Count what was spent so far."""
        self._state = state
        self._totals: dict[AgentId, UsageTotals] | None = None

    def of(self, agent_id: AgentId) -> UsageTotals:
        """Return the total of an agent."""
        if self._totals is None:
            self._totals = {}
            for agent in self._state.agents.values():
                self._add(agent.id, agent.usage)
        return self._totals.get(agent_id) or UsageTotals()

    def hear(self, event: Event) -> None:
        """Count an event that was appended."""
        if self._totals is None or event.agent_id is None:
            return
        if isinstance(event, AgentMoved):
            self._totals = None
        elif isinstance(event, LlmRequest):
            self._add(event.agent_id, UsageTotals(model_calls=1))
        elif isinstance(event, LlmResponse):
            usage = event.usage
            self._add(
                event.agent_id,
                UsageTotals(
                    input_tokens=(usage and usage.input_tokens) or 0,
                    output_tokens=(usage and usage.output_tokens) or 0,
                    cost_usd=event.cost_usd or 0.0,
                ),
            )

    def _add(self, agent_id: AgentId, more: UsageTotals) -> None:
        """Add to the totals of an agent and of all above it."""
        totals = self._totals
        if totals is None:
            return
        for above in upwards(self._state, agent_id):
            total = totals.setdefault(above.id, UsageTotals())
            total.model_calls += more.model_calls
            total.input_tokens += more.input_tokens
            total.output_tokens += more.output_tokens
            total.cost_usd += more.cost_usd
