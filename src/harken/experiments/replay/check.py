"""Check that a session is deterministic: replay it, and compare all events.

Models and tools answer as recorded. So a difference is caused by a change in Harken, in a prompt,
in a template, or in code of the caller. No model, tool or network is accessed. Times, latencies,
commits and the order between agents are ignored.

    outcome = check(SessionViewer("session.jsonl").events) assert outcome.difference is None,
    outcome.difference
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

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

MAX_NAME_CHARS = 100


class ReplayCheck(msgspec.Struct, frozen=True, kw_only=True):
    """The result of replaying a session."""

    agents: int
    requests: int
    events: int
    """Number of compared events."""
    difference: EventDivergence | None = None
    """The first difference, or None if the runs are equal."""
    miss_text: str = ""
    """The difference between the first unrecorded request and the nearest recorded one."""
    notes: tuple[str, ...] = ()


class RebuildCheck(msgspec.Struct, frozen=True, kw_only=True):
    """The result of rebuilding the requests of a session that another program ran."""

    requests: int
    bodies: int
    """Number of request bodies that were rebuilt as on the wire; others were not recorded."""
    failures: tuple[tuple[str, str], ...] = ()
    """Request ids with the reason why they could not be rebuilt, or differ from the log."""


def rebuild(events: Iterable[ev.Event], resolver: Resolver | None = None) -> RebuildCheck:
    """Rebuild every request of a session and compare it with the log."""
    links = Links.of(events)
    steps = RequestSteps(links, resolver=resolver or placeholders)
    rebuilder = RequestRebuilder(links)
    failures: list[tuple[str, str]] = []
    bodies = 0
    for number, request in enumerate(steps.requests, start=1):
        try:
            if not steps.is_intact(number):
                failures.append((request.message_id, "its messages do not have the logged hash"))
            elif request.wire is not None:
                rebuilder.body(request.message_id)
                bodies += 1
        except HarkenError as error:
            failures.append((request.message_id, str(error)))
    return RebuildCheck(requests=len(steps), bodies=bodies, failures=tuple(failures))


def check(events: Iterable[ev.Event], own: ReplayExtras | None = None) -> ReplayCheck:
    """Replay a session and compare it. `own` has agent classes and other options.

    Raises ConfigError if the session is empty, or another program ran its agents.
    """
    links = Links.of(events)
    _check_playable(links, own or ReplayExtras())
    with TemporaryDirectory(prefix="harken-check-") as folder:
        log = Path(folder) / f"{_find_session_id(links)}.jsonl"
        replayer = Replayer(links, log, own or ReplayExtras())
        try:
            asyncio.run(replayer.play())
        finally:
            replayer.close()
    lanes: AgentEventLists = replayer.recorded
    return ReplayCheck(
        agents=len(lanes.agents),
        requests=sum(lanes.count(lane, ev.LlmRequest) for lane in lanes.events),
        events=len(lanes.order),
        difference=first_difference(lanes, replayer.progress.replayed),
        miss_text=replayer.answers.miss_text,
        notes=tuple(dict.fromkeys(replayer.notes)),
    )


def is_recorded(events: Iterable[ev.Event]) -> bool:
    """Whether other programs ran the agents of a session, so that it cannot be replayed."""
    births = (event for event in events if isinstance(event, ev.AgentCreated))
    return any(birth.spec is not None and birth.spec.is_recorded for birth in births)


def _check_playable(links: Links, own: ReplayExtras) -> None:
    births = [event for event in links if isinstance(event, ev.AgentCreated)]
    if not births:
        raise ConfigError("the session has no agent, so there is nothing to replay")
    if is_recorded(births):
        raise ConfigError("another program ran these agents, so they cannot be replayed")
    if any(birth.spec is not None and birth.spec.rerun is not None for birth in births):
        raise ConfigError("a rerun cannot be replayed: its tools are recorded; rerun its original")
    if own.resolver is None and any(isinstance(event, ev.ContextLoaded) for event in links):
        raise ConfigError(
            "an agent began from a commit, whose messages are in a store: pass the store"
        )


def _find_session_id(events: Iterable[ev.Event]) -> str:
    """Return the id of the recorded session, from which the order of random discussions follows."""
    started = next((event for event in events if isinstance(event, ev.SessionStarted)), None)
    name = "" if started is None else started.session_id
    return name if name and Path(name).name == name and len(name) <= MAX_NAME_CHARS else "again"
