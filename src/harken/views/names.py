"""Names: what agents are called, now and ever, and whom a name means.

Ids are unique and names are not: an agent may be renamed, and a name may be given again after
its agent is gone. So an id always wins, and a name that several agents had means none of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from harken.core.events import AgentConfigured, AgentCreated, Event
from harken.core.ids import USER, AgentId
from harken.errors import UnknownName


class Names:
    """All agents of a session, past ones too, and their names."""

    def __init__(self, events: Iterable[Event]) -> None:
        """Collect the names; an agent of an older log counts from its first mention."""
        self.called: dict[AgentId, str] = {}
        """What each agent is called last, its id where it has no name; without the user."""
        self._ever: dict[AgentId, list[str]] = {}
        called = self.called
        for event in events:
            agent = event.agent_id
            if agent and agent not in called and agent != USER:
                called[agent] = agent
            if agent and isinstance(event, AgentCreated | AgentConfigured) and event.name:
                called[agent] = event.name
                self._ever.setdefault(agent, []).append(event.name)

    def of(self, agent: AgentId | None) -> str | None:
        """Return what an agent is called, its id where it has no name; the user is `user`."""
        return None if agent is None else self.called.get(agent, agent)

    def ever(self, agent: AgentId | None) -> Collection[str]:
        """Return all names that an agent had and its id; nothing where it never had a name."""
        names = self._ever.get(agent, []) if agent is not None else []
        return [*names, str(agent)] if names else []

    def resolve(self, name_or_id: str) -> AgentId:
        """Return the agent with this id, else the one that ever had this name.

        Raises UnknownName, which lists the agents, or the ids of those that share the name.
        """
        if name_or_id in self.called or name_or_id == USER:
            return AgentId(name_or_id)
        found = self.called_so(name_or_id)
        if len(found) > 1:
            raise UnknownName("single agent named", name_or_id, found)
        if not found:
            raise UnknownName("agent", name_or_id, map(self._both, self.called))
        return found[0]

    def called_so(self, name: str) -> list[AgentId]:
        """Return all agents that ever had this name."""
        return [agent for agent, names in self._ever.items() if name in names]

    def _both(self, agent: AgentId) -> str:
        name = self.called[agent]
        return name if name == agent else f"{name} ({agent})"
