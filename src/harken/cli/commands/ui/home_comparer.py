"""`HomeRuns`: compare the sessions of a home, as `harken compare`."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from harken.core.events import Event
from harken.experiments.compare import metric_values
from harken.experiments.outcome import ComparedRun, find_fork_start
from harken.experiments.side_by_side import AlignedAgents, SideBySide
from harken.service.viewer.run_comparison import RunSource

_MAX_COMPARISONS = 4
"""The number of comparisons that are kept."""


class HomeComparer:
    """Compares sessions. Its methods are called by several threads at a time."""

    def __init__(self, find_session: Callable[[str], str | None]) -> None:
        """`find_session` returns the name in the library of a session that an event names."""
        self._find_session = find_session
        self._lock = threading.Lock()
        self._comparisons: OrderedDict[tuple[object, ...], HomeComparison] = OrderedDict()

    def find_original(self, events: Iterable[Event]) -> str | None:
        """Return the session of the library that a session was forked from, if there is one."""
        start = find_fork_start(events)
        return None if start is None else self._find_session(start[0])

    def compare(self, runs: Sequence[RunSource]) -> HomeComparison:
        """Compare two or more sessions."""
        key = tuple((run.name, run.version) for run in runs)
        with self._lock:
            comparison = self._comparisons.pop(key, None)
            if comparison is None:
                compared_runs = [ComparedRun(run.name, run.steps) for run in runs]
                comparison = HomeComparison(SideBySide(compared_runs))
            self._comparisons[key] = comparison
            if len(self._comparisons) > _MAX_COMPARISONS:
                self._comparisons.popitem(last=False)
        return comparison


class HomeComparison:
    """Sessions that are compared with the first of them."""

    def __init__(self, runs: SideBySide) -> None:
        self._runs = runs
        self._agents = runs.agents()

    def summarize(self) -> dict[str, Any]:
        """Return the outcomes, the agents, and the comparison with each other session, as JSON."""
        outcomes = self._runs.outcomes
        return {
            "outcomes": [outcome.as_json() for outcome in outcomes],
            "metrics": [metric_values(outcome) for outcome in outcomes],
            "agents": [[agent.as_json() for agent in agents] for agents in self._agents],
            "pairs": [pair.as_json() for pair in self._runs.pairs],
        }

    def align(self, agents: Sequence[str | None]) -> tuple[list[str], AlignedAgents]:
        """Align one agent of each session, and return their names. Raises NameNotFound."""
        first = agents[0] or self._find_differing_agent()
        names = [first]
        for name, own_agents in zip(agents[1:], self._agents[1:], strict=True):
            own_names = [agent.name for agent in own_agents]
            names.append(name or (first if first in own_names else next(iter(own_names), "")))
        return names, self._runs.align(names)

    def _find_differing_agent(self) -> str:
        """Return the first agent that parts, of those in all sessions if there is one."""
        partings = [parting.agent for pair in self._runs.pairs for parting in pair.partings]
        names = [agent.name for agent in self._agents[0]]
        shared_names = {*names}
        for agents in self._agents[1:]:
            shared_names &= {agent.name for agent in agents}
        candidates = [*filter(shared_names.__contains__, partings), *partings, *names]
        return next(iter(candidates), "")
