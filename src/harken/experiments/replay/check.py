"""Determinism: a session is played again, and everything has to happen again.

Models and world answer as they did; so what differs is what was changed since in Harken, in a
prompt, a template, or in code that was brought along. Nothing outside is touched: no model, no
tool and no network. Times, latencies, commits and the order among agents do not count.

    outcome = check(SessionViewer("session.jsonl").events)
    assert outcome.difference is None, outcome.difference
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from harken.core import events as ev
from harken.errors import ConfigError, HarkenError
from harken.experiments.replay.agent_events import (
    AgentEventLists,
    EventDivergence,
    first_difference,
)
from harken.experiments.replay.player import Replayer, ReplayExtras
from harken.recording.rebuild import RequestRebuilder
from harken.session.fold import Resolver
from harken.views.links import Links
from harken.views.model_calls import placeholders
from harken.views.steps import RequestSteps


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayCheck:
    """What came of playing a session again."""

    agents: int
    requests: int
    events: int
    """How many were compared."""
    difference: EventDivergence | None = None
    """Where it went another way first; None: it went the same."""
    missed: str = ""
    """How the first request that was not recorded differs from the nearest that was."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildCheck:
    """What came of rebuilding every request of a session that another program ran."""

    requests: int
    bodies: int
    """How many are back as they were on the wire; others were not recorded there."""
    failures: tuple[tuple[str, str], ...] = ()
    """The requests that could not be rebuilt, or are not what was logged, and why."""


def rebuild(events: Iterable[ev.Event], resolver: Resolver | None = None) -> RebuildCheck:
    """Rebuild every request of a session, and compare it with what was logged of it."""
    links = Links.of(events)
    steps = RequestSteps(links, resolver=resolver or placeholders)
    rebuilder = RequestRebuilder(links)
    failures: list[tuple[str, str]] = []
    bodies = 0
    for number, request in enumerate(steps.requests, start=1):
        try:
            if not steps.verified(number):
                failures.append((request.message_id, "its messages do not have the logged hash"))
            elif request.wire is not None:
                rebuilder.body(request.message_id)
                bodies += 1
        except HarkenError as error:
            failures.append((request.message_id, str(error)))
    return RebuildCheck(requests=len(steps), bodies=bodies, failures=tuple(failures))


def check(events: Iterable[ev.Event], own: ReplayExtras | None = None) -> ReplayCheck:
    """Play a session again and compare. `own`: code of agents that runs, and what else is known.

    Raises ConfigError where it cannot be played: nothing is in it, or other programs made it.
    """
    links = Links.of(events)
    _check_playable(links, own or ReplayExtras())
    with TemporaryDirectory(prefix="harken-check-") as folder:
        playing = Replayer(links, Path(folder) / "again.jsonl", own or ReplayExtras())
        try:
            asyncio.run(playing.play())
        finally:
            playing.close()
    lanes: AgentEventLists = playing.recorded
    return ReplayCheck(
        agents=len(lanes.agents),
        requests=sum(lanes.count(lane, ev.LlmRequest) for lane in lanes.events),
        events=len(lanes.order),
        difference=first_difference(lanes, playing.script.again),
        missed=playing.answers.missed,
        notes=tuple(dict.fromkeys(playing.notes)),
    )


def is_recorded(events: Iterable[ev.Event]) -> bool:
    """Whether other programs ran the agents of a session: then it cannot be played again."""
    births = (event for event in events if isinstance(event, ev.AgentCreated))
    return any("recorded" in (birth.spec or {}) for birth in births)


def _check_playable(links: Links, own: ReplayExtras) -> None:
    births = [event for event in links if isinstance(event, ev.AgentCreated)]
    if not births:
        raise ConfigError("no agent was born in this session: there is nothing to play again")
    if is_recorded(births):
        raise ConfigError("another program ran these agents: they cannot be played again")
    if any("rerun" in (birth.spec or {}) for birth in births):
        raise ConfigError("this is a rerun, which is offered tools as they were then: run it again")
    if own.resolver is None and any(isinstance(event, ev.ContextLoaded) for event in links):
        raise ConfigError("an agent began from a commit: its messages are in a store, give it")
