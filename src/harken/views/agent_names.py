"""Names: what agents are called, now and ever, and whom a name means.

Ids are unique and names are not: an agent may be renamed, and a name may be given again after
its agent is gone. So an id always wins, and a name that several agents had means none of them.

Paths: where agents stand in the tree, by their names: `main/approver`.

Copies of a hook have one name, so a name alone may mean several. A path may begin anywhere:
`Ann/approver` is what stands below whoever is called Ann.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from harken.core.events import AgentConfigured, AgentCreated, Event
from harken.core.ids import USER, AgentId
from harken.errors import NameNotFound
from harken.views.tree import TreeRow


class AgentNames:
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

        Raises NameNotFound, which lists the agents, or the ids of those that share the name.
        """
        if name_or_id in self.called or name_or_id == USER:
            return AgentId(name_or_id)
        found = self.called_so(name_or_id)
        if len(found) > 1:
            raise NameNotFound("single agent named", name_or_id, found)
        if not found:
            raise NameNotFound("agent", name_or_id, map(self._both, self.called))
        return found[0]

    def called_so(self, name: str) -> list[AgentId]:
        """Return all agents that ever had this name."""
        return [agent for agent, names in self._ever.items() if name in names]

    def _both(self, agent: AgentId) -> str:
        name = self.called[agent]
        return name if name == agent else f"{name} ({agent})"


class Paths:
    """The paths of all agents of a tree, those that are gone, too."""

    def __init__(self, rows: Sequence[TreeRow], names: AgentNames) -> None:
        self._rows, self._names = {row.agent_id: row for row in rows}, names

    def of(self, agent: AgentId) -> str:
        """Return the whole path that leads to an agent, its name alone where it is in no tree."""
        up = [self._names.of(one) or one for one in self._upwards(agent)]
        return "/".join(reversed(up)) or agent

    def found(self, path: str) -> list[AgentId]:
        """Return the agents at the end of a path, each step a name, also a former one, or an id."""
        steps = path.split("/")[::-1]
        return [agent for agent in self._rows if self._leads(steps, agent)]

    def choices(self, agents: Sequence[AgentId]) -> list[str]:
        """Return how each of these can be named, for a person to choose."""
        return [f"{self.of(agent)} ({agent}{self._gone(agent)})" for agent in agents]

    def _leads(self, steps: Sequence[str], agent: AgentId) -> bool:
        up = list(zip(steps, self._upwards(agent), strict=False))
        fits = (step == one or step in self._names.ever(one) for step, one in up)
        return len(up) == len(steps) and all(fits)

    def _gone(self, agent: AgentId) -> str:
        row = self._rows.get(agent)
        return ", gone" if row is not None and row.gone else ""

    def _upwards(self, agent: AgentId) -> Iterator[AgentId]:
        """Yield an agent and those above it, the nearest first; each once, whatever a log says."""
        at, seen = self._rows.get(agent), set[AgentId]()
        while at is not None and at.agent_id not in seen:
            seen.add(at.agent_id)
            yield at.agent_id
            at = None if at.parent is None else self._rows.get(at.parent)
