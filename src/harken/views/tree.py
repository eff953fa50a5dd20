"""The tree of all agents of a session, including removed agents.

The tree is built by folding creation and move events. A hook is a child of the agent that it
watches. A removed agent stays at its last position, with its subtree, and is marked as gone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from harken.core import structs
from harken.core.event_types.spec import AgentSpec
from harken.core.events import AgentMoved, Event, HookVerdict, Json, Place, SessionStarted
from harken.core.ids import AgentId, MessageId, Origin
from harken.core.record import SparseRecord
from harken.errors import HarkenError
from harken.session.fold import fold
from harken.session.state import AgentState, SessionState
from harken.views.model_calls import placeholders


class TreeMove(SparseRecord, frozen=True, kw_only=True):
    """A change of an agent's place in the tree."""

    message_id: MessageId
    time: str
    agent_id: AgentId
    name: str
    place: Place
    """Its place from then on."""
    parent: AgentId | None = None
    """The agent above it from then on."""
    parent_name: str | None = None
    replaces: AgentId | None = None
    """The agent whose place it took over."""
    replaces_name: str | None = None


class TreeRow(SparseRecord, frozen=True, kw_only=True):
    """An agent in the tree."""

    agent_id: AgentId
    name: str
    """Its id if it has no name."""
    depth: int
    """0 at a root."""
    parent: AgentId | None
    """The parent agent; for a hook, the agent that it watches."""
    place: Place
    """Its role, or its last role before it was removed: primary, subagent or hook."""
    gone: bool = False
    """Whether the agent or one of its ancestors is gone."""
    language_model: str | None = None
    template: str | None = None
    """Name of its template, if its creation event has one."""
    task: str | None = None
    """A short description of its task, if another runtime logged one."""
    birth: MessageId | None = None
    """The creation event. None in an older log that lacks it."""
    entries: int
    """Number of messages in its transcript, including removed ones."""
    verdicts: int = 0
    """Number of verdicts that it gave as a hook."""
    model_calls: int
    tokens: int
    """Input and output tokens of its own model calls."""
    cost_usd: float
    rerun: dict[str, Json] | None = None
    """The session and model call that it is a rerun of, with the changes.

    None if it is no rerun of another program's session.
    """
    origin: Origin | None = None
    """For the first agent of a fork: the session of which it is a copy, up to an event."""


def tree(events: Iterable[Event]) -> list[TreeRow]:
    """Return all agents, parents before children; at each level hooks first, then by creation.

    Raises HarkenError if the log is inconsistent.
    """
    agents = TreeIndex()
    agents.add(events)
    if agents.contradiction is not None:
        raise HarkenError(f"the log contradicts itself: {agents.contradiction}")
    return agents.rows()


class TreeIndex:
    """The agents of a session that may be running."""

    def __init__(self) -> None:
        self.contradiction: str | None = None
        """The first contradiction in the log. The event that has it is left out."""
        self._state = SessionState()
        self._places: dict[AgentId, Place] = {}
        self._verdicts = Counter[AgentId | None]()
        self._origin: Origin | None = None
        self._moves: list[AgentMoved] = []
        self._parents_after: dict[MessageId, AgentId | None] = {}

    def add(self, events: Iterable[Event]) -> None:
        """Add later events."""
        for event in events:
            if isinstance(event, SessionStarted):
                self._origin = event.origin
            if isinstance(event, HookVerdict):
                self._verdicts[event.agent_id] += 1
            if isinstance(event, AgentMoved) and event.agent_id in self._state.agents:
                _record_place(self._places, self._state.agents[event.agent_id])
            try:
                fold(self._state, event, placeholders)
            except ValueError as error:
                self.contradiction = self.contradiction or str(error)
            else:
                if isinstance(event, AgentMoved) and event.agent_id in self._state.agents:
                    self._moves.append(event)
                    parent = self._state.agents[event.agent_id].parent
                    self._parents_after[event.message_id] = parent

    def moves(self) -> list[TreeMove]:
        """Return the changes of agents' places, oldest first."""
        return [self._build_move(event) for event in self._moves]

    def _build_move(self, event: AgentMoved) -> TreeMove:
        agent = self._state.agents[event.agent_id or AgentId("")]
        parent = None if event.place == "gone" else self._parents_after[event.message_id]
        return TreeMove(
            message_id=event.message_id,
            time=event.time,
            agent_id=agent.id,
            name=agent.name or agent.id,
            place=event.place,
            parent=parent,
            parent_name=self._find_name(parent),
            replaces=event.replaces,
            replaces_name=self._find_name(event.replaces),
        )

    def _find_name(self, agent_id: AgentId | None) -> str | None:
        agent = None if agent_id is None else self._state.agents.get(agent_id)
        return agent_id if agent is None else agent.name or agent.id

    def rows(self) -> list[TreeRow]:
        """Return all agents, as `tree` does."""
        places = dict(self._places)
        for agent in self._state.agents.values():
            _record_place(places, agent)
        rows = list(_iter_rows(self._state, places, self._verdicts))
        return [structs.replace(row, origin=self._origin) for row in rows[:1]] + rows[1:]


def _record_place(places: dict[AgentId, Place], agent: AgentState) -> None:
    """Record the place of an agent. A gone agent keeps the place that it had before."""
    if agent.place != "gone" or agent.id not in places:
        places[agent.id] = agent.place


def _iter_rows(
    state: SessionState, places: dict[AgentId, Place], verdicts: Counter[AgentId | None]
) -> Iterator[TreeRow]:
    """Yield rows, parents first, without recursion: a tree may exceed Python's recursion limit."""
    children_by_parent: dict[AgentId | None, list[AgentState]] = {}
    for agent in state.agents.values():
        parent = agent.parent if agent.parent in state.agents else None
        children_by_parent.setdefault(parent, []).append(agent)
    for children in children_by_parent.values():
        children.sort(key=lambda agent: places[agent.id] != "hook")
    seen: set[AgentId] = set()
    # All agents again, because agents in a cycle have no root.
    for start in (*children_by_parent.get(None, ()), *state.agents.values()):
        pending = [(start, 0, False)]
        while pending:
            agent, depth, gone = pending.pop()
            if agent.id in seen:
                continue
            seen.add(agent.id)
            gone = gone or agent.place == "gone"
            yield _build_row(agent, places[agent.id], depth, verdicts[agent.id], gone=gone)
            children_reversed = reversed(children_by_parent.get(agent.id, []))
            pending.extend((child, depth + 1, gone) for child in children_reversed)


def _build_row(
    agent: AgentState, place: Place, depth: int, verdicts: int, *, gone: bool
) -> TreeRow:
    return TreeRow(
        agent_id=agent.id,
        name=agent.name or agent.id,
        depth=depth,
        parent=agent.parent,
        place=place,
        gone=gone,
        language_model=agent.language_model,
        template=template_name(agent.spec),
        task=agent.spec.task or None,
        birth=agent.birth or None,
        entries=len(agent.transcript or ()),
        verdicts=verdicts,
        model_calls=agent.usage.model_calls,
        tokens=agent.usage.tokens,
        cost_usd=agent.usage.cost_usd,
        rerun=parse_rerun(agent.spec.rerun),
    )


def template_name(spec: AgentSpec) -> str | None:
    """Return the name of the template that an agent was made from. Return None if it has none."""
    return None if spec.template is None else spec.template.name or None


def parse_rerun(said: Json) -> dict[str, Json] | None:
    """Parse the rerun provenance in a creation event. Return None if there is none."""
    if not isinstance(said, dict):
        return None
    changes = said.get("changes")
    source = {name: str(said[name]) for name in ("session", "request", "agent") if name in said}
    return {**source, "changes": [*map(str, changes if isinstance(changes, list) else [])]}


def format_rerun(said: Mapping[str, Json]) -> str:
    """Format the provenance of a rerun, as parsed by `parse_rerun`.

    >>> format_rerun({"session": "demo", "request": "msg_051", "changes": ["edited #1"]})
    'rerun of demo from msg_051: edited #1'
    """
    changes = said.get("changes")
    changes_text = [str(change) for change in changes] if isinstance(changes, list) else []
    origin = f"rerun of {said.get('session')} from {said.get('request')}"
    return f"{origin}: {', '.join(changes_text or ['nothing changed'])}"


def format_origin(origin: Origin) -> str:
    """Format the origin of a fork.

    >>> format_origin(Origin("demo", MessageId("msg_041"), "", ("edited #1", "model m")))
    'fork of demo up to msg_041: edited #1, model m'
    """
    changes = f": {', '.join(origin.changes)}" if origin.changes else ""
    return f"fork of {origin.session} up to {origin.upto}{changes}"
