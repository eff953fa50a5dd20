"""Paths: where agents stand in the tree, by their names: `main/approver`.

Copies of a hook have one name, so a name alone may mean several. A path may begin anywhere:
`Ann/approver` is what stands below whoever is called Ann.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harken.core.ids import AgentId
from harken.views.names import Names
from harken.views.tree import TreeRow


class Paths:
    """The paths of all agents of a tree, those that are gone, too."""

    def __init__(self, rows: Sequence[TreeRow], names: Names) -> None:
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
