"""The script: the record of a session, and how far it has been played again."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NoReturn

from harken.agents.agent import Agent
from harken.core import events as ev
from harken.core.ids import AgentId, reference_message_id
from harken.experiments.replay.agent_events import COMPACTOR, AgentEventLists, Lane

_NUMBER = re.compile(r" \(\d+\)$")
"""What a copy's name has more than that of its original, where that was taken."""
_PATIENCE = 5_000
"""So often others may go a step on, before what they were to do is not waited for any more."""


class Crash(BaseException):
    """The process ended here in the record: nothing more is logged, and nobody goes on."""


def crash() -> NoReturn:
    """End here. Raises Crash."""
    raise Crash


@dataclass(slots=True)
class ReplayProgress:
    """The record, and how far it has been played again."""

    recorded: AgentEventLists
    again: AgentEventLists = field(default_factory=AgentEventLists)
    kinds: dict[str, type[Agent]] = field(default_factory=dict)
    """The class of each kind of agent in it."""
    parted: bool = False
    """Whether something happened otherwise than in the record."""
    crash: Callable[[], NoReturn] = crash
    """Ends everything, as the process did."""
    _events: list[ev.Event] = field(default_factory=list)
    _questions: dict[tuple[Lane, str], list[ev.TranscriptEntry]] = field(default_factory=dict)
    """What an agent was asked about a message, or call, as it is called in both."""
    _at: int = 0

    def __post_init__(self) -> None:
        """List the events in the order of the record."""
        rows = self.recorded.events.values()
        self._events = sorted((event for row in rows for event in row), key=self.recorded.at)
        for event in self._events:
            if isinstance(event, ev.TranscriptEntry) and isinstance(event.cause, str):
                lane, _ = self.recorded.places[event.message_id]
                about = self.recorded.named(event.cause)
                self._questions.setdefault((lane, about), []).append(event)

    def hear(self, event: ev.Event) -> Lane | None:
        """Take what happened now; return whose it is, None for what is nobody's."""
        self.again.take(event)
        place = self.again.places.get(event.message_id)
        if place is None:
            return None
        lane, at = place
        row = self.recorded.events.get(lane, ())
        if at >= len(row) or self.recorded.plain(row[at]) != self.again.plain(event):
            self.parted = True
        return lane

    def next(self) -> ev.Event | None:
        """Return the first event of the record that has not happened again."""
        while self._at < len(self._events) and self.is_done(self._events[self._at]):
            self._at += 1
        return self._events[self._at] if self._at < len(self._events) else None

    def is_done(self, event: ev.Event) -> bool:
        """Whether an event of the record has happened again."""
        lane, at = self.recorded.places[event.message_id]
        return self.again.size(lane) > at

    async def until(self, event: ev.Event | None) -> None:
        """Let others act until all has happened that came before this one; None: all there is.

        Where they have gone another way, and it will not happen, wait no longer.
        """
        order = len(self._events) if event is None else self.recorded.at(event)
        for _ in range(_PATIENCE):
            coming = self.next()
            if self.parted or coming is None or self.recorded.at(coming) >= order:
                return
            await asyncio.sleep(0)

    def here(self, recorded: str) -> str | None:
        """Return what a message, or a call, of the record is called here; None: it is not here."""
        message = reference_message_id(recorded)
        lane, at = self.recorded.places.get(message, ("", 0))
        row = self.again.events.get(lane, ())
        return row[at].message_id + recorded.removeprefix(message) if at < len(row) else None

    def lane(self, agent: Agent) -> Lane:
        """Return an agent's lane, which is the same in both."""
        return self.again.of_agent.get(agent.agent_id, "")

    def coming(self, lane: Lane) -> list[ev.Event]:
        """Return what an agent is still to do."""
        return self.recorded.events.get(lane, [])[self.again.size(lane) :]

    def questions_coming(self, lane: Lane, about: str) -> list[ev.TranscriptEntry]:
        """Return what an agent is still to hear because of a message, or call."""
        caused = self._questions.get((lane, about), ())
        return [one for one in caused if one.role == "user" and not self.is_done(one)]

    def is_compacted_next(self, lane: Lane) -> bool:
        """Whether an agent's context was compacted before its next model call."""
        asked = [e for e in self.recorded.events.get(lane, ()) if isinstance(e, ev.LlmRequest)]
        done = self.again.count(lane, ev.LlmRequest)
        order = self.recorded.order
        until = order[asked[done].message_id] if done < len(asked) else len(order)
        due = [b for b in self.recorded.born(lane, COMPACTOR) if order[b.message_id] < until]
        return len(self.again.born(lane, COMPACTOR)) < len(due)

    def hook_of_next(
        self, lane: Lane, name: str, *, is_hook: bool = False
    ) -> ev.AgentCreated | None:
        """Return the birth of the hook with this name above an agent's next subagent, or hook."""
        rows = self.recorded, self.again
        born, made = (lanes.hooks(lane) if is_hook else lanes.subagents(lane) for lanes in rows)
        if len(made) >= len(born):
            return None
        child = self.recorded.of_agent[born[len(made)].agent_id or AgentId("")]
        return self.next_hook(child, name)

    def next_hook(self, lane: Lane, name: str) -> ev.AgentCreated | None:
        """Return the birth of the next hook above an agent that is a copy of one with this name."""
        born, made = (
            [birth for birth in lanes.hooks(lane) if _NUMBER.sub("", birth.name or "") == name]
            for lanes in (self.recorded, self.again)
        )
        return born[len(made)] if len(made) < len(born) else None
