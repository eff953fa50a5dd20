"""The turns of agents that something outside woke, while a session is played again.

In the record they ran beside the turn of another. So they do here: whoever comes next in the record
because of what it was told, and is in no turn, begins one; who is in a turn hears it between steps.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import nullcontext, suppress
from contextvars import ContextVar
from itertools import takewhile
from typing import Any

from harken.agents.agent import Agent
from harken.core import events as ev
from harken.core.ids import USER, AgentId, MessageId
from harken.errors import HarkenError
from harken.experiments.replay.agent_events import Lane
from harken.experiments.replay.progress import Crash, ReplayProgress
from harken.views.links import Links

_PAUSE = 20
"""So many steps others have before somebody is woken: maybe one of them lets it answer."""
_PATIENCE = 5_000
_turn: ContextVar[MessageId] = ContextVar("turn", default=MessageId(""))


class TriggeredTurns:
    """Of one session that is played again."""

    def __init__(
        self, script: ReplayProgress, events: Links, agent: Callable[[str | None], Agent]
    ) -> None:
        """Prepare it. agent: gives the agent here by its id in the record."""
        self._script, self._links, self._agent = script, events, agent
        self._turns: dict[MessageId, asyncio.Task[None]] = {}
        """By what somebody is to hear first in it."""
        self._acting: dict[MessageId, AgentId] = {}
        self._told: set[MessageId] = set()

    def look(self, lane: Lane, coming: ev.Event | None) -> None:
        """See to it that everybody hears what was heard then.

        lane: who has just done something; coming: what comes next in the record.
        """
        after = self._script.coming(lane)[:1]
        for event in [*after, *filter(None, [coming])]:
            if isinstance(event, ev.TranscriptEntry) and self._is_news(event):
                self._let_hear(event, may_wake=event is coming)

    def _let_hear(self, first: ev.TranscriptEntry, *, may_wake: bool) -> None:
        agent = self._agent(first.agent_id)
        is_primary = agent.state.place == "primary"  # whoever talks with it lets it answer
        if is_primary and agent.gate.is_open:
            return
        for entry in takewhile(self._is_news, self._script.coming(self._script.lane(agent))):
            if isinstance(entry, ev.TranscriptEntry) and not self._is_piece(entry):
                self._tell(agent, entry)
        if may_wake and not is_primary and first.message_id not in self._turns:
            self._acting[first.message_id] = agent.agent_id
            self._turns[first.message_id] = asyncio.create_task(self._turn(agent, first))

    async def settle(self, acting: Callable[[ev.Event], Agent]) -> None:
        """Return when nobody who was woken comes next. acting: who acts for an event to happen."""
        for _ in range(_PATIENCE):
            coming = self._script.next()
            if not self._turns or self._script.parted:
                break
            if coming is not None and acting(coming).agent_id not in self._acting.values():
                return
            await asyncio.sleep(0)
        turns = list(self._turns.values())
        self.cancel()
        await asyncio.gather(*turns, return_exceptions=True)

    def cancel(self) -> None:
        """Cut off all turns, as the end of the process did."""
        for turn in self._turns.values():
            turn.cancel()

    def own(self) -> asyncio.Task[Any] | None:
        """Return the turn that runs here, where it is one of those."""
        return self._turns.get(_turn.get())

    def drop(self, agent: Agent, substance: str | None) -> None:
        """Forget news of an agent, which hears it in another way."""
        agent.news = [one for one in agent.news if substance is None or one.substance != substance]

    async def _turn(self, agent: Agent, coming: ev.Event) -> None:
        _turn.set(coming.message_id)
        try:
            for _ in range(_PAUSE):
                await asyncio.sleep(0)
            await agent.gate.opened()
            if self._script.is_done(coming) or self._script.parted:
                return
            is_hook = agent.state.place == "hook"
            async with agent.asking.here() if is_hook else nullcontext():
                with agent.gate.by_event(), suppress(Crash, HarkenError):
                    await agent.response()
        finally:
            del self._turns[coming.message_id], self._acting[coming.message_id]

    def _tell(self, agent: Agent, entry: ev.TranscriptEntry) -> None:
        here = self._script.here(entry.substance or "")
        if here is not None and entry.message_id not in self._told:
            self._told.add(entry.message_id)
            told = ev.TranscriptEntry(agent_id=agent.agent_id, role="user", content=entry.content)
            told.substance = MessageId(here)
            agent.news.append(told)

    def _is_news(self, event: ev.Event) -> bool:
        """Whether an agent heard what happened outside, or what a subagent made of that."""
        if not isinstance(event, ev.TranscriptEntry) or event.agent_id == USER:
            return False
        if event.role != "user" or event.substance is None:
            return False
        said = self._links.get(event.substance)
        return self._is_piece(event) or (
            isinstance(said, ev.TranscriptEntry)
            and said.role == "assistant"
            and said.agent_id not in (USER, event.agent_id)
            and self._agent(said.agent_id).state.parent == self._agent(event.agent_id).agent_id
        )

    def _is_piece(self, event: ev.TranscriptEntry) -> bool:
        piece = self._links.get(event.substance)
        return isinstance(piece, ev.PieceOfText) and piece.trigger is not None
