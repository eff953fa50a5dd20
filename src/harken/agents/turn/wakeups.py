"""`TriggerListener`: delivers trigger events to the agents that armed the triggers.

An event is logged at once, as a piece of text with the arming call as its cause, and is delivered
at the next safe point: at the start of a turn, or between two of its steps. An agent that is in no
turn is woken. Its answer is delivered to its parent in the same way, which is woken in turn, up to
the primary agent, whose answer the user gets.

Everything that a crash interrupts is in the log: undelivered events are delivered after a resume,
and an agent whose answer has not reached its parent is asked again, which repeats none of its
actions.

Source: docs/explanation/events.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from functools import partial
from typing import TypeAlias

from harken.agents import texts
from harken.agents.agent import Agent, load_agent
from harken.agents.dumb_agent import DumbAgent
from harken.agents.inputs import has_news
from harken.agents.open_calls import answer_or_stop, has_open_calls
from harken.agents.runtime import AgentRuntime
from harken.agents.turn.triggered_turn import triggered_turn, wait_for_turn
from harken.core.events import (
    AgentMoved,
    Event,
    PieceOfText,
    TranscriptEntry,
    TriggerArmed,
    TriggerDisarmed,
)
from harken.core.ids import AgentId, MessageId
from harken.core.logged_string import LoggedString
from harken.core.messages import text_of
from harken.errors import InvalidEvent, LogError
from harken.session.session import Session
from harken.world.result import ToolError
from harken.world.triggers.base import TriggerEvent, TriggerSource
from harken.world.triggers.file_watch import SelectKnownFiles
from harken.world.triggers.sources import Sources
from harken.world.triggers.timer import TriggerClock
from harken.world.triggers.trigger import ArmedTrigger, parse_triggers

Key: TypeAlias = tuple[AgentId, str, MessageId]
"""An agent, the name of its trigger, and the `trigger_armed`."""
MAX_UNREAD_EVENTS = 3
"""The maximum number of undelivered events of a trigger; later events are merged by its source."""
_POLL_S = 0.5


class TriggerListener:
    """The open trigger sources of a session, and the turns of the agents that they wake.

    The primary agent is not woken here: the caller that talks with it requests its answer, see
    `Conversation`.
    """

    def __init__(self, session: Session, runtime: AgentRuntime) -> None:
        """Prepare the listener; `open` starts it."""
        self.session, self.runtime = session, runtime
        self.changed = asyncio.Event()
        """Set on any change. The task that waits for it clears it."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._watching: dict[Key, asyncio.Task[None]] = {}
        self._turns: dict[AgentId, asyncio.Task[None]] = {}
        self._last_unread: dict[AgentId, Collection[MessageId]] = {}
        """Unread messages at an agent's last failed turn: they alone do not cause another turn."""
        self._failure: BaseException | None = None
        session.add_listener(self._on_event)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Listen until the end of the block, in tasks of the running loop."""
        sources = self.runtime.world.sources
        self._loop, self.changed = asyncio.get_running_loop(), asyncio.Event()
        if sources is not None:
            sources.listening = True
        state = self.session.state
        for agent_id in list(
            state.pending_reports
        ):  # a crash came before its parent got the answer
            if state.is_live(agent_id) and agent_id != state.primary:
                self._begin_turn(agent_id, is_owed=True)
        self._update()
        try:
            yield
        finally:
            self._loop = None
            await _cancel_tasks([*self._watching.values(), *self._turns.values()])
            if sources is not None:
                await sources.close()

    @property
    def is_busy(self) -> bool:
        """Whether something may still arrive without user input."""
        has_armed = self.runtime.world.sources is not None and armed_triggers(self.session)
        return bool(self._turns or has_armed or self._agents_to_wake())

    def check(self) -> None:
        """Raise the first unexpected failure, such as a failing log or a bug."""
        if self._failure is not None:
            raise self._failure

    def _on_event(self, event: Event) -> None:
        """Schedule an update for an event that may require one. Runs in any thread."""
        loop = self._loop
        changes = isinstance(event, (TriggerArmed, TriggerDisarmed, AgentMoved)) or (
            isinstance(event, PieceOfText) and event.trigger is not None
        )
        if changes and loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._update)

    def _update(self) -> None:
        """Watch armed triggers, wake agents with unread messages, cancel turns of ended agents."""
        if self._loop is None:
            return
        try:
            self._watch_armed(armed_triggers(self.session))
            for agent_id in self._agents_to_wake():
                self._begin_turn(agent_id)
            self._cancel_terminated()
        except Exception as error:  # noqa: BLE001 - raised by `check`: this is nobody's turn
            self._fail(error)
        self.changed.set()

    def _fail(self, error: BaseException) -> None:
        self._failure = self._failure or error
        self.changed.set()

    def _watch_armed(self, armed: dict[Key, ArmedTrigger]) -> None:
        """Watch exactly the armed triggers."""
        sources = self.runtime.world.sources
        for key in self._watching.keys() - armed.keys():
            self._watching.pop(key).cancel()
        for key, trigger in armed.items() if sources is not None else ():
            if key not in self._watching and sources is not None:
                self._watching[key] = asyncio.create_task(self._watch(sources, key, trigger))

    async def _watch(self, sources: Sources, key: Key, armed: ArmedTrigger) -> None:
        """Log all events of a source, until it ends."""
        agent_id, name, _ = key
        last = self.session.agents[agent_id].trigger_states.get(name)
        try:
            if (
                last is None or not armed.trigger.is_once
            ):  # otherwise only disarming was interrupted
                make = partial(sources.source, armed, agent_id, last)
                await self._log_events(make, sources.alarm, key, armed)
            self._disarm(key)
        except Exception as error:  # noqa: BLE001 - as in `_update`
            self._fail(error)
        finally:
            if self._watching.get(key) is asyncio.current_task():
                del self._watching[key]
            self.changed.set()

    async def _log_events(
        self,
        make: Callable[[SelectKnownFiles], TriggerSource],
        alarm: TriggerClock,
        key: Key,
        armed: ArmedTrigger,
    ) -> None:
        """Create a source and log its events, no faster than its agent reads them."""
        pieces: list[MessageId] = []
        try:
            source = make(partial(self._unchanged_files, key[0]))
            async with source.open():
                has_ended = False
                while not has_ended:
                    trigger_event = await source.wait()
                    pieces.append(self._log_event(key, armed, trigger_event))
                    has_ended = trigger_event.is_last
                    if not has_ended:
                        await alarm.pause(source.pause_s)
                        await self._wait_until_read(key[0], pieces)
        except ToolError as error:
            self._log_event(key, armed, TriggerEvent(text=texts.TRIGGER_ENDED.format(error)))

    async def _wait_until_read(self, agent_id: AgentId, pieces: list[MessageId]) -> None:
        """Wait until an agent has read most of the given pieces."""
        while True:
            unread = self.session.agents[agent_id].undelivered
            pieces[:] = [piece for piece in pieces if piece in unread]
            if len(pieces) < MAX_UNREAD_EVENTS:
                return
            await asyncio.sleep(_POLL_S)

    def _log_event(self, key: Key, armed: ArmedTrigger, happening: TriggerEvent) -> MessageId:
        """Log a trigger event. Return the id of its piece."""
        agent_id, name, _ = key
        note = texts.TRIGGER_NOTE.format(armed.trigger.note) if armed.trigger.note else ""
        piece = PieceOfText(
            agent_id=agent_id,
            content=texts.TRIGGER_EVENT.format(name, happening.text) + note,
            cause=armed.cause,
            trigger=name,
            seen=happening.seen,
        )
        try:
            self.session.append(piece)
        except InvalidEvent:  # it was armed in another session
            piece.cause = self.session.agents[agent_id].birth
            self.session.append(piece)
        self.session.sync()
        if happening.on_logged is not None:
            happening.on_logged()
        return piece.message_id

    def _disarm(self, key: Key) -> None:
        """Log that a trigger has ended, because of its last event."""
        agent_id, name, armed_id = key
        state = self.session.agents[agent_id]
        armed, last = state.triggers.get(name), state.trigger_states.get(name)
        is_armed = armed is not None and armed.message_id == armed_id
        if not is_armed or not self.session.state.is_live(agent_id):
            return
        event = TriggerDisarmed(agent_id=agent_id, name=name)
        event.cause = state.birth if last is None else last.piece
        try:
            self.session.append(event)
        except InvalidEvent:  # its last event was in another session
            event.cause = state.birth
            self.session.append(event)

    def _unchanged_files(self, agent_id: AgentId, names: Collection[str]) -> Collection[str]:
        """Return the files that an agent has read and that have not changed since."""
        agent, file_states = self._agent(agent_id), self.runtime.world.file_states
        known_files, changed = file_states.find_known_hashes(agent), file_states.find_changed(agent)
        return [name for name in names if name in known_files and name not in changed]

    def _agent(self, agent_id: AgentId) -> Agent:
        return load_agent(self.session, agent_id, self.runtime)

    def _agents_to_wake(self) -> list[AgentId]:
        """Return the agents to wake."""
        state = self.session.state
        return [
            id_
            for id_ in state.agents
            if id_ != state.primary
            and (news := unread_message_ids(self.session, id_))
            and not news <= set(self._last_unread.get(id_, ()))
            and state.is_live(id_)
        ]

    def _cancel_terminated(self) -> None:
        """Cancel the turns of terminated agents."""
        for id_, turn in self._turns.items():
            if not self.session.state.is_live(id_):
                turn.cancel()

    def _begin_turn(self, agent_id: AgentId, *, is_owed: bool = False) -> None:
        if agent_id not in self._turns:
            self._turns[agent_id] = asyncio.create_task(self._turn(agent_id, is_owed=is_owed))

    async def _turn(self, agent_id: AgentId, *, is_owed: bool) -> None:
        """Run a turn of an agent for its unread messages, and deliver its answer to its parent."""
        name = self.session.agents[agent_id].name or agent_id
        try:
            agent = self._agent(agent_id)
            await wait_for_turn(agent)
            news = unread_message_ids(
                self.session, agent_id
            )  # another turn may have read it meanwhile
            if (news or is_owed) and agent_id != self.session.state.primary:
                self._last_unread[agent_id] = news
                self._deliver_to_parent(agent, await self._answer(agent))
        except LogError as error:
            self._fail(error)
        except Exception as error:  # noqa: BLE001 - the border: nobody waits for this turn
            self.runtime.notify(f"{name} was woken and could not answer: {error}")
        finally:
            del self._turns[agent_id]
            self._update()

    async def _answer(self, agent: Agent) -> LoggedString:
        """Return the answer of an agent's turn, or its last answer if it owes none."""
        if isinstance(agent, DumbAgent) and not has_news(agent) and not has_open_calls(agent):
            entry = (agent.state.transcript or [])[-1]
            return LoggedString(text_of(entry.content), entry.message_id)
        async with triggered_turn(agent):
            return await answer_or_stop(agent)

    def _deliver_to_parent(self, agent: Agent, answer: LoggedString) -> None:
        """Queue an answer for the parent if no caller waits for it."""
        state = agent.state
        if state.parent is None or agent.agent_id not in self.session.state.pending_reports:
            return
        if state.place == "hook":
            text = texts.HOOK_MESSAGE.format(agent.name, answer)
            entry = TranscriptEntry(
                agent_id=state.parent,
                role="user",
                content=text,
                cause=answer.message_id,
                purpose="comment",
            )
        else:
            entry = TranscriptEntry(
                agent_id=state.parent,
                role="user",
                content=str(answer.as_said_by(agent.name)),
                substance=answer.message_id,
            )
        self._agent(state.parent)._unread_results.append(entry)


def armed_triggers(session: Session) -> dict[Key, ArmedTrigger]:
    """Return the triggers of live agents."""
    state = session.state
    return {
        (id_, name, armed.id): armed
        for id_, agent in state.agents.items()
        if agent.triggers and state.is_live(id_)
        for name, armed in parse_triggers(agent.triggers).items()
    }


def unread_message_ids(session: Session, agent_id: AgentId) -> set[MessageId]:
    """Return the ids of an agent's unread messages: pieces, and answers of subagents."""
    agent = session.live.get(agent_id)
    entries = agent._unread_results if isinstance(agent, Agent) else ()
    links = (entry.substance or entry.cause for entry in entries)
    return {*session.agents[agent_id].undelivered, *(MessageId(str(link)) for link in links)}


async def _cancel_tasks(tasks: Collection[asyncio.Task[None]]) -> None:
    """Cancel tasks and wait for their end."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
