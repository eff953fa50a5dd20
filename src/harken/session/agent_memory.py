"""`AgentMemory`: which agents of a session are in memory, and the eviction of idle ones.

An agent in memory has its transcript in its state, and usually an object in `live`. Beyond the
limit the least recently used idle agents are evicted; the session reads them again when needed.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any
from weakref import WeakValueDictionary

from harken.core.ids import AgentId, parse_id_number
from harken.session.state import AgentState, SessionState

_MIN_ORDERED = 8
"""With at most this many agents in memory the order of eviction is not maintained on reads."""
_MAX_TRIES = 8
"""Maximum candidates for eviction per event: all agents may be busy."""


class AgentMemory:
    """The agents of one session that are in memory. `limit`: their maximum number, or None."""

    def __init__(self, state: SessionState, limit: int | None) -> None:
        self.live: dict[AgentId, object] = {}
        """The agent objects in memory, by id; any of them may be evicted and loaded again."""
        self._state = state
        self._limit = limit
        self._evicted: WeakValueDictionary[AgentId, Any] = WeakValueDictionary()
        """Evicted agent objects that other objects still refer to."""
        self._in_memory: OrderedDict[AgentId, None] = OrderedDict()
        """Agents that are in memory, the least recently used first."""

    def live_agent(self, agent_id: AgentId) -> object | None:
        """Return the object of an agent: a live one, or an evicted one that is still referenced.

        Return None if there is neither.
        """
        agent: object | None = self.live.get(agent_id)
        if agent is None and (agent := self._evicted.pop(agent_id, None)) is not None:
            self.live[agent_id] = agent
            self._in_memory[agent_id] = None
        return agent

    def note_loaded(self, agent_id: AgentId) -> None:
        """Note that an agent's transcript was read again."""
        self._in_memory[agent_id] = None

    def note_read(self, agent_id: AgentId) -> None:
        """Mark an agent in memory as recently used."""
        if len(self._in_memory) > _MIN_ORDERED:
            try:  # noqa: SIM105 - a hot path, and `suppress` is ten times slower
                self._in_memory.move_to_end(agent_id)
            except KeyError:
                pass  # Another thread has just evicted it.

    def note_use(self, agent_id: AgentId | None) -> None:
        """Mark an agent as recently used. Evict others if there are too many in memory."""
        agent = self._state.agents.get(agent_id) if agent_id is not None else None
        if agent is not None and agent.transcript is not None:
            self._in_memory[agent.id] = None
            self._in_memory.move_to_end(agent.id)
            if self._limit is not None and len(self._in_memory) > self._limit:
                self._evict_idle(self._limit, tries=_MAX_TRIES, keep=agent.id)

    def note_all(self) -> None:
        """Register the agents of a log that was read, then evict beyond the limit.

        Removed agents are not evicted: the loader of the log still reads their undelivered results.
        """
        agents = self._state.agents.values()
        agents_in_memory = [
            agent for agent in agents if agent.transcript is not None and agent.place != "gone"
        ]
        agents_in_memory.sort(
            key=lambda agent: parse_id_number((agent.new_entries or [agent.birth])[-1], "msg_") or 0
        )
        self._in_memory = OrderedDict.fromkeys(agent.id for agent in agents_in_memory)
        if self._limit is not None:
            self._evict_idle(self._limit, tries=len(agents_in_memory))

    def forget(self, agent_id: AgentId) -> None:
        """Note that an agent's transcript was dropped."""
        self._in_memory.pop(agent_id, None)
        self._evicted.pop(agent_id, None)

    def _evict_idle(self, limit: int, tries: int, keep: AgentId | None = None) -> None:
        """Evict idle agents, the least recently used first."""
        for _ in range(tries):
            if len(self._in_memory) <= limit:
                return
            agent = self._state.agents[next(iter(self._in_memory))]
            if agent.id == keep or self._is_needed(agent):
                self._in_memory.move_to_end(agent.id)
                continue
            self._in_memory.pop(agent.id)
            agent.transcript = agent.context = None
            live = self.live.get(agent.id)
            if getattr(live, "_is_in_log", False):
                self._evicted[agent.id] = self.live.pop(agent.id)

    def _is_needed(self, agent: AgentState) -> bool:
        """Whether an agent is primary, busy, or has an open call or request."""
        if agent.open_calls or agent.id in self._state.requests or agent.id == self._state.primary:
            return True
        return bool(getattr(self.live.get(agent.id), "_is_busy", False))
