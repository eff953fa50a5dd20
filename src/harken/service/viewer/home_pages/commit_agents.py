"""`CommitAgents`: the ids that agents of commits and edits have in their sessions.

A commit names its session and its agent; the id, which gives an agent its color, is in the events.
A row of the history, or of a file, so has the id that the page of its session has, too.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from harken.core.commits import CommitId
from harken.core.events import ContextCommitted, Event
from harken.core.ids import AgentId, agent_id
from harken.errors import HarkenError
from harken.service.viewer.library import SessionLibrary, SessionSource
from harken.views.agent_names import AgentNames

MAIN = "main"
_FIRST_AGENT = agent_id(1)
_MAX_SESSIONS = 64
_MAX_S = 1.0
"""How long an answer waits for the events of sessions that were not read yet."""


class CommitAgentName(NamedTuple):
    """The agent of a commit, as the commit names it."""

    session: str | None
    """The name of its session in the library. None if that has no such session."""
    agent: str
    """Empty, or `main`: the main conversation."""


class CommitAgents:
    """The agents of commits of a library. Methods are called by several threads at a time."""

    def __init__(self, library: SessionLibrary) -> None:
        """Nothing is read yet."""
        self._library = library
        self._lock = threading.Lock()
        self._sessions: OrderedDict[str, _SessionAgents] = OrderedDict()

    def find(self, authors: Mapping[CommitId, CommitAgentName]) -> dict[CommitId, AgentId]:
        """Return the ids of the agents of commits, without those that are not known.

        The main conversation is the first agent of its session. For other agents the session is
        read, unless that takes too long or the session is damaged.
        """
        agents: dict[CommitId, AgentId] = {}
        deadline = time.monotonic() + _MAX_S
        agents_by_session: dict[str, _SessionAgents | None] = {}
        for commit, (session, name) in authors.items():
            if name in ("", MAIN):
                agents[commit] = _FIRST_AGENT
                continue
            if session is None:
                continue
            if session not in agents_by_session:
                agents_by_session[session] = self._read(session, deadline)
            session_agents = agents_by_session[session]
            agent = None if session_agents is None else session_agents.find(commit, name)
            if agent is not None:
                agents[commit] = agent
        return agents

    def _read(self, session: str, deadline: float) -> _SessionAgents | None:
        """Return the agents of a session, or None if its events cannot be read in time."""
        try:
            source = self._library.open(session)
            version = source.key, source.find_version()
            with self._lock:
                agents = self._sessions.get(session)
                if agents is not None and agents.version == version:
                    self._sessions.move_to_end(session)
                    return agents
            if time.monotonic() >= deadline:
                return None
            agents = _read_agents(source, version, deadline)
        except HarkenError:
            return None
        if agents is not None:
            with self._lock:
                self._sessions[session] = agents
                self._sessions.move_to_end(session)
                if len(self._sessions) > _MAX_SESSIONS:
                    self._sessions.popitem(last=False)
        return agents


class _SessionAgents(msgspec.Struct, frozen=True):
    """The agents of a session by their commits, and by the names that only one agent had."""

    version: object
    by_commit: Mapping[CommitId, AgentId]
    by_name: Mapping[str, AgentId]

    def find(self, commit: CommitId, name: str) -> AgentId | None:
        """Return the agent of a commit; a commit that no event names is found by its agent."""
        return self.by_commit.get(commit) or self.by_name.get(name)


def _read_agents(source: SessionSource, version: object, deadline: float) -> _SessionAgents | None:
    names = AgentNames(())
    by_commit: dict[CommitId, AgentId] = {}
    events = source.read()
    while events:
        names.add(events)
        by_commit |= _find_commits(events)
        events = source.read()
        if events and time.monotonic() >= deadline:
            return None
    agents_by_name: dict[str, list[AgentId]] = {}
    for agent in names.latest_names:
        for name in set(names.all_names(agent)):
            agents_by_name.setdefault(name, []).append(agent)
    by_name = {name: agents[0] for name, agents in agents_by_name.items() if len(agents) == 1}
    return _SessionAgents(version, by_commit, by_name)


def _find_commits(events: Iterable[Event]) -> dict[CommitId, AgentId]:
    return {
        CommitId(event.ctx): event.agent_id
        for event in events
        if isinstance(event, ContextCommitted) and event.agent_id
    }
