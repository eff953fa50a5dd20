"""The tree: all agents that ever were, each below the one that it belongs to.

Made from births and moves by the fold. A hook stands below the agent that it watches; whoever is
gone stays where it last was, marked, with its subtree.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from harken.core.events import AgentMoved, Event, Json, Place
from harken.core.ids import AgentId, MessageId
from harken.core.record import SparseRecord
from harken.errors import HarkenError
from harken.session.fold import fold
from harken.session.state import AgentState, SessionState
from harken.views.model_calls import placeholders


class TreeRow(SparseRecord, frozen=True, kw_only=True):
    """One agent in the tree."""

    agent_id: AgentId
    name: str
    """Its id where it has no name."""
    depth: int
    """0 at a root."""
    parent: AgentId | None
    """The agent above; of a hook, the one that it watches."""
    place: Place
    """What it is, or last was before it was gone: primary, subagent or hook."""
    gone: bool = False
    """Whether it, or somebody above it, is gone."""
    language_model: str | None = None
    template: str | None = None
    """What kind of agent it is, where its birth says so."""
    task: str | None = None
    """What it was made for, in a few words, where another runtime says so."""
    birth: MessageId | None = None
    """None in an older log, which may not tell."""
    entries: int
    """How many messages ever entered its transcript."""
    model_calls: int
    tokens: int
    """Input and output together, of its own model calls."""
    cost_usd: float
    rerun: dict[str, Json] | None = None
    """Of which session and model call it is a rerun, and what was changed; None: it is none."""


def tree(events: Iterable[Event]) -> list[TreeRow]:
    """Return all agents, parents before their children: first hooks, then subagents, by birth.

    Raises HarkenError where the log contradicts itself.
    """
    state = SessionState()
    places: dict[AgentId, Place] = {}
    for event in events:
        if isinstance(event, AgentMoved) and event.agent_id in state.agents:
            _remember(places, state.agents[event.agent_id])
        try:
            fold(state, event, placeholders)
        except ValueError as error:
            raise HarkenError(f"the log contradicts itself: {error}") from None
    for agent in state.agents.values():
        _remember(places, agent)
    return list(_walk(state, places))


def _remember(places: dict[AgentId, Place], agent: AgentState) -> None:
    """Note where an agent stands, or that it is still remembered where it stood before it went."""
    if agent.place != "gone" or agent.id not in places:
        places[agent.id] = agent.place


def _walk(state: SessionState, places: dict[AgentId, Place]) -> Iterator[TreeRow]:
    """Yield the rows, parents first, without recursion: a tree may be deeper than Python likes."""
    below: dict[AgentId | None, list[AgentState]] = {}
    for agent in state.agents.values():
        parent = agent.parent if agent.parent in state.agents else None
        below.setdefault(parent, []).append(agent)
    for children in below.values():
        children.sort(key=lambda agent: places[agent.id] != "hook")
    seen: set[AgentId] = set()
    for start in (*below.get(None, ()), *state.agents.values()):  # the latter: agents in a circle
        waiting = [(start, 0, False)]
        while waiting:
            agent, depth, gone = waiting.pop()
            if agent.id in seen:
                continue
            seen.add(agent.id)
            gone = gone or agent.place == "gone"
            yield _row(agent, places[agent.id], depth, gone=gone)
            lower = reversed(below.get(agent.id, []))
            waiting.extend((child, depth + 1, gone) for child in lower)


def _row(agent: AgentState, place: Place, depth: int, *, gone: bool) -> TreeRow:
    return TreeRow(
        agent_id=agent.id,
        name=agent.name or agent.id,
        depth=depth,
        parent=agent.parent,
        place=place,
        gone=gone,
        language_model=agent.language_model,
        template=template_name(agent.spec),
        task=_text(agent.spec.get("task")),
        birth=agent.birth or None,
        entries=len(agent.transcript or ()),
        model_calls=agent.usage.model_calls,
        tokens=agent.usage.tokens,
        cost_usd=agent.usage.cost_usd,
        rerun=rerun_said(agent.spec.get("rerun")),
    )


def template_name(spec: Mapping[str, Json]) -> str | None:
    """Return the name of the template that an agent was made from. Return None if it has none."""
    template = spec.get("template")
    return _text(template.get("name")) if isinstance(template, dict) else None


def _text(value: Json) -> str | None:
    return value if isinstance(value, str) and value else None


def rerun_said(said: Json) -> dict[str, Json] | None:
    """Return what a birth says of a rerun, as far as it is what it should be."""
    if not isinstance(said, dict):
        return None
    changes = said.get("changes")
    named = {name: str(said[name]) for name in ("session", "request", "agent") if name in said}
    return {**named, "changes": [*map(str, changes if isinstance(changes, list) else [])]}


def rerun_text(said: Mapping[str, Json]) -> str:
    """Return of what an agent is a rerun, as `rerun_said` has it, for a person.

    >>> rerun_text({"session": "demo", "request": "msg_051", "changes": ["edited #1"]})
    'rerun of demo from msg_051: edited #1'
    """
    changes = said.get("changes")
    told = [str(one) for one in changes] if isinstance(changes, list) else []
    about = f"rerun of {said.get('session')} from {said.get('request')}"
    return f"{about}: {', '.join(told or ['nothing changed'])}"
