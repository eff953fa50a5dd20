"""Replay the turns that external triggers started.

In the record these turns ran concurrently with other turns. In the replay, an agent that acts next
because of a trigger, and is idle, starts a turn; an agent in a turn receives the input between
steps.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from itertools import takewhile
from typing import Any

from harken.agents.agent import Agent
from harken.agents.inputs import set_unread_results, unread_results
from harken.agents.open_calls import answer_or_stop
from harken.agents.turn.triggered_turn import may_begin_turn, triggered_turn, wait_for_turn
from harken.core import events as ev
from harken.core.ids import USER, AgentId, MessageId
from harken.errors import HarkenError
from harken.experiments.replay.agent_events import Lane
from harken.experiments.replay.progress import Crash, ReplayProgress
from harken.views.links import Links

_START_DELAY_STEPS = 20
"""Number of event loop iterations before a turn is started, in case another agent starts it."""
_MAX_WAIT_STEPS = 5_000
_turn: ContextVar[MessageId] = ContextVar("turn", default=MessageId(""))


class TriggeredTurns:
    """The triggered turns of a replayed session."""

    def __init__(
        self, script: ReplayProgress, events: Links, agent: Callable[[str | None], Agent]
    ) -> None:
        """Prepare the turns. `agent` returns the replayed agent for a recorded id."""
        self._script, self._links, self._agent = script, events, agent
        self._turns: dict[MessageId, asyncio.Task[None]] = {}
        """Id of the first input -> task of the turn."""
        self._acting: dict[MessageId, AgentId] = {}
        self._delivered: set[MessageId] = set()

    def deliver_due(self, lane: Lane, coming: ev.Event | None) -> None:
        """Deliver recorded inputs that are due.

        `lane` is the agent of the last event; `coming` is the next recorded event.
        """
        next_events = self._script.remaining_events(lane)[:1]
        for event in [*next_events, *filter(None, [coming])]:
            if isinstance(event, ev.TranscriptEntry) and self._is_triggered_input(event):
                self._deliver(event, may_wake=event is coming)

    def _deliver(self, first: ev.TranscriptEntry, *, may_wake: bool) -> None:
        agent = self._agent(first.agent_id)
        is_primary = agent.state.place == "primary"  # Its turn is started by its caller.
        if is_primary and may_begin_turn(agent):
            return
        for entry in takewhile(
            self._is_triggered_input, self._script.remaining_events(self._script.agent_key(agent))
        ):
            if isinstance(entry, ev.TranscriptEntry) and not self._is_trigger_text(entry):
                self._add_news(agent, entry)
        if may_wake and not is_primary and first.message_id not in self._turns:
            self._acting[first.message_id] = agent.agent_id
            self._turns[first.message_id] = asyncio.create_task(self._turn(agent, first))

    async def wait(self, acting: Callable[[ev.Event], Agent]) -> None:
        """Wait until no triggered turn is next.

        `acting` returns the agent that must act for an event.
        """
        for _ in range(_MAX_WAIT_STEPS):
            coming = self._script.next()
            if not self._turns or self._script.has_diverged:
                break
            if coming is not None and acting(coming).agent_id not in self._acting.values():
                return
            await asyncio.sleep(0)
        turns = list(self._turns.values())
        self.cancel()
        await asyncio.gather(*turns, return_exceptions=True)

    def cancel(self) -> None:
        """Cancel all turns, as at the end of the process."""
        for turn in self._turns.values():
            turn.cancel()

    def current(self) -> asyncio.Task[Any] | None:
        """Return the current task if it is a triggered turn."""
        return self._turns.get(_turn.get())

    def remove_news(self, agent: Agent, substance: str | None) -> None:
        """Remove pending inputs of an agent that it receives in another way."""
        results = unread_results(agent)
        set_unread_results(
            agent,
            [item for item in results if substance is None or item.substance != substance],
        )

    async def _turn(self, agent: Agent, coming: ev.Event) -> None:
        _turn.set(coming.message_id)
        try:
            for _ in range(_START_DELAY_STEPS):
                await asyncio.sleep(0)
            await wait_for_turn(agent)
            if self._script.is_replayed(coming) or self._script.has_diverged:
                return
            async with triggered_turn(agent):
                with suppress(Crash, HarkenError):
                    await answer_or_stop(agent)
        finally:
            del self._turns[coming.message_id], self._acting[coming.message_id]

    def _add_news(self, agent: Agent, entry: ev.TranscriptEntry) -> None:
        replayed_id = self._script.map_id(entry.substance or "")
        if replayed_id is not None and entry.message_id not in self._delivered:
            self._delivered.add(entry.message_id)
            news_entry = ev.TranscriptEntry(
                agent_id=agent.agent_id, role="user", content=entry.content
            )
            news_entry.substance = MessageId(replayed_id)
            set_unread_results(agent, [*unread_results(agent), news_entry])

    def _is_triggered_input(self, event: ev.Event) -> bool:
        """Whether an entry is the input of a trigger, or the answer of a subagent to one."""
        if not isinstance(event, ev.TranscriptEntry) or event.agent_id == USER:
            return False
        if event.role != "user" or event.substance is None:
            return False
        source = self._links.get(event.substance)
        return self._is_trigger_text(event) or (
            isinstance(source, ev.TranscriptEntry)
            and source.role == "assistant"
            and source.agent_id not in (USER, event.agent_id)
            and self._agent(source.agent_id).state.parent == self._agent(event.agent_id).agent_id
        )

    def _is_trigger_text(self, event: ev.TranscriptEntry) -> bool:
        piece = self._links.get(event.substance)
        return isinstance(piece, ev.PieceOfText) and piece.trigger is not None
