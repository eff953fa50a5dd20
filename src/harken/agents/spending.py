"""Spending: what an agent has used up together with everybody who ever was below it.

It is counted on as the log grows, so that asking costs nothing. A move in the tree makes it count
anew, from what the log says of each agent: so it is the same after a resume.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

from harken.agents.budget import upwards
from harken.core.events import AgentMoved, Event, LlmRequest, LlmResponse
from harken.core.ids import AgentId
from harken.session.session import Session
from harken.session.state import SessionState, Spent

_of_sessions: WeakKeyDictionary[Session, Spending] = WeakKeyDictionary()


def spent_by(session: Session, agent_id: AgentId) -> Spent:
    """Return what an agent and everybody below it have spent; hooks and those gone count."""
    spending = _of_sessions.get(session)
    if spending is None:
        spending = _of_sessions[session] = Spending(session.state)
        session.listen(spending.hear)
    return spending.of(agent_id)


class Spending:
    """Totals of one session, by agent."""

    def __init__(self, state: SessionState) -> None:
        """Count what was spent so far."""
        self._state = state
        self._totals: dict[AgentId, Spent] | None = None

    def of(self, agent_id: AgentId) -> Spent:
        """Return the total of an agent."""
        if self._totals is None:
            self._totals = {}
            for agent in self._state.agents.values():
                self._add(agent.id, agent.spent)
        return self._totals.get(agent_id) or Spent()

    def hear(self, event: Event) -> None:
        """Count an event that was appended."""
        if self._totals is None or event.agent_id is None:
            return
        if isinstance(event, AgentMoved):
            self._totals = None
        elif isinstance(event, LlmRequest):
            self._add(event.agent_id, Spent(model_calls=1))
        elif isinstance(event, LlmResponse):
            usage = event.usage
            self._add(
                event.agent_id,
                Spent(
                    input_tokens=(usage and usage.input_tokens) or 0,
                    output_tokens=(usage and usage.output_tokens) or 0,
                    cost_usd=event.cost_usd or 0.0,
                ),
            )

    def _add(self, agent_id: AgentId, more: Spent) -> None:
        """Add to the totals of an agent and of all above it."""
        totals = self._totals
        if totals is None:
            return
        for above in upwards(self._state, agent_id):
            total = totals.setdefault(above.id, Spent())
            total.model_calls += more.model_calls
            total.input_tokens += more.input_tokens
            total.output_tokens += more.output_tokens
            total.cost_usd += more.cost_usd
