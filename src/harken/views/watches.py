"""Watches: who came to watch whom as a hook, who saw to it, and when it left.

Made from births and moves by the fold: who stands as a hook of another before an event and not
after it has left, and the other way round.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Literal, TypeAlias

from harken.core.events import AgentCreated, AgentMoved, Event, Reference, TranscriptEntry
from harken.core.ids import AgentId, MessageId
from harken.core.record import SparseRecord
from harken.session.fold import fold
from harken.session.state import SessionState
from harken.views.links import Links, causes_of
from harken.views.words import words

How: TypeAlias = Literal["begun", "made", "copied", "moved", "quit", "ended"]


class Watch(SparseRecord, frozen=True, kw_only=True):
    """A hook began to watch an agent, or left it."""

    kind: Literal["installed", "left"]
    how: How
    """`begun`: whoever set the agent up did; `made`: `by` called `hook`; `copied`: its parent is
    watched by such a one; `moved`: somebody took another place; `quit`: by its own will; `ended`:
    by somebody else's."""
    message_id: MessageId
    hook: AgentId
    hook_name: str | None
    agent_id: AgentId
    """Who is, or was, watched."""
    name: str | None
    by: AgentId | None = None
    """Whose doing it was; None where the log names nobody."""
    by_name: str | None = None
    cause: Reference | None = None
    """What they did."""
    told: str | None = None
    """What a smart hook was told when it was born: why it is there."""
    time: str


def watches(events: Iterable[Event]) -> list[Watch]:
    """Return all that began and ended, oldest first."""
    return list(_watches(Links.of(events)))


def _watches(links: Links) -> Iterator[Watch]:
    state = SessionState()
    for event in links:
        if isinstance(event, TranscriptEntry):
            fold(state, event)  # whose a call is: births name calls
        if not isinstance(event, AgentCreated | AgentMoved):
            continue
        moved = [event.agent_id, getattr(event, "replaces", None)]
        hooks = [one for one in moved if one is not None]
        before = [_watched(state, hook) for hook in hooks]
        fold(state, event)
        for hook, was in zip(hooks, before, strict=True):
            now = _watched(state, hook)
            if was == now:
                continue
            if was is not None:
                yield _row(links, event, (hook, was), "left", _how_left(links, event, hook))
            if now is not None:
                how = _how_born(state, event, hook)
                yield _row(links, event, (hook, now), "installed", how)


def _watched(state: SessionState, hook: AgentId) -> AgentId | None:
    """Return whom an agent watches; None where it is no hook."""
    agent = state.agents.get(hook)
    return agent.parent if agent is not None and agent.place == "hook" else None


def _how_born(state: SessionState, event: AgentCreated | AgentMoved, hook: AgentId) -> How:
    if isinstance(event, AgentMoved):
        return "moved"
    if len(causes_of(event)) > 1:
        return "made"
    watched = state.agents[hook].parent
    above = None if watched is None else state.agents[watched].parent
    hooks = state.agents[above].hooks if above is not None else []
    called = re.sub(r" \(\d+\)$", "", event.name or "")  # a copy may have got a name of its own
    names = [state.agents[one].name for one in hooks]
    return "copied" if called in names or event.name in names else "begun"


def _how_left(links: Links, event: AgentCreated | AgentMoved, hook: AgentId) -> How:
    if getattr(event, "place", None) != "gone":
        return "moved"
    return "quit" if _doer(links, event) == hook else "ended"


def _doer(links: Links, event: Event) -> AgentId | None:
    """Return who made the last cause of an event: of a birth, who called `hook`."""
    named = causes_of(event)
    return links.author(links.target(named[-1])) if named else None


def _told(links: Links, birth: AgentCreated) -> str | None:
    """Return the system prompt of an agent, which follows its birth; None where there is none."""
    after = links.events[links.at[birth.message_id] + 1 :][:1]
    for entry in after:
        if isinstance(entry, TranscriptEntry) and entry.agent_id == birth.agent_id:
            return words(entry.content) if entry.role == "system" else None
    return None


def _row(
    links: Links,
    event: AgentCreated | AgentMoved,
    pair: tuple[AgentId, AgentId],
    kind: Literal["installed", "left"],
    how: How,
) -> Watch:
    is_done = how in ("made", "moved", "quit", "ended")
    by = _doer(links, event) if is_done else None
    hook, watched = pair
    return Watch(
        kind=kind,
        how=how,
        message_id=event.message_id,
        hook=hook,
        hook_name=links.names.of(hook),
        agent_id=watched,
        name=links.names.of(watched),
        by=by,
        by_name=links.names.of(by) if by is not None else None,
        cause=causes_of(event)[-1] if is_done and causes_of(event) else None,
        told=_told(links, event) if isinstance(event, AgentCreated) else None,
        time=event.time,
    )
