"""Budgets: limits on the resources that an agent and all agents below it use.

An exceeded budget produces a readable text, never a crash. The agent that exceeds it answers with
that text; `task` returns it if a new subagent would exceed a limit.

Spending is counted for an agent together with all agents that ever were below it. The totals are
updated as the log grows, so reading them costs nothing. A move in the tree recomputes them from the
state of each agent, so they are the same after a resume.
"""

from __future__ import annotations

from collections.abc import Iterator
from weakref import WeakKeyDictionary

from harken.agents.guards import iter_below
from harken.core.event_types.spec import Budget
from harken.core.events import AgentMoved, Event, LlmRequest, LlmResponse
from harken.core.ids import AgentId
from harken.errors import BudgetExceeded
from harken.session.session import Session
from harken.session.state import AgentState, SessionState, UsageTotals


def check_spending(state: SessionState, agent_id: AgentId) -> None:
    """Raise BudgetExceeded if this agent, or an agent above it, may not call a model again."""
    for agent in iter_upwards(state, agent_id):
        budget = agent.spec.limits.budget or Budget()
        if (budget.model_calls, budget.tokens, budget.cost_usd) != (None, None, None):
            _check_spent(state, agent, budget)


def check_birth(state: SessionState, parent: AgentId, births: int = 1, lower: int = 0) -> None:
    """Raise BudgetExceeded if `parent` may not get another subagent.

    births: the number of new agents, including those below the new subagent; lower: the number of
    levels below it.
    """
    for levels, agent in enumerate(iter_upwards(state, parent), 1 + lower):
        budget = agent.spec.limits.budget or Budget()
        if budget.depth is not None and levels > budget.depth:
            raise BudgetExceeded(
                f"{_describe(agent)} may have {budget.depth} levels of subagents below"
            )
        limit = budget.live_subagents
        live = 0 if limit is None else sum(1 for _ in iter_below(state.agents, agent))
        if limit is not None and live + births > limit:
            has = "and has them" if live >= limit else f"and has {live}"
            raise BudgetExceeded(f"{_describe(agent)} may have {limit} live subagents, {has}")


def _check_spent(state: SessionState, agent: AgentState, budget: Budget) -> None:
    agents = [agent, *_ever_below(state, agent)]
    calls = sum(member.usage.model_calls for member in agents)
    tokens = sum(member.usage.tokens for member in agents)
    cost = sum(member.usage.cost_usd for member in agents)
    if budget.model_calls is not None and calls >= budget.model_calls:
        raise BudgetExceeded(
            f"{_describe(agent)} has used {calls} of {budget.model_calls} model calls"
        )
    if budget.tokens is not None and tokens >= budget.tokens:
        raise BudgetExceeded(f"{_describe(agent)} has used {tokens} of {budget.tokens} tokens")
    if budget.cost_usd is not None and cost >= budget.cost_usd:
        raise BudgetExceeded(
            f"{_describe(agent)} has spent {cost:.4f} of {budget.cost_usd:.4f} USD"
        )


def _describe(agent: AgentState) -> str:
    return f"agent {agent.name or agent.id}"


def iter_upwards(state: SessionState, agent_id: AgentId) -> Iterator[AgentState]:
    """Yield an agent, then all agents above it."""
    above: AgentId | None = agent_id
    for _ in range(len(state.agents)):  # a foreign log may contain a cycle of parents
        if above is None:
            return
        agent = state.agents[above]
        yield agent
        above = agent.parent


def _ever_below(state: SessionState, agent: AgentState) -> Iterator[AgentState]:
    """Yield all agents that ever were below an agent, including hooks and terminated agents."""
    is_below: dict[AgentId | None, bool] = {None: False, agent.id: True}
    for candidate in state.agents.values():
        chain: list[AgentId] = []
        above: AgentId | None = candidate.id
        while above is not None and above not in is_below:
            chain.append(above)
            above = state.agents[above].parent
        is_below |= dict.fromkeys(chain, is_below[above])
        if candidate is not agent and is_below[candidate.id]:
            yield candidate


_totals_by_session: WeakKeyDictionary[Session, SpendingTotals] = WeakKeyDictionary()


def spent_by(session: Session, agent_id: AgentId) -> UsageTotals:
    """Return the usage of an agent and all agents ever below it, including hooks."""
    spending = _totals_by_session.get(session)
    if spending is None:
        spending = _totals_by_session[session] = SpendingTotals(session.state)
        session.add_listener(spending.on_event)
    return spending.of(agent_id)


class SpendingTotals:
    """The usage totals of a session, by agent."""

    def __init__(self, state: SessionState) -> None:
        """Compute the totals on first use."""
        self._state = state
        self._totals: dict[AgentId, UsageTotals] | None = None

    def of(self, agent_id: AgentId) -> UsageTotals:
        """Return the total of an agent."""
        if self._totals is None:
            self._totals = {}
            for agent in self._state.agents.values():
                self._add(agent.id, agent.usage)
        return self._totals.get(agent_id) or UsageTotals()

    def on_event(self, event: Event) -> None:
        """Count an appended event."""
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

    def _add(self, agent_id: AgentId, usage: UsageTotals) -> None:
        """Add usage to the totals of an agent and of all agents above it."""
        totals = self._totals
        if totals is None:
            return
        for above in iter_upwards(self._state, agent_id):
            total = totals.setdefault(above.id, UsageTotals())
            total.model_calls += usage.model_calls
            total.input_tokens += usage.input_tokens
            total.output_tokens += usage.output_tokens
            total.cost_usd += usage.cost_usd
