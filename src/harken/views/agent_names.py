"""Resolve names and tree paths of agents.

Ids are unique and names are not: an agent may be renamed, and a name may be reused after its agent
is gone. So an id always takes precedence, and a name that several agents had is ambiguous.

`Paths` resolves positions in the tree of agents by names, such as `main/approver`.

Copies of a hook share a name, so a name alone may be ambiguous. A path may start at any agent:
`Ann/approver` matches below every agent with the name Ann.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from harken.core.events import AgentConfigured, AgentCreated, Event
from harken.core.ids import USER, AgentId
from harken.errors import AmbiguousName, NameNotFound
from harken.views.tree import TreeRow


class AgentNames:
    """The names of all agents of a session, including past agents."""

    def __init__(self, events: Iterable[Event]) -> None:
        """Collect the names.

        An agent of an older log counts from the first event that mentions it.
        """
        self.latest_names: dict[AgentId, str] = {}
        """Agent -> its latest name, or its id if it has no name. Without the user."""
        self._all_names: dict[AgentId, list[str]] = {}
        self.add(events)

    def add(self, events: Iterable[Event]) -> None:
        """Collect the names in later events."""
        called = self.latest_names
        for event in events:
            agent = event.agent_id
            if agent and agent not in called and agent != USER:
                called[agent] = agent
            if agent and isinstance(event, AgentCreated | AgentConfigured) and event.name:
                called[agent] = event.name
                self._all_names.setdefault(agent, []).append(event.name)

    def latest_name(self, agent: AgentId | None) -> str | None:
        """Return the latest name of an agent, or its id if it has no name. The user is `user`."""
        return None if agent is None else self.latest_names.get(agent, agent)

    def all_names(self, agent: AgentId | None) -> Collection[str]:
        """Return all names that an agent had, and its id. Empty if it never had a name."""
        names = self._all_names.get(agent, []) if agent is not None else []
        return [*names, str(agent)] if names else []

    def resolve(self, name_or_id: str) -> AgentId:
        """Return the agent with this id, or the only agent that ever had this name.

        Raises NameNotFound with the agents, AmbiguousName with the agents that share the name.
        """
        if name_or_id in self.latest_names or name_or_id == USER:
            return AgentId(name_or_id)
        matches = self.find_by_name(name_or_id)
        if len(matches) > 1:
            raise AmbiguousName("agent", name_or_id, matches)
        if not matches:
            raise NameNotFound("agent", name_or_id, map(self._format_agent, self.latest_names))
        return matches[0]

    def find_by_name(self, name: str) -> list[AgentId]:
        """Return all agents that ever had this name."""
        return [agent for agent, names in self._all_names.items() if name in names]

    def _format_agent(self, agent: AgentId) -> str:
        name = self.latest_names[agent]
        return name if name == agent else f"{name} ({agent})"


class AgentPaths:
    """The tree paths of all agents, including removed agents."""

    def __init__(self, rows: Sequence[TreeRow], names: AgentNames) -> None:
        self._rows, self._names = {row.agent_id: row for row in rows}, names

    def of(self, agent: AgentId) -> str:
        """Return the full path of an agent, or its name if it is not in the tree."""
        names = [
            self._names.latest_name(ancestor) or ancestor
            for ancestor in self._iter_ancestors(agent)
        ]
        return "/".join(reversed(names)) or agent

    def find_agents(self, path: str) -> list[AgentId]:
        """Return the agents that match a path. Each step is a current or former name, or an id."""
        steps = path.split("/")[::-1]
        return [agent for agent in self._rows if self._is_match(steps, agent)]

    def choices(self, agents: Sequence[AgentId]) -> list[str]:
        """Format the agents as choices for an error message."""
        return [f"{self.of(agent)} ({agent}{self._removed_suffix(agent)})" for agent in agents]

    def _is_match(self, steps: Sequence[str], agent: AgentId) -> bool:
        pairs = list(zip(steps, self._iter_ancestors(agent), strict=False))
        is_match = (
            step == ancestor or step in self._names.all_names(ancestor) for step, ancestor in pairs
        )
        return len(pairs) == len(steps) and all(is_match)

    def _removed_suffix(self, agent: AgentId) -> str:
        row = self._rows.get(agent)
        return ", gone" if row is not None and row.gone else ""

    def _iter_ancestors(self, agent: AgentId) -> Iterator[AgentId]:
        """Yield an agent and its ancestors, nearest first. Stops at a cycle."""
        row, visited = self._rows.get(agent), set[AgentId]()
        while row is not None and row.agent_id not in visited:
            visited.add(row.agent_id)
            yield row.agent_id
            row = None if row.parent is None else self._rows.get(row.parent)
