"""`ReplayProgress`: the recorded events, and how far they have been replayed."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import NoReturn

import msgspec

from harken.agents.agent import Agent
from harken.core import events as ev
from harken.core.ids import AgentId, reference_message_id
from harken.experiments.replay.agent_events import COMPACTOR, AgentEventLists, Lane

_COPY_SUFFIX_PATTERN = re.compile(r" \(\d+\)$")
"""The suffix of a copy's name if the original name was taken."""
_MAX_WAIT_STEPS = 5_000
"""Maximum number of event loop iterations to wait for other agents."""


class Crash(BaseException):
    """The process ended at this point of the record. Nothing more is logged."""


def crash() -> NoReturn:
    """Stop the replay. Raises Crash."""
    raise Crash


class ReplayProgress(msgspec.Struct):
    """The recorded events and the replayed events."""

    recorded: AgentEventLists
    replayed: AgentEventLists = msgspec.field(default_factory=AgentEventLists)
    kinds: dict[str, type[Agent]] = msgspec.field(default_factory=dict)
    """Class of each kind of agent."""
    has_diverged: bool = False
    """Whether a replayed event differed from the record."""
    crash: Callable[[], NoReturn] = crash
    """Stops the replay at a recorded crash."""
    _events: list[ev.Event] = msgspec.field(default_factory=list)
    _verdicts: dict[tuple[Lane, str], ev.HookVerdict] = msgspec.field(default_factory=dict)
    """Lane and subject -> the recorded verdict of the agent on that message or call."""
    _position: int = 0

    def __post_init__(self) -> None:
        """Sort the recorded events by their order in the log."""
        lanes = self.recorded.events.values()
        self._events = sorted(
            (event for lane_events in lanes for event in lane_events), key=self.recorded.index_of
        )
        for event in self._events:
            if isinstance(event, ev.HookVerdict):
                lane, _ = self.recorded.positions[event.message_id]
                self._verdicts[lane, self.recorded.stable_name(event.subject)] = event

    def add_event(self, event: ev.Event) -> Lane | None:
        """Add a replayed event. Return its lane, or None if it belongs to none."""
        self.replayed.add(event)
        place = self.replayed.positions.get(event.message_id)
        if place is None:
            return None
        lane, index = place
        lane_events = self.recorded.events.get(lane, ())
        if index >= len(lane_events) or self.recorded.comparable_members(
            lane_events[index]
        ) != self.replayed.comparable_members(event):
            self.has_diverged = True
        return lane

    def next(self) -> ev.Event | None:
        """Return the first recorded event that was not replayed yet."""
        while self._position < len(self._events) and self.is_replayed(self._events[self._position]):
            self._position += 1
        return self._events[self._position] if self._position < len(self._events) else None

    def is_replayed(self, event: ev.Event) -> bool:
        """Whether a recorded event was replayed."""
        lane, index = self.recorded.positions[event.message_id]
        return self.replayed.size(lane) > index

    async def wait_until(self, event: ev.Event | None) -> None:
        """Wait until all events before this one were replayed, or all events of the log.

        Returns early if the replay has diverged, or if other agents make no progress.
        """
        order = len(self._events) if event is None else self.recorded.index_of(event)
        for _ in range(_MAX_WAIT_STEPS):
            next_event = self.next()
            if (
                self.has_diverged
                or next_event is None
                or self.recorded.index_of(next_event) >= order
            ):
                return
            await asyncio.sleep(0)

    def map_id(self, recorded: str) -> str | None:
        """Return the replayed id of a recorded message or call. Return None if there is none."""
        message = reference_message_id(recorded)
        lane, index = self.recorded.positions.get(message, ("", 0))
        lane_events = self.replayed.events.get(lane, ())
        return (
            lane_events[index].message_id + recorded.removeprefix(message)
            if index < len(lane_events)
            else None
        )

    def agent_key(self, agent: Agent) -> Lane:
        """Return an agent's lane, which is the same in both runs."""
        return self.replayed.of_agent.get(agent.agent_id, "")

    def remaining_events(self, lane: Lane) -> list[ev.Event]:
        """Return the recorded events of an agent that were not replayed yet."""
        return self.recorded.events.get(lane, [])[self.replayed.size(lane) :]

    def has_verdict(self, lane: Lane, subject: str) -> bool:
        """Whether the agent has yet to give its recorded verdict on a message or call."""
        verdict = self._verdicts.get((lane, subject))
        return verdict is not None and not self.is_replayed(verdict)

    def creation(self, call: ev.TranscriptEntry) -> ev.AgentCreated | None:
        """Return the creation event of the agent that a recorded call created, if it has one."""
        for lane_events in self.recorded.events.values():
            birth = lane_events[0]
            if isinstance(birth, ev.AgentCreated):
                causes = [birth.cause] if isinstance(birth.cause, str) else birth.cause or ()
                if call.message_id in map(reference_message_id, causes):
                    return birth
        return None

    def initial_prompt(self, call: ev.TranscriptEntry) -> str | None:
        """Return the system prompt of the agent that a recorded call created, if it has one."""
        birth = self.creation(call)
        return None if birth is None else self.recorded.system_prompt(birth)

    def is_compacted_next(self, lane: Lane) -> bool:
        """Whether an agent's context was compacted before its next model call."""
        requests = [
            event
            for event in self.recorded.events.get(lane, ())
            if isinstance(event, ev.LlmRequest)
        ]
        done = self.replayed.count(lane, ev.LlmRequest)
        order = self.recorded.order
        until = order[requests[done].message_id] if done < len(requests) else len(order)
        expected = [
            birth
            for birth in self.recorded.children_of_kind(lane, COMPACTOR)
            if order[birth.message_id] < until
        ]
        return len(self.replayed.children_of_kind(lane, COMPACTOR)) < len(expected)

    def hook_of_next(
        self, lane: Lane, name: str, *, is_hook: bool = False
    ) -> ev.AgentCreated | None:
        """Return the next creation event of a hook of this name on an agent's next child."""
        runs = self.recorded, self.replayed
        recorded_births, replayed_births = (
            lanes.hooks(lane) if is_hook else lanes.subagents(lane) for lanes in runs
        )
        if len(replayed_births) >= len(recorded_births):
            return None
        child = self.recorded.of_agent[
            recorded_births[len(replayed_births)].agent_id or AgentId("")
        ]
        return self.next_hook(child, name)

    def next_hook(self, lane: Lane, name: str | None = None) -> ev.AgentCreated | None:
        """Return the next creation event of an agent's hook.

        name: the hook has this name, or is a copy of it. None: any hook.
        """
        recorded_births, replayed_births = (
            [
                birth
                for birth in lanes.hooks(lane)
                if name in (None, _COPY_SUFFIX_PATTERN.sub("", birth.name or ""))
            ]
            for lanes in (self.recorded, self.replayed)
        )
        return (
            recorded_births[len(replayed_births)]
            if len(replayed_births) < len(recorded_births)
            else None
        )
